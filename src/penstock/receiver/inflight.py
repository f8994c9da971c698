"""How much is under way in this process, and how much may be. All of it on the event loop."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

HEADER_OVERHEAD_BYTES = 160  # the memory of a header besides its text: a pair and two objects
SLOT_BYTES = 2_000  # the memory of a request that is parsed, with an answer that is not sent yet

Holder = TypeVar("Holder")


class Inflight:
    """Counts of events that wait for Kafka and of bytes held for requests; what bounds the memory."""

    __slots__ = ("_most_bytes", "_most_events", "bytes", "events")

    def __init__(self, most_events: int, most_bytes: int) -> None:
        self.events = 0
        self.bytes = 0
        self._most_events = most_events
        self._most_bytes = most_bytes

    @property
    def is_full(self) -> bool:
        return self.events >= self._most_events or self.bytes >= self._most_bytes

    def has_room(self, events: int) -> bool:
        return self.events + events <= self._most_events

    def could_hold(self, events: int) -> bool:
        """Whether so many fit when nothing else is under way."""
        return events <= self._most_events


class Held(Generic[Holder]):
    """What all connections hold of one kind: incomplete requests, or answers that are not read.

    A normal sender completes its request and reads its answers soon, usually at once. So the one that has held
    something for longest is the least likely to be normal, and is dropped beyond the limit.
    """

    def __init__(self, most_bytes: int, drop: Callable[[Holder], None]) -> None:
        self.bytes = 0
        self._most_bytes = most_bytes
        self._drop = drop
        self._held: OrderedDict[Holder, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, holder: Holder, held_bytes: int) -> None:
        """``holder`` now holds this many bytes. Beyond the limit the oldest are dropped."""
        self.bytes += held_bytes - self._held.get(holder, 0)
        self._held[holder] = held_bytes
        while self.bytes > self._most_bytes:
            oldest = next(iter(self._held))
            self.release(oldest)
            self._drop(oldest)

    def release(self, holder: Holder) -> None:
        """It holds nothing any more."""
        self.bytes -= self._held.pop(holder, 0)
