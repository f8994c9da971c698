"""What a worker is busy with, so that its successor knows which event it died of.

A few bytes in a mapped file outlive the process whatever ends it. Before a worker touches an event it writes the
offset there, and takes it back afterwards. A successor that finds an offset knows: this one ended its predecessor.
An event that did so twice is set aside instead of being touched a third time: it would stop its partition for good.

    offset   what is being touched now, -1: nothing
    suspect  what a predecessor died of, and how often
    crashes
    pid      of the worker, 0: it ended in order, -1: it failed
    query    the number of its query
    beats    rounds of its loop: whoever hangs does not beat

The dispatcher looks at the files too (``WorkerWatch``). Spark notices that a worker has failed, or is gone, only when
the next record comes to its partition, and by then somebody may have waited for long; and one that hangs it never
notices. A failed one does not even go: it waits for Spark to end it.
"""

import logging
import mmap
import os
import signal
import struct
import time
from pathlib import Path

logger = logging.getLogger("penstock.dispatcher")

STATE = struct.Struct("<qqqqqq")
CURRENT = struct.Struct("<q")
BEATS_AT = 5 * CURRENT.size
NOTHING = -1
FAILED = -1
NOBODY = STATE.pack(NOTHING, NOTHING, 0, 0, 0, 0)
STANDBY = "standby"  # in the names of those who have no partition yet
MOST_CRASHES = 2
HUNG_SECONDS = 60.0  # a round may wait 20 s for Kafka; a take-over for its predecessor as well
SHORTEST_LOOK_SECONDS = 0.2  # between two looks; whoever asks sooner hears of the last one
LONGEST_LOOK_SECONDS = 1.0  # more between two looks: the dispatcher itself stood still, and all others perhaps


class Marks:
    """Of one partition. The file is in the scratch folder, which a new dispatcher empties."""

    def __init__(self, path: Path, query: int = 0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(fd).st_size < STATE.size:
                os.pwrite(fd, NOBODY, 0)
            self._map = mmap.mmap(fd, STATE.size)
        finally:
            os.close(fd)
        at, suspect, crashes, before, *_ = STATE.unpack_from(self._map)
        is_alive = before not in (0, os.getpid()) and Path(f"/proc/{before}").exists()
        if at != NOTHING and not is_alive:  # in a take-over the predecessor may still be at work
            suspect, crashes = at, crashes + 1 if at == suspect else 1
        self._rest = suspect, crashes
        self._beats = 0
        STATE.pack_into(self._map, 0, NOTHING, *self._rest, os.getpid(), query, 0)
        self.poison = suspect if crashes >= MOST_CRASHES else NOTHING

    def touch(self, offset: int) -> None:
        CURRENT.pack_into(self._map, 0, offset)

    def leave(self) -> None:
        CURRENT.pack_into(self._map, 0, NOTHING)

    def beat(self) -> None:
        """Once in every round. A successor that has written its own name by now has another count, and goes on."""
        self._beats += 1
        CURRENT.pack_into(self._map, BEATS_AT, self._beats)

    def close(self) -> None:
        """In order: whatever was touched has ended nobody."""
        self._end(NOTHING, pid=0)

    @property
    def is_closed(self) -> bool:
        return self._map.closed

    def fail(self) -> None:
        """Not in order: what was touched may be the cause, and the query has to be started again."""
        if not self.is_closed:
            self._end(CURRENT.unpack_from(self._map)[0], FAILED)

    def _end(self, at: int, pid: int) -> None:
        if self.is_closed:
            return
        *_, holder, query, _ = STATE.unpack_from(self._map)
        if holder == os.getpid():  # or a successor has written its own name by now
            STATE.pack_into(self._map, 0, at, *self._rest, pid, query if pid else 0, 0)
        self._map.close()


class WorkerWatch:
    """Over all workers on this host. Asked again and again, by one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._looked_at = time.monotonic()
        self._found: set[int] | None = None  # at the last look
        self._silent: dict[Path, tuple[bytes, float]] = {}  # what it says, and for how long it has said only that

    def dead(self) -> set[int]:
        """The numbers of queries of which a worker has failed, or is gone without having ended in order.

        A worker that hangs is ended, and found gone at the next look.
        """
        now = time.monotonic()
        if self._found is not None and now - self._looked_at < SHORTEST_LOOK_SECONDS:
            return self._found
        since, self._looked_at = min(now - self._looked_at, LONGEST_LOOK_SECONDS), now
        found, silent = set(), {}
        for path in self._folder.glob("*"):
            state = _read(path)
            *_, pid, query, _ = STATE.unpack(state)
            if not pid:
                continue
            if pid == FAILED or not Path(f"/proc/{pid}").exists():
                found.add(query)
                continue
            before, seconds = self._silent.get(path, (b"", 0.0))
            seconds = seconds + since if state == before else 0.0
            if seconds > HUNG_SECONDS:
                _end_hung(pid, path)
                seconds = 0.0
            silent[path] = state, seconds
        self._silent, self._found = silent, found
        return found

    def has_begun(self, query: int) -> bool:
        """Whether a worker of this query has had rows, and has not ended in order: it may have claimed the partition,
        or be about to."""
        files = [path for path in self._folder.glob("*") if f"-{STANDBY}-" not in path.name]
        return any(STATE.unpack(_read(path))[4] == query for path in files)


def _read(path: Path) -> bytes:
    """Of one that is being made: what it will be."""
    try:
        state = path.read_bytes()
    except OSError:
        state = b""
    return state if len(state) == STATE.size else NOBODY


def _end_hung(pid: int, path: Path) -> None:
    """If it is that worker, and not somebody who has its number by now."""
    try:
        if str(path) not in Path(f"/proc/{pid}/maps").read_text():
            return
        os.kill(pid, signal.SIGKILL)
    except OSError as error:
        logger.warning("worker %d hangs and could not be ended: %s", pid, error)
    else:
        logger.error("worker %d has not moved for %g s: ended", pid, HUNG_SECONDS)
