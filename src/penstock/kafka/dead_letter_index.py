"""The dead letters, known without their events: an index that follows the topic, so that nobody has to read it whole.

In: the records of the topic, from its beginning. Out: for each letter who did not take it and why, and where its
record is. The controller keeps one (``control/dead_letters.py``) for groups, rows, counts and jobs.

Memory is bounded: of those that were not sent again the newest ``MOST`` are known, of the others the newest few. When
enough of them are sent again, the topic is read once more for those that had no room.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from penstock.contract.model import DEAD_LETTERS_TOPIC, DeadLetter, dead_letter_key, decode_dead_letter
from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.follow import Follower

MOST = 50_000  # about 25 MB
MOST_REDRIVEN = 5_000
MOST_MARKED = 500_000
REREAD_SECONDS = 30.0  # not more often than this
LONGEST_TEXT = 300  # of a reason, an answer, a source, a type
LONGEST_ID = 1000
LOOK_SECONDS = 30.0  # how often it is asked what retention has taken
CURRENT_SECONDS = 10.0
CLOSED_SECONDS = 5.0
LATEST = 1e11  # seconds since the epoch


class Indexed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A dead letter without its event. The names are those of ``DeadLetter``."""

    record: int  # the offset of its record among the dead letters
    id: str
    source: str
    type: str
    kind: str
    namespace: str
    name: str
    uid: str
    topic: str
    partition: int
    offset: int
    outcome: str
    reason: str
    code: int
    attempts: int
    time: float
    redriven: float
    answer: str
    topic_id: str = ""

    @property
    def key(self) -> str:
        return dead_letter_key(self.uid, self.topic_id, self.partition, self.offset)

    @property
    def subscription(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Waiting:
    """The dead letters of a subscription that were not sent again."""

    count: int
    oldest: float  # seconds since the epoch
    by_class: Mapping[str, int] = field(default_factory=dict)  # of how the last attempt ended: telemetry's CLASSES


class DeadLetterIndex:
    """Kept current by a thread from ``start`` to ``stop``."""

    def __init__(self, connection: KafkaConnection, most: int = MOST) -> None:
        self._connection = connection
        self._most = most
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._open: dict[str, Indexed] = {}  # not sent again, in the order of their records
        self._redriven: dict[str, Indexed] = {}
        self._waiting: Mapping[str, Waiting] | None = None  # until something changes
        self._left_out = False  # of the open ones
        self._marked: set[int] = set()  # hashes of keys that were sent again: their first word is passed by
        self._reread_due = 0.0
        self._taken = 0  # the offset after the last record that was ever taken
        self._look_due = time.monotonic() + LOOK_SECONDS
        self.follower = Follower(connection, DEAD_LETTERS_TOPIC, self)

    def start(self) -> "DeadLetterIndex":
        self.follower.start()
        return self

    def stop(self) -> None:
        self.follower.stop()

    def wait_until_current(self, timeout_seconds: float = CURRENT_SECONDS) -> None:
        if not self.follower.wait_until_current(timeout_seconds):
            raise Unavailable(
                f"topic {DEAD_LETTERS_TOPIC} at {self._connection.bootstrap_servers} is not read to its end yet",
                hint="try again in a moment; is Kafka running?",
            )

    def find(
        self, wanted: Callable[[Indexed], bool] = lambda _: True, *, with_redriven: bool = False
    ) -> list[Indexed]:
        """Those, the oldest first."""
        with self._lock:
            known = [*self._open.values(), *(self._redriven.values() if with_redriven else ())]
        return sorted((each for each in known if wanted(each)), key=lambda each: each.time)

    def is_open(self, key: str) -> bool:
        """Whether it is known and has not been sent again."""
        with self._lock:
            return key in self._open

    def wait_until_closed(self, keys: Iterable[str], timeout_seconds: float = CLOSED_SECONDS) -> bool:
        """Whether all of them are known as sent again; who has marked them asks, so that it sees its own work."""
        with self._changed:
            return self._changed.wait_for(lambda: not any(key in self._open for key in keys), timeout_seconds)

    def waiting(self) -> Mapping[str, Waiting]:
        """How many there are and since when, by the uid of the subscription. Cheap: it may be asked every second."""
        with self._lock:
            if self._waiting is None:
                times: dict[str, float] = {}
                classes: dict[str, Counter[str]] = {}
                for each in self._open.values():
                    times[each.uid] = min(times.get(each.uid, each.time), each.time)
                    classes.setdefault(each.uid, Counter())[_class_of(each)] += 1
                self._waiting = {uid: Waiting(classes[uid].total(), times[uid], classes[uid]) for uid in times}
            return self._waiting

    @property
    def is_more(self) -> bool:
        """Whether there are older ones that had no room here."""
        return self._left_out

    # ── for the follower ──────────────────────────────────────────────────────────────────────────

    def take(self, offset: int, key: str, value: bytes | None) -> None:
        self._note(key, offset, None if value is None else _indexed(decode_dead_letter(value), offset))

    def start_over(self) -> None:
        with self._changed:
            self._open.clear()
            self._redriven.clear()
            self._marked.clear()
            self._waiting, self._left_out, self._taken = None, False, 0
            self._changed.notify_all()

    def rest(self) -> None:
        if time.monotonic() >= self._look_due:
            self._look_due = time.monotonic() + LOOK_SECONDS
            self._forget_before(self.follower.first_offset())
        if self.follower.is_current and self._has_room_again():
            self._left_out = False
            self.follower.read_again()

    def _has_room_again(self) -> bool:
        if not self._left_out or len(self._open) > self._most // 2 or time.monotonic() < self._reread_due:
            return False
        self._reread_due = time.monotonic() + REREAD_SECONDS
        return True

    def _note(self, key: str, offset: int, letter: Indexed | None) -> None:
        with self._lock:
            is_known = offset < self._taken  # it is read again; a later record of its key may be known already
            self._taken = max(self._taken, offset + 1)
            self._waiting = None
            self._open.pop(key, None)  # an earlier word on the same event
            if letter is None or letter.redriven:
                self._redriven.pop(key, None)
            if letter is None or (is_known and not letter.redriven and hash(key) in self._marked):
                return
            if letter.redriven and len(self._marked) < MOST_MARKED:
                self._marked.add(hash(key))
            elif not letter.redriven:
                self._marked.discard(hash(key))
            kept, most = (self._redriven, MOST_REDRIVEN) if letter.redriven else (self._open, self._most)
            kept[key] = letter
            if len(kept) > most:
                kept.pop(next(iter(kept)))
                self._left_out = self._left_out or kept is self._open
            self._changed.notify_all()

    def _forget_before(self, begin: int) -> None:
        """What retention has taken."""
        with self._lock:
            self._waiting = None
            for kept in (self._open, self._redriven):
                for key in [key for key, each in kept.items() if each.record < begin]:
                    del kept[key]


def _class_of(letter: Indexed) -> str:
    if letter.code:
        return f"{letter.code // 100}xx"
    return "timeout" if "timed out" in letter.reason else "error"


def _indexed(letter: DeadLetter, record: int) -> Indexed:
    """Strings that many dead letters share are kept once. Raises ValueError for values that no worker writes."""
    if not (0 <= letter.time < LATEST and 0 <= letter.redriven < LATEST):
        raise ValueError(f"{letter.time:g} and {letter.redriven:g} are not valid times")
    same = sys.intern
    return Indexed(
        record=record,
        id=letter.id[:LONGEST_ID],
        source=same(letter.source[:LONGEST_TEXT]),
        type=same(letter.type[:LONGEST_TEXT]),
        kind=same(letter.kind),
        namespace=same(letter.namespace),
        name=same(letter.name),
        uid=same(letter.uid),
        topic=same(letter.topic),
        partition=letter.partition,
        offset=letter.offset,
        outcome=same(letter.outcome),
        reason=same(letter.reason[:LONGEST_TEXT]),
        code=letter.code,
        attempts=letter.attempts,
        time=letter.time,
        redriven=letter.redriven,
        answer=same(letter.answer[:LONGEST_TEXT]),
        topic_id=same(letter.topic_id),
    )
