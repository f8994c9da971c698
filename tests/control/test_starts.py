"""From where a subscription sees a topic: decided once, and read back as it was written."""

import pytest

from penstock.control import starts
from penstock.control.starts import BEFORE_TOPIC, Asked, Start
from tests.control.objects import source, stored


def test_a_note_is_read_back_as_it_was_written() -> None:
    """Kept promise: what was decided for each topic outlives a restart, to the last offset."""
    decided = {"a": Start("id-a", {0: 5, 1: 2**40}, written=True), "b": BEFORE_TOPIC}
    resource = stored(source(), status={"annotations": {"penstock.dev/start-positions": starts.as_note(decided)}})
    assert starts.noted_starts(resource) == decided
    assert starts.decided(resource, "id-a") == decided["a"]
    assert starts.decided(resource, "made-anew") is None


def test_without_a_note_nothing_is_decided() -> None:
    assert starts.noted_starts(stored(source())) == {}


def test_the_same_decision_is_the_same_note() -> None:
    """Kept promise: a status that says nothing new is not written again."""
    one = {"a": Start("x", {0: 1, 1: 2}), "b": Start("y", {})}
    other = {"b": Start("y", {}), "a": Start("x", {1: 2, 0: 1})}
    assert starts.as_note(one) == starts.as_note(other)


def test_new_partitions_are_to_be_written_and_known_ones_stay() -> None:
    start = Start("x", {0: 7, 1: 9}, written=True)
    assert start.covering(2) is start
    assert start.covering(1) is start
    assert start.covering(3) == Start("x", {0: 7, 1: 9, 2: 0}, written=False)


@pytest.mark.parametrize(
    ("text", "is_newer", "expected"),
    [
        (None, False, Asked()),
        (None, True, Asked(earliest=True)),
        ("latest", True, Asked()),
        ("earliest", False, Asked(earliest=True)),
        ("1970-01-01T00:01:00Z", True, Asked(since=60.0)),
        ("1970-01-01T01:01:00+01:00", False, Asked(since=60.0)),
    ],
)
def test_what_somebody_asks_for_counts_more_than_what_came_first(
    text: str | None, is_newer: bool, expected: Asked
) -> None:
    assert starts.asked(text, is_newer=is_newer) == expected
