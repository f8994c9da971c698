"""Seats: how many long streams run at a time, in all and for one caller. One caller can never take all of them.

Lives on the event loop. Used by ``middleware``.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.errors import Rejected, Unavailable


@dataclass(frozen=True)
class Limit:
    name: str  # of one such stream
    in_all: int
    per_caller: int


TAIL = Limit("tail", 20, 6)  # each costs a Kafka consumer and a thread
SEARCH = Limit("search", 24, 6)  # each costs Spark jobs
TRIAL = Limit("trial", 16, 8)  # each holds a thread while Spark works; all other requests share 40
FEED = Limit("live feed", 200, 40)  # a tab of the dashboard, a `penstock top`
WATCH = Limit("watch", 200, 40)


class TooMany(Rejected):
    """This caller has as many streams as one caller may have."""


class Seats:
    def __init__(self) -> None:
        self._in_all: Counter[Limit] = Counter()
        self._of_callers: Counter[tuple[Limit, str]] = Counter()

    @contextmanager
    def taken(self, limit: Limit, caller: str) -> Iterator[None]:
        """Raises TooMany or Unavailable when there is none left."""
        own = (limit, caller)
        if self._of_callers[own] >= limit.per_caller:
            many = f"this caller already has {limit.per_caller} streams of the kind {limit.name}, which is the limit"
            raise TooMany(many, hint="end one of them first")
        if self._in_all[limit] >= limit.in_all:
            full = f"all callers together have {limit.in_all} streams of the kind {limit.name}, which is the limit"
            raise Unavailable(full, hint="try again when one of them has ended")
        self._in_all[limit] += 1
        self._of_callers[own] += 1
        try:
            yield
        finally:
            self._in_all[limit] -= 1
            self._of_callers[own] -= 1
            if not self._of_callers[own]:
                del self._of_callers[own]
