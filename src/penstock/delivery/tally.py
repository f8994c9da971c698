"""What happened to every attempt of a lane: noted as cheaply as can be, summed up once a second.

    note ─▶ one flat list ─▶ columns ─┬─▶ summed_up: counts and histograms, for the metrics
                                      └─▶ logged: a line for each, for whoever asks where an event is

Written by the delivering loop, read by ``pipeline.delivery_counts``. Pure but for the clock.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import sub
from time import time
from typing import Any, NamedTuple, Protocol

from penstock.contract.telemetry import (
    DEAD_LETTERED,
    DELIVERED,
    GIVEN_UP,
    OFFSETS,
    RETRIED,
    SECONDS,
    SHORT_SECONDS,
    SINK_GIVEN_UP,
    STATUSES,
    TO_SINK_RETRIED,
    Holds,
    LaneLog,
    Odd,
    Served,
    packed,
)
from penstock.telemetry.histogram import durations

WHY_BYTES = 200
OF_SINK = frozenset({DEAD_LETTERED, TO_SINK_RETRIED, SINK_GIVEN_UP})  # requests to the dead letter sink
TIMED_OUT = "timed out"
CLASS_OF_HUNDRED = {2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}
WIDTH = 6  # how many values are noted of an attempt
PLAIN = Odd()


class Attempted(Protocol):
    """What is noted of an attempt; ``delivery.lane.Attempt`` is one."""

    rows: list[Any]
    failures: int
    status: int
    began: float
    answered: float


class Tally:
    """Of one lane."""

    __slots__ = ("last_error", "matched", "noted", "odd")

    def __init__(self) -> None:
        self.matched = 0
        self.noted: list[Any] = []  # WIDTH values for each attempt, as ``Columns`` has them
        self.odd: dict[int, Odd] = {}  # by number of the attempt; all others were delivered at the first try
        self.last_error = ""  # since it last worked

    def note(self, attempt: Attempted, ended: int = DELIVERED, why: str = "") -> None:
        """Values in one list, since this is done for every delivery: nothing is made that lasts, and a column of them
        is one slice."""
        began, answered, status, failures = attempt.began, attempt.answered, attempt.status, attempt.failures
        if not began:  # it was never sent
            began = answered = time()
        noted = self.noted
        for row in attempt.rows:
            if failures or ended:
                self.odd[self.attempts] = Odd(ended, failures, why[:WHY_BYTES])
            noted += (row.offset, row.received, row.written, began, answered, status)

    @property
    def attempts(self) -> int:
        """How many have been noted since they were last taken."""
        return len(self.noted) // WIDTH

    def take(self) -> "Columns":
        """What came since the last time."""
        offsets, received, written, began, answered, statuses = (self.noted[n::WIDTH] for n in range(WIDTH))
        took = list(map(sub, answered, began))
        taken = Columns(self.matched, self.odd, offsets, received, written, began, answered, took, statuses)
        self.matched, self.noted, self.odd = 0, [], {}
        return taken


class SilentTally(Tally):
    """For measuring what the other costs."""

    __slots__ = ()

    def note(self, attempt: Attempted, ended: int = DELIVERED, why: str = "") -> None:
        pass


class Columns(NamedTuple):
    """Attempts of one lane. Times are seconds since the epoch; 0: not known."""

    matched: int  # events that were for the lane
    odd: dict[int, Odd]
    offsets: list[int]
    received: list[float]  # by the receiver
    written: list[float]  # to Kafka
    began: list[float]  # the request
    answered: list[float]
    took: list[float]  # the request, in seconds
    statuses: list[int]

    def where(self, is_meant: Callable[[Odd], bool]) -> "Columns":
        """Those of which it holds. That all others are plain makes this quick."""
        if is_meant(PLAIN) and all(map(is_meant, self.odd.values())):
            return self
        numbers = [n for n in range(len(self.offsets)) if is_meant(self.odd.get(n, PLAIN))]
        odd = {at: self.odd[n] for at, n in enumerate(numbers) if n in self.odd}
        columns: list[list[Any]] = [[column[n] for n in numbers] for column in self[2:]]
        return Columns(self.matched, odd, *columns)


def how_failed(attempt: Any, *, is_last: bool) -> int:
    """Of an attempt that failed: what the log says of it."""
    if attempt.verdict is not None:
        return SINK_GIVEN_UP if is_last else TO_SINK_RETRIED
    return GIVEN_UP if is_last and not attempt.lane.subscription.delivery.dead_letter_url else RETRIED


def summed_up(noted: Columns) -> Served:
    """Of attempts in the thousands, with loops in C: to count each one as it comes takes twice as long."""
    asked = noted.where(lambda each: each.ended not in OF_SINK)
    if not asked.offsets:
        return Served(matched=noted.matched)
    served = Served(
        matched=noted.matched,
        attempts=_classes(asked),
        retries=sum(map(_is_retry, asked.odd.values())),
        subscriber=durations(asked.took),
    )
    delivered = asked.where(lambda each: each.ended == DELIVERED)
    if delivered.offsets:
        written = _known(delivered.written, delivered.began)
        served.kafka_to_subscriber = durations(map(sub, delivered.began, written))
        served.whole_way = durations(map(sub, delivered.answered, _known(delivered.received, written)))
    return served


def logged(uid: str, noted: Columns) -> LaneLog:
    return LaneLog(
        uid,
        packed(OFFSETS, noted.offsets),
        packed(SECONDS, noted.began),
        packed(SHORT_SECONDS, noted.took),
        packed(STATUSES, noted.statuses),
        noted.odd,
    )


def _known(times: list[float], otherwise: list[float]) -> list[float]:
    """An event of unknown receipt was received when it was written."""
    return times if all(times) else [one or other for one, other in zip(times, otherwise, strict=True)]


def _is_retry(attempt: Odd) -> bool:
    """Whether a failure was before it; one that failed counts itself among its failures."""
    return attempt.failures > (0 if attempt.ended == DELIVERED else 1)


def _classes(noted: Columns) -> dict[str, int]:
    """How many attempts ended in each class of answers; mostly all in the same."""
    first, number = noted.statuses[0], len(noted.statuses)
    if first and noted.statuses.count(first) == number:
        return {_class(first): number}
    found: Counter[str] = Counter()
    for status, count in Counter(noted.statuses).items():
        if status:
            found[_class(status)] += count
        else:
            timeouts = sum(TIMED_OUT in each.why for n, each in noted.odd.items() if not noted.statuses[n])
            found["timeout"] += timeouts
            found["error"] += count - timeouts
    return {name: count for name, count in found.items() if count}


def _class(status: int) -> str:
    return CLASS_OF_HUNDRED.get(status // 100, "error")


class Waiting(NamedTuple):
    """Events of a lane that wait for their next try."""

    events: int = 0
    next_try: float = 0.0  # seconds since the epoch
    failures: int = 0  # of the one that has failed most often


def holds(lanes: Iterable[Any], waiting: Mapping[Any, Waiting]) -> dict[str, Holds]:
    """What each lane has in hand, by uid; those with nothing are left out."""
    found = {}
    for lane in lanes:
        unfinished = lane.progress.open_count
        if unfinished and not lane.is_parked:
            retrying = waiting.get(lane, Waiting())
            found[lane.subscription.uid] = Holds(
                lane.busy,
                unfinished,
                retrying.events,
                lane.tally.last_error,
                retrying.next_try,
                retrying.failures,
            )
    return found
