"""Which records of some topics are searched next: pieces that grow, the newest first. Pure.

A span is what is left of a partition, from its first offset up to (not including) the last one that was searched.
"""

from collections.abc import Mapping
from typing import NamedTuple

FIRST_PIECE = 100_000  # records, where all have to be searched: less than a second
FIRST_LATEST_PIECE = 5_000  # where the newest may be enough
LARGEST_PIECE = 400_000  # so that a search tells often enough how far it is


class Partition(NamedTuple):
    topic: str
    number: int


class Span(NamedTuple):
    begin: int
    end: int

    @property
    def size(self) -> int:
        return max(0, self.end - self.begin)


Spans = dict[Partition, Span]


def size(spans: Mapping[Partition, Span]) -> int:
    return sum(each.size for each in spans.values())


def newest(spans: Spans, wanted: int) -> Spans:
    """The ends of all spans, about so many records together, each in proportion to what it has."""
    total = size(spans)
    share = min(1.0, wanted / total) if total else 0.0
    taken = {}
    for where, span in spans.items():
        count = min(span.size, int(span.size * share) + 1)
        if count:
            taken[where] = Span(span.end - count, span.end)
    return taken


def newer_than(spans: Spans, offsets: Mapping[Partition, int]) -> Spans:
    """What is left behind these offsets."""
    cut = {where: Span(max(span.begin, offsets[where]), span.end) for where, span in spans.items()}
    return {where: span for where, span in cut.items() if span.size}


def without(spans: Spans, searched: Spans) -> Spans:
    """What is left when the ends have been searched."""
    left = {
        where: Span(span.begin, searched[where].begin) if where in searched else span for where, span in spans.items()
    }
    return {where: span for where, span in left.items() if span.size}


def divided(spans: Mapping[Partition, Span], parts: int) -> list[Spans]:
    """The same records in so many parts of the same size, or fewer; of a partition a part has one span at most."""
    most = -(-size(spans) // parts)
    found: list[Spans] = [{}]
    room = most
    for where, span in spans.items():
        begin = span.begin
        while begin < span.end:
            if not room:
                found.append({})
                room = most
            end = min(span.end, begin + room)
            found[-1][where] = Span(begin, end)
            room -= end - begin
            begin = end
    return [each for each in found if each]


def next_size(before: int, *, whole: bool) -> int:
    """After a piece of that size; 0: the first."""
    if not before:
        return FIRST_PIECE if whole else FIRST_LATEST_PIECE
    return min(LARGEST_PIECE, before * (2 if whole else 4))
