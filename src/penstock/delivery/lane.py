"""A lane: the deliveries of one subscription in one partition.

Unordered lanes keep a window of POSTs in flight. Ordered lanes have one event at a time, through all of its
retries, before the next begins. What cannot begin yet waits here, in the order of offsets.
"""

from collections import deque
from dataclasses import dataclass

from penstock.contract.model import Subscription
from penstock.delivery.progress import Progress
from penstock.delivery.row import Row


class Attempt:
    """One event on its way to one subscriber, through retries and, if need be, to the dead letter sink."""

    __slots__ = ("dead_letter_headers", "failures", "lane", "row")

    def __init__(self, lane: "Lane", row: Row) -> None:
        self.lane = lane
        self.row = row
        self.failures = 0
        self.dead_letter_headers: list[bytes] | None = None  # set once the subscriber has been given up


@dataclass
class Counts:
    """What happened in a lane since its worker took over."""

    delivered: int = 0
    failed_attempts: int = 0
    dead_lettered: int = 0
    given_up: int = 0


class Lane:
    """Mutable state of one lane; owned by the delivering thread."""

    __slots__ = (
        "_is_ordered",
        "_window",
        "busy",
        "counts",
        "headers",
        "is_dirty",
        "progress",
        "subscription",
        "waiting",
    )

    def __init__(self, subscription: Subscription, progress: Progress, window: int) -> None:
        self.subscription = subscription
        self.progress = progress
        self.counts = Counts()
        self.waiting: deque[Row] = deque()
        self.busy = 0  # unordered: POSTs in flight; ordered: events begun and not finished
        self.is_dirty = False  # has begun or finished something since the ledger was last written
        self.headers = [b"Kn-Namespace:" + subscription.namespace.encode(), b"Prefer:reply"]
        self._is_ordered = subscription.order != "unordered"
        self._window = 1 if self._is_ordered else window

    @property
    def has_room(self) -> bool:
        return self.busy < self._window

    def on_waiting_for_retry(self) -> None:
        """An unordered lane goes on with others meanwhile; an ordered one does not."""
        if not self._is_ordered:
            self.busy -= 1

    def on_retrying(self) -> None:
        if not self._is_ordered:
            self.busy += 1
