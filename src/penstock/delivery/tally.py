"""What happened to every attempt of a lane: counted at once, told once a second.

    note ─┬─▶ sums: counts and histograms, for the metrics
          └─▶ a list ─▶ logged: a line for each, for whoever asks where an event is

Counted at once and not later from the list: what is a second old is no longer in the processor's cache, and to look
at it again takes several times as long. Written by the delivering loop, read by ``pipeline.delivery_counts``. Pure
but for the clock.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
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
from penstock.telemetry.histogram import BOUNDS, Durations

WHY_BYTES = 200
OF_SINK = frozenset({DEAD_LETTERED, TO_SINK_RETRIED, SINK_GIVEN_UP})  # requests to the dead letter sink
TIMED_OUT = "timed out"
FAILED = "failed"
CLASS_OF_HUNDRED = {2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}


# An attempt for one event: its offset, when the request began and was answered (seconds since the epoch), the status.
# One that failed, or had failed before, is longer: how it ended (contract.telemetry.DELIVERED and its neighbours),
# failures including this one, why.
Noted = tuple[int, float, float, int] | tuple[int, float, float, int, int, int, str]
PLAIN = 4  # the length of one that worked at once
BEGAN = 1


class Attempted(Protocol):
    """What is noted of an attempt; ``delivery.lane.Attempt`` is one."""

    rows: list[Any]
    failures: int
    status: int
    began: float
    answered: float


class Sums:
    """Growth since the last time."""

    __slots__ = ("answers", "retries", "subscriber", "subscriber_sum", "waited", "waited_sum", "whole", "whole_sum")

    def __init__(self) -> None:
        self.answers: dict[int | str, int] = {}  # attempts by status; without one by TIMED_OUT or FAILED
        self.retries = 0
        self.waited: dict[int, int] = {}  # from Kafka to the request; events by bucket, as in Durations
        self.waited_sum = 0.0
        self.subscriber: dict[int, int] = {}  # from the request to its answer
        self.subscriber_sum = 0.0
        self.whole: dict[int, int] = {}  # from the receiver to the answer
        self.whole_sum = 0.0


class Tally:
    """Of one lane."""

    __slots__ = ("_sums", "last_error", "matched", "noted")

    def __init__(self) -> None:
        self.matched = 0
        self.noted: list[Noted] = []
        self.last_error = ""  # since it last worked
        self._sums: Sums | None = None

    def note(self, attempt: Attempted, ended: int = DELIVERED, why: str = "") -> None:
        """In plain words, since it is done for every delivery. A clock that was set back makes no negative durations;
        an event of unknown receipt was received when it was written."""
        began, answered, status, failures = attempt.began, attempt.answered, attempt.status, attempt.failures
        if not began:  # it was never sent
            began = answered = time()
        sums = self._sums
        if sums is None:
            sums = self._sums = Sums()
        if ended == DELIVERED:
            for row in attempt.rows:
                written = row.written or began
                seconds = began - written if began > written else 0.0
                bucket = bisect_left(BOUNDS, seconds)
                sums.waited[bucket] = sums.waited.get(bucket, 0) + 1
                sums.waited_sum += seconds
                received = row.received or written
                seconds = answered - received if answered > received else 0.0
                bucket = bisect_left(BOUNDS, seconds)
                sums.whole[bucket] = sums.whole.get(bucket, 0) + 1
                sums.whole_sum += seconds
        if ended not in OF_SINK:
            events = len(attempt.rows)
            seconds = answered - began if answered > began else 0.0
            bucket = bisect_left(BOUNDS, seconds)
            sums.subscriber[bucket] = sums.subscriber.get(bucket, 0) + events
            sums.subscriber_sum += seconds * events
            answer = status or (TIMED_OUT if TIMED_OUT in why else FAILED)
            sums.answers[answer] = sums.answers.get(answer, 0) + events
            if failures > (0 if ended == DELIVERED else 1):  # one that failed counts itself among its failures
                sums.retries += events
        if ended == DELIVERED and not failures:
            for row in attempt.rows:
                self.noted.append((row.offset, began, answered, status))
        else:
            why = why[:WHY_BYTES]
            for row in attempt.rows:
                self.noted.append((row.offset, began, answered, status, ended, failures, why))

    def take(self) -> tuple[Served | None, list[Noted]]:
        """What came since the last time: its sums, None when nothing did, and the attempts."""
        matched, noted, sums = self.matched, self.noted, self._sums
        if not (matched or noted):
            return None, []
        self.matched, self.noted, self._sums = 0, [], None
        if sums is None:
            return Served(matched=matched), noted
        served = Served(
            matched=matched,
            attempts=_classes(sums.answers),
            retries=sums.retries,
            kafka_to_subscriber=Durations(sums.waited, sums.waited_sum) if sums.waited else None,
            subscriber=Durations(sums.subscriber, sums.subscriber_sum) if sums.subscriber else None,
            whole_way=Durations(sums.whole, sums.whole_sum) if sums.whole else None,
        )
        return served, noted


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


def logged(place: int, noted: Iterable[Noted], base: float) -> list[tuple[Any, ...]]:
    """The attempts as ``LoggedAttempt``s: tuples, since these are encoded the same and made in a fraction of it."""
    return [
        (place, each[0], int((each[1] - base) * 1000), int((each[2] - each[1]) * 1000), *each[3:]) for each in noted
    ]


def _classes(answers: Mapping[int | str, int]) -> dict[str, int]:
    """How many attempts ended in each class of answers."""
    found: Counter[str] = Counter()
    for answer, count in answers.items():
        if isinstance(answer, int):
            found[CLASS_OF_HUNDRED.get(answer // 100, "error")] += count
        else:
            found["timeout" if answer == TIMED_OUT else "error"] += count
    return dict(found)


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
