"""Durations in buckets."""

import random

import pytest

from penstock.telemetry.histogram import BOUNDS, Durations, durations


@pytest.mark.parametrize("many", [0, 1, 7, 1_000])
def test_many_at_once_are_counted_as_one_by_one(many: int) -> None:
    random.seed(many)
    seconds = [
        *(random.lognormvariate(-5, 3) for _ in range(many)),
        *random.choices(BOUNDS, k=many),
        *[0.0, 1e6][:many],
    ]
    random.shuffle(seconds)
    one_by_one = Durations({})
    for each in seconds:
        one_by_one.observe(each)
    at_once = durations(list(seconds))
    assert at_once.counts == one_by_one.counts
    assert at_once.sum == pytest.approx(one_by_one.sum)


def test_a_duration_on_a_bound_is_below_it() -> None:
    assert durations([BOUNDS[0], BOUNDS[-1]]).counts == {0: 1, len(BOUNDS) - 1: 1}
    assert durations([BOUNDS[-1] * 2]).counts == {len(BOUNDS): 1}


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("median_seconds", [0.002, 0.03, 0.4, 2.0])
def test_a_percentile_is_off_by_a_few_hundredths(median_seconds: float, share: float) -> None:
    random.seed(7)
    seconds = sorted(median_seconds * random.lognormvariate(0, 0.5) for _ in range(10_000))
    assert durations(seconds).quantile(share) == pytest.approx(seconds[int(len(seconds) * share)], rel=0.03)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_percentile_is_never_off_by_more_than_a_seventh(share: float) -> None:
    """Worst where all take the same time, and somewhere between two bounds."""
    for step in range(1, 1_000):
        seconds = 0.001 * 10 ** (step / 250)
        assert durations([seconds] * 100).quantile(share) == pytest.approx(seconds, rel=0.143)
