"""What happened to every attempt of a lane: noted as cheaply as can be, summed up once a second.

    note ─▶ a list ─┬─▶ summed_up: counts and histograms, for the metrics
                    └─▶ logged: a line for each, for whoever asks where an event is

Written by the delivering loop, read by ``pipeline.delivery_counts``. Pure but for the clock.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter, sub
from time import time
from typing import Any, NamedTuple, Protocol

from penstock.contract.telemetry import (
    DEAD_LETTERED,
    DELIVERED,
    GIVEN_UP,
    RETRIED,
    SINK_GIVEN_UP,
    TO_SINK_RETRIED,
    Holds,
    Served,
)
from penstock.telemetry.histogram import Durations, durations

WHY_BYTES = 200
OF_SINK = frozenset({DEAD_LETTERED, TO_SINK_RETRIED, SINK_GIVEN_UP})  # requests to the dead letter sink
TIMED_OUT = "timed out"
CLASS_OF_HUNDRED = {2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}


# An attempt for one event: its offset; when the receiver had it, when Kafka had it, when the request began and was
# answered (seconds since the epoch; an event of unknown receipt was received when it was written); the status; how it
# ended (contract.telemetry.DELIVERED and its neighbours); failures including this one; why.
Noted = tuple[int, float, float, float, float, int, int, int, str]
OFFSET, RECEIVED, WRITTEN, BEGAN, ANSWERED, STATUS, ENDED, FAILURES = range(8)
Field = Callable[[Noted], Any]
_received, _written, _began, _answered = map(itemgetter, (RECEIVED, WRITTEN, BEGAN, ANSWERED))
_status, _ended, _failures = map(itemgetter, (STATUS, ENDED, FAILURES))


class Attempted(Protocol):
    """What is noted of an attempt; ``delivery.lane.Attempt`` is one."""

    rows: list[Any]
    failures: int
    status: int
    began: float
    answered: float


class Tally:
    """Of one lane."""

    __slots__ = ("last_error", "matched", "noted")

    def __init__(self) -> None:
        self.matched = 0
        self.noted: list[Noted] = []
        self.last_error = ""  # since it last worked

    def note(self, attempt: Attempted, ended: int = DELIVERED, why: str = "") -> None:
        """Plain tuples, since there is one for every delivery."""
        began, answered, status, failures = attempt.began, attempt.answered, attempt.status, attempt.failures
        if not began:  # it was never sent
            began = answered = time()
        if why:
            why = why[:WHY_BYTES]
        for row in attempt.rows:
            written = row.written or began
            self.noted.append(
                (row.offset, row.received or written, written, began, answered, status, ended, failures, why)
            )

    def take(self) -> tuple[int, list[Noted]]:
        """What came since the last time: how many matched, and the attempts."""
        taken = self.matched, self.noted
        self.matched, self.noted = 0, []
        return taken


class SilentTally(Tally):
    """For measuring what the other costs."""

    __slots__ = ()

    def note(self, attempt: Attempted, ended: int = DELIVERED, why: str = "") -> None:
        pass


def how_failed(attempt: Any, *, is_last: bool) -> int:
    """Of an attempt that failed: what the log says of it."""
    if attempt.verdict is not None:
        return SINK_GIVEN_UP if is_last else TO_SINK_RETRIED
    return GIVEN_UP if is_last and not attempt.lane.subscription.delivery.dead_letter_url else RETRIED


def summed_up(matched: int, noted: Sequence[Noted]) -> Served:
    """Of attempts in the thousands, with loops in C: to count each one as it comes takes twice as long."""
    ways = set(map(_ended, noted))
    if not ways.isdisjoint(OF_SINK):
        noted = [each for each in noted if each[ENDED] not in OF_SINK]
        ways -= OF_SINK
    if not noted:
        return Served(matched=matched)
    delivered = noted if ways == {DELIVERED} else [each for each in noted if each[ENDED] == DELIVERED]
    return Served(
        matched=matched,
        attempts=_classes(noted),
        retries=_retries(noted),
        kafka_to_subscriber=_durations(delivered, _written, _began),
        subscriber=_durations(noted, _began, _answered),
        whole_way=_durations(delivered, _received, _answered),
    )


def logged(place: int, noted: Iterable[Noted], base: float) -> list[tuple[Any, ...]]:
    """The attempts as ``LoggedAttempt``s: tuples, since these are encoded the same and made in a fraction of it."""
    return [
        (place, offset, int((began - base) * 1000), int((answered - began) * 1000), status)
        if not failures and ended == DELIVERED
        else (
            *(place, offset, int((began - base) * 1000), int((answered - began) * 1000)),
            *(status, ended, failures, why),
        )
        for offset, _, _, began, answered, status, ended, failures, why in noted
    ]


def _retries(noted: Sequence[Noted]) -> int:
    """Attempts with a failure before them; one that failed counts itself among its failures."""
    if not any(map(_failures, noted)):
        return 0
    return sum(1 for *_, ended, failures, _ in noted if failures > (0 if ended == DELIVERED else 1))


def _durations(noted: Sequence[Noted], begin: Field, end: Field) -> Durations | None:
    """A clock that was set back makes no negative ones."""
    if not noted:
        return None
    seconds = list(map(sub, map(end, noted), map(begin, noted)))
    if min(seconds) < 0:
        seconds = [max(0.0, each) for each in seconds]
    return durations(seconds)


def _classes(noted: Sequence[Noted]) -> dict[str, int]:
    """How many attempts ended in each class of answers."""
    found: Counter[str] = Counter()
    for status, count in Counter(map(_status, noted)).items():
        if status:
            found[CLASS_OF_HUNDRED.get(status // 100, "error")] += count
        else:
            timeouts = sum(1 for *_, of, _, _, why in noted if not of and TIMED_OUT in why)
            found["timeout"] += timeouts
            found["error"] += count - timeouts
    return {name: count for name, count in found.items() if count}


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
