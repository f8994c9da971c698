"""What a worker is busy with, so that its successor knows which event it died of.

A few bytes in a mapped file outlive the process whatever ends it. Before a worker touches an event it writes the
offset there, and takes it back afterwards. A successor that finds an offset knows: this one ended its predecessor.
An event that did so twice is set aside instead of being touched a third time: it would stop its partition for good.

    offset   what is being touched now, -1: nothing
    suspect  what a predecessor died of, and how often
    crashes
    pid      of the worker, 0: it ended in order
    query    the number of its query

The dispatcher looks at the files too (``dead_workers``): Spark notices the end of a worker only when the next record
comes to its partition, and by then somebody may have waited for long.
"""

import mmap
import os
import struct
from pathlib import Path

STATE = struct.Struct("<qqqqq")
CURRENT = struct.Struct("<q")
NOTHING = -1
MOST_CRASHES = 2


class Marks:
    """Of one partition. The file is in the scratch folder, which a new dispatcher empties."""

    def __init__(self, path: Path, query: int = 0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(fd).st_size < STATE.size:
                os.pwrite(fd, STATE.pack(NOTHING, NOTHING, 0, 0, 0), 0)
            self._map = mmap.mmap(fd, STATE.size)
        finally:
            os.close(fd)
        at, suspect, crashes, before, _ = STATE.unpack_from(self._map)
        is_alive = before not in (0, os.getpid()) and Path(f"/proc/{before}").exists()
        if at != NOTHING and not is_alive:  # in a take-over the predecessor may still be at work
            suspect, crashes = at, crashes + 1 if at == suspect else 1
        self._rest = suspect, crashes
        STATE.pack_into(self._map, 0, NOTHING, *self._rest, os.getpid(), query)
        self.poison = suspect if crashes >= MOST_CRASHES else NOTHING

    def touch(self, offset: int) -> None:
        CURRENT.pack_into(self._map, 0, offset)

    def leave(self) -> None:
        CURRENT.pack_into(self._map, 0, NOTHING)

    def close(self) -> None:
        """In order: whatever was touched has ended nobody. A successor may have written its own name by now."""
        *_, pid, _ = STATE.unpack_from(self._map)
        if pid == os.getpid():
            STATE.pack_into(self._map, 0, NOTHING, *self._rest, 0, 0)
        self._map.close()


def dead_workers(folder: Path) -> set[int]:
    """The numbers of queries of which a worker on this host is gone without having ended in order."""
    found = set()
    for path in folder.glob("*"):
        try:
            *_, pid, query = STATE.unpack(path.read_bytes())
        except (OSError, struct.error):
            continue  # it is being made
        if pid and not Path(f"/proc/{pid}").exists():
            found.add(query)
    return found
