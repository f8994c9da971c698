"""Limits the memory of incomplete requests. When they hold too much together, the oldest is dropped.

Called by the connections of a process, with the bytes that each of them holds for a request that is not complete. A
normal sender's request is complete soon, mostly at once. So the oldest one is the least likely to be completed.
"""

from collections import OrderedDict
from typing import Protocol

HEADER_OVERHEAD_BYTES = 160  # the memory of a header besides its text: a pair and two objects


class Holder(Protocol):
    def give_way(self) -> None: ...


class Unfinished:
    """The bytes held for incomplete requests, and their limit. Everything here runs on the event loop."""

    def __init__(self, most_bytes: int) -> None:
        self.bytes = 0
        self._most_bytes = most_bytes
        self._held: OrderedDict[Holder, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, holder: Holder, held_bytes: int) -> None:
        """``holder`` now has this many bytes of an incomplete request. Beyond the limit the oldest are dropped."""
        self.bytes += held_bytes - self._held.get(holder, 0)
        self._held[holder] = held_bytes
        while self.bytes > self._most_bytes:
            oldest = next(iter(self._held))
            self.release(oldest)
            oldest.give_way()

    def release(self, holder: Holder) -> None:
        """The request is complete, or has been given up."""
        self.bytes -= self._held.pop(holder, 0)
