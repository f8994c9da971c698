"""Which gear a query runs in, by what flows. The same delivery code runs in all of them; shifting is a take-over.

    live   real-time mode: milliseconds; a task and a worker for every partition
    bulk   micro-batches with large Arrow batches: for a backlog
    cold   nothing runs: a quiet topic's next record rings (``kafka/doorbell.py``), and the topic goes live

    cold ──a record rings──▶ live ──far behind, and moving──▶ bulk
      ◀──quiet for minutes──      ◀──caught up, or stuck──

A query that is pinned to bulk gear goes to live gear only when it is stuck, and for a limited time.

Only arithmetic and clocks here. Owned by ``topic_query.py``.
"""

import time
from collections.abc import Callable
from typing import Literal

from penstock.contract.model import Pin

Gear = Literal["live", "bulk", "cold"]

BULK_ROWS = 20_000  # so far behind, and large batches pay
NEAR_ROWS = 2_000  # so near, and they do not any more
LOOK_SECONDS = 2.0  # how often to ask where the topic ends
MOVING_ROWS = 1_000  # in that time; what stands still is not helped by another gear
STUCK_SECONDS = 3.0  # without a step in bulk gear: one event holds up the whole micro-batch
SHORTEST_STAY_SECONDS = 30.0  # in live gear after that; twice as long each time,
LONGEST_STAY_SECONDS = 600.0


class Gearbox:
    """The gear of one query. ``quiet_seconds`` of 0: it never goes cold."""

    def __init__(self, quiet_seconds: float = 0.0) -> None:
        self.pin: Pin = "auto"
        self._quiet_seconds = quiet_seconds
        self._is_awake = False  # a record has come since it went cold
        self._progress = -1  # rows, over all partitions
        self._moved_at = 0.0
        self._looked_at = 0.0
        self._looked_progress: int | None = None  # None: not looked yet
        self._bulk_from = 0.0  # not before this time
        self._stay_seconds = SHORTEST_STAY_SECONDS

    @property
    def moved_at(self) -> float:
        return self._moved_at

    def wake(self) -> None:
        """Something has come for a cold topic."""
        self._is_awake = True

    def started(self) -> None:
        """A query runs: whether it moves is seen from now on."""
        self._is_awake = False
        self._moved_at = self._looked_at = time.monotonic()
        self._looked_progress = None

    def rest_soon(self) -> None:
        """Others need the room: as if it had been quiet for long."""
        self._moved_at = float("-inf")

    def at_start(self, backlog: int, *, may_rest: bool) -> Gear:
        """``may_rest``: nothing has come for long, or there is no room to wait for it in live gear."""
        now = time.monotonic()
        self._moved_at = self._looked_at = now
        self._progress = -1
        if self.pin != "auto":
            return self._pinned(now)
        if may_rest and self._quiet_seconds and not backlog and not self._is_awake:
            return "cold"
        self._is_awake = False
        return "bulk" if backlog >= BULK_ROWS and now >= self._bulk_from else "live"

    def next(
        self,
        gear: Gear,
        progress: int,
        backlog: Callable[[], int],
        is_idle: Callable[[], bool],
        is_open: Callable[[], bool],
    ) -> Gear:
        """What would be right now. ``backlog`` and ``is_idle`` ask Kafka, so they are only asked when it matters.
        ``is_open``: whether a delivery was begun and is not finished."""
        now = time.monotonic()
        if progress != self._progress:
            self._progress = progress
            self._moved_at = now
        if gear == "cold":
            return "live" if self._is_awake or self.pin == "live" else "bulk" if self.pin == "bulk" else "cold"
        if self.pin == "live" or (self.pin == "bulk" and gear == "live"):
            return self._pinned(now)
        if gear == "live":
            return self._from_live(now, backlog, is_idle)
        return self._from_bulk(now, backlog, is_open)

    def _pinned(self, now: float) -> Gear:
        return "bulk" if self.pin == "bulk" and now >= self._bulk_from else "live"

    def _from_live(self, now: float, backlog: Callable[[], int], is_idle: Callable[[], bool]) -> Gear:
        if self._quiet_seconds and now - self._moved_at > self._quiet_seconds:
            if is_idle():
                return "cold"
            self._moved_at = now  # something waits for its next try: look again later
            return "live"
        if now - self._looked_at < LOOK_SECONDS:
            return "live"
        before = self._looked_progress
        is_moving = before is not None and self._progress - before >= MOVING_ROWS
        self._looked_at, self._looked_progress = now, self._progress
        return "bulk" if is_moving and now >= self._bulk_from and backlog() >= BULK_ROWS else "live"

    def _from_bulk(self, now: float, backlog: Callable[[], int], is_open: Callable[[], bool]) -> Gear:
        is_pinned = self.pin == "bulk"
        if now - self._moved_at > STUCK_SECONDS:
            if is_pinned and not (is_open() and backlog() > 0):
                self._moved_at = now  # it waits for events: look again later
                return "bulk"
            self._bulk_from = now + self._stay_seconds
            self._stay_seconds = min(2 * self._stay_seconds, LONGEST_STAY_SECONDS)
            return "live"
        if is_pinned or now - self._looked_at < LOOK_SECONDS:
            return "bulk"
        self._looked_at, self._looked_progress = now, self._progress
        return "live" if backlog() <= NEAR_ROWS else "bulk"
