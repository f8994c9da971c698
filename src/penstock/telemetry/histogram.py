"""Durations counted in buckets that every process shares, so that counts of different processes can be added.

Kept sparse (most durations of a subscription fall into a few buckets) and as growth since the last time it was told.
Pure.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

import msgspec

# Upper bounds in seconds: from a millisecond to ten seconds, where most waits are, twenty to a decade, so that a
# percentile read off them is off by a few hundredths, and never by more than a seventh; beyond, up to ten minutes,
# half as many. The mean (sum by count) is exact.
STEPS = (1.0, 1.12, 1.25, 1.4, 1.6, 1.8, 2.0, 2.24, 2.5, 2.8, 3.15, 3.55, 4.0, 4.5, 5.0, 5.6, 6.3, 7.1, 8.0, 9.0)
BOUNDS: tuple[float, ...] = (
    *(0.0005, 0.00063, 0.0008),
    *(round(step * decade, 6) for decade in (0.001, 0.01, 0.1, 1.0) for step in STEPS),
    *(step * 10.0 for step in STEPS[::2]),
    *(100.0, 125.0, 160.0, 200.0, 250.0, 315.0, 400.0, 500.0, 600.0),
)


class Durations(msgspec.Struct, rename={"counts": "buckets", "sum": "seconds"}):
    """A histogram. ``counts`` by number of the bucket; the one past the last bound is for all that is longer.

    The names in records belong to these bounds: what was told with others is not read as if it were of these."""

    counts: dict[int, int] = {}
    sum: float = 0.0  # seconds

    def observe(self, seconds: float, times: int = 1) -> None:
        bucket = bisect_left(BOUNDS, seconds)
        self.counts[bucket] = self.counts.get(bucket, 0) + times
        self.sum += seconds * times

    def add(self, other: "Durations") -> None:
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.sum += other.sum

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float) -> float | None:
        """The duration that this share of all stays below, in seconds; None when there are none."""
        return quantile(self.counts, share)


def durations(seconds: Iterable[float]) -> Durations:
    """Many at once, for a fraction of what ``observe`` takes for each. A clock that was set back makes no negative
    ones."""
    ordered = sorted(seconds)
    if ordered and ordered[0] < 0:
        ordered = [max(0.0, each) for each in ordered]
    counts = {}
    below, bucket = 0, bisect_left(BOUNDS, ordered[0]) if ordered else 0
    while below < len(ordered):
        end = bisect_right(ordered, BOUNDS[bucket], below) if bucket < len(BOUNDS) else len(ordered)
        if end > below:
            counts[bucket] = end - below
        below, bucket = end, bucket + 1
    return Durations(counts, sum(ordered))


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """Within a bucket durations are taken to be spread evenly."""
    wanted = sum(counts.values()) * share
    if not wanted:
        return None
    below = 0.0
    for bucket, count in sorted(counts.items()):
        if below + count >= wanted:
            if bucket >= len(BOUNDS):
                return BOUNDS[-1]
            low = BOUNDS[bucket - 1] if bucket else 0.0
            return low + (BOUNDS[bucket] - low) * (wanted - below) / count
        below += count
    return BOUNDS[-1]
