"""Something switched off and on in turns, off, on, on, off, off, …, so that a machine that gets slower or faster
meanwhile does not favour either; and neighbours compared with each other."""

from collections.abc import Sequence
from math import exp, log
from statistics import mean, stdev
from typing import TypeVar

from bench.model import Compared

T = TypeVar("T")


def is_on(number: int) -> bool:
    """In the turn with this number."""
    return number % 4 in (1, 2)


def off_and_on(turns: Sequence[T]) -> list[tuple[T, T]]:
    """Neighbours in time; a last turn without one is left out."""
    pairs = list(zip(turns[::2], turns[1::2], strict=False))
    return [pair if number % 2 == 0 else pair[::-1] for number, pair in enumerate(pairs)]


def compared(turns: Sequence[float]) -> Compared | None:
    """On over off: the mean of the ratios of neighbours, and its standard error. None: too few."""
    ratios = [log(on / off) for off, on in off_and_on(turns) if off and on]
    if len(ratios) < 2:
        return None
    return Compared(
        off=round(mean(off for off, _ in off_and_on(turns)), 2),
        on=round(mean(on for _, on in off_and_on(turns)), 2),
        ratio=round(exp(mean(ratios)), 4),
        error=round(stdev(ratios) / len(ratios) ** 0.5, 4),
        pairs=len(ratios),
    )
