"""Conditions are unique, roll up into Ready, and their times move only with their status."""

import re
from datetime import timedelta

import pytest

from penstock.control.conditions import false, merged, true, unknown
from penstock.control.durations import seconds_of
from tests.control.objects import NOON


def by_type(conditions: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {each["type"]: each for each in conditions}


def test_ready_is_true_only_when_all_are() -> None:
    assert by_type(merged([], [true("A"), true("B")], NOON))["Ready"]["status"] == "True"
    mixed = by_type(merged([], [unknown("A", "Later", "later"), false("B", "Broken", "it broke")], NOON))
    assert mixed["Ready"] | {"lastTransitionTime": ""} == {
        "type": "Ready", "status": "False", "reason": "Broken", "message": "it broke", "lastTransitionTime": "",
    }  # fmt: skip
    assert by_type(merged([], [unknown("A", "Later", "later"), true("B")], NOON))["Ready"]["status"] == "Unknown"


def test_types_are_unique_and_sorted() -> None:
    once = merged([], [true("B"), true("A")], NOON)
    again = merged(once, [true("B"), true("A")], NOON)
    assert [each["type"] for each in again] == ["A", "B", "Ready"]


def test_the_time_moves_only_with_the_status() -> None:
    first = merged([], [false("A", "One", "one")], NOON)
    later = NOON + timedelta(minutes=1)
    same = by_type(merged(first, [false("A", "Two", "two")], later))
    assert same["A"]["lastTransitionTime"] == "2026-11-15T12:00:00Z"
    assert same["A"]["reason"] == "Two"
    turned = by_type(merged(first, [true("A")], later))
    assert turned["A"]["lastTransitionTime"] == turned["Ready"]["lastTransitionTime"] == "2026-11-15T12:01:00Z"


@pytest.mark.parametrize(("text", "seconds"), [("PT0.2S", 0.2), ("PT1M30S", 90), ("P1D", 86400), ("P1DT1H", 90000)])
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "P", "PT", "1s", "P1Y", "P1DT", "-PT1S", "PT1S ", "pt1s", "PT١S"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text) or "^$"):
        seconds_of(text)
