"""When something is due of itself: a retry, or a lane that has to be asked again. Owned by the delivering loop."""

import heapq
import itertools

from penstock.delivery.lane import Attempt, Lane
from penstock.delivery.tally import Waiting


class Timers:
    """By the monotonic clock."""

    def __init__(self) -> None:
        # Without an attempt it is the lane that has to be asked: its rate, or an incomplete batch.
        self._due: list[tuple[float, int, Lane, Attempt | None]] = []
        self._order = itertools.count()

    @property
    def next_at(self) -> float | None:
        return self._due[0][0] if self._due else None

    def add(self, at: float, lane: Lane, attempt: Attempt | None = None) -> None:
        heapq.heappush(self._due, (at, next(self._order), lane, attempt))

    def pop(self, now: float) -> tuple[Lane, Attempt | None] | None:
        """What is due, if anything is."""
        if not self._due or self._due[0][0] > now:
            return None
        _, _, lane, attempt = heapq.heappop(self._due)
        return lane, attempt

    def drop(self, lane: Lane) -> list[Attempt]:
        """Forgets all timers of a lane that has retries; returns these."""
        retries = [attempt for _, _, of, attempt in self._due if of is lane and attempt is not None]
        if retries:
            self._due = [entry for entry in self._due if entry[2] is not lane]
            heapq.heapify(self._due)
            lane.timer = 0.0
        return retries

    def waiting(self, epoch_minus_monotonic: float) -> dict[Lane, Waiting]:
        """The retries of each lane."""
        found: dict[Lane, Waiting] = {}
        for at, _, lane, attempt in self._due:
            if attempt is not None:
                before = found.get(lane, Waiting(0, float("inf"), 0))
                found[lane] = Waiting(
                    before.events + len(attempt.rows),
                    min(before.next_try, at + epoch_minus_monotonic),
                    max(before.failures, attempt.failures),
                )
        return found
