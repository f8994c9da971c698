"""How far a lane has come: which offsets are finished, and what may be called done. Pure.

Rows reach a lane in the order of their offsets, each once. The lane takes an offset on or passes it by, and
finishes what it took on in any order. So everything below the next expected offset is finished, except what
is still open; that is all there is to know, and what the ledger keeps.

    offsets      0 1 2 3 4 5 6 7 8 9
    open               o     o            position = 3  (first open)
    next                         ^        beyond   = 4-5, 7  (finished above the position)
"""

from bisect import bisect_right
from collections.abc import Iterable

Range = tuple[int, int]  # first and last offset, both included


class Progress:
    """Made from the ledger's record; asked by the lane for every row and by the ledger's writer."""

    def __init__(self, position: int, beyond: Iterable[Range] = ()) -> None:
        self._next = position  # every offset below was taken on or passed by
        self._open: dict[int, None] = {}  # taken on, not finished; in the order of offsets
        self._before = sorted(beyond)  # what a predecessor finished above its position
        self._firsts = [first for first, _ in self._before]

    @property
    def position(self) -> int:
        """Every offset below is finished."""
        return next(iter(self._open)) if self._open else self._next

    @property
    def is_open(self) -> bool:
        """Whether something was taken on and is not finished."""
        return bool(self._open)

    @property
    def open_count(self) -> int:
        return len(self._open)

    def open_offsets(self) -> list[int]:
        return list(self._open)

    def is_done(self, offset: int) -> bool:
        """Whether this offset needs nothing: seen here already, or finished by a predecessor."""
        if offset < self._next:
            return True
        return self._is_before(offset)

    def _is_before(self, offset: int) -> bool:
        """Whether a predecessor has finished this offset above its position."""
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset <= self._before[at][1]

    def catch_up(self, position: int, beyond: Iterable[Range]) -> list[int]:
        """Takes in what another worker has finished meanwhile. Returns those of its offsets that were open here."""
        self._next, self._before = max(self._next, position), sorted(beyond)
        self._firsts = [first for first, _ in self._before]
        finished = [each for each in self._open if each < position or self._is_before(each)]
        for each in finished:
            del self._open[each]
        return finished

    def take_on(self, offset: int) -> None:
        self._open[offset] = None
        self._next = offset + 1

    def pass_by(self, offset: int) -> None:
        """This offset is not for the lane, or needs nothing any more."""
        if offset >= self._next:
            self._next = offset + 1

    def finish(self, offset: int) -> None:
        del self._open[offset]

    def beyond(self) -> tuple[Range, ...]:
        """The finished ranges above the position."""
        ranges = []
        first = self.position
        for each in self._open:
            if each > first:
                ranges.append((first, each - 1))
            first = each + 1
        if self._open and self._next > first:
            ranges.append((first, self._next - 1))
        ranges += [(max(a, self._next), b) for a, b in self._before if b >= self._next]
        return tuple(ranges)
