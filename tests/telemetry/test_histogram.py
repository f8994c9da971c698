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
