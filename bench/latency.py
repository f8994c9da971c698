"""Latencies as numbers to report: percentiles of many nanoseconds, in milliseconds."""

import math
from collections.abc import Iterable, Sequence

import msgspec


class Latency(msgspec.Struct, frozen=True):
    """Milliseconds, but for the count."""

    count: int = 0
    p50: float = 0.0
    p99: float = 0.0
    p99_9: float = 0.0
    worst: float = 0.0
    mean: float = 0.0


def summarize(nanoseconds: Iterable[int]) -> Latency:
    ordered = sorted(nanoseconds)
    if not ordered:
        return Latency()
    return Latency(
        count=len(ordered),
        p50=milliseconds(percentile(ordered, 50)),
        p99=milliseconds(percentile(ordered, 99)),
        p99_9=milliseconds(percentile(ordered, 99.9)),
        worst=milliseconds(ordered[-1]),
        mean=milliseconds(sum(ordered) / len(ordered)),
    )


def percentile(ordered: Sequence[int], percent: float) -> int:
    """The smallest value that at least this share of all values does not exceed (nearest rank)."""
    # Rounded first: 99.9 / 100 * 1000 is a little more than 999 in binary, which would be a rank too far.
    rank = math.ceil(round(percent * len(ordered) / 100, 6))
    return ordered[max(rank, 1) - 1]


def milliseconds(nanoseconds: float) -> float:
    return round(nanoseconds / 1e6, 3)
