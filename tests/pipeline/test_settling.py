"""Promises of the wait for changes that belong together."""

import pytest

from penstock.pipeline import settling
from penstock.pipeline.settling import LONGEST, Settling


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(settling, "time", found)
    return found


def test_changes_that_belong_together_are_taken_at_once(clock: Clock) -> None:
    """Kept promise: changes in quick succession replace a query once, a moment after the last of them."""
    changes = Settling(0.2)
    assert not changes.take()
    for _ in range(3):
        changes.note()
        clock.now += 0.1
        assert not changes.take()
    clock.now += 0.11
    assert changes.take()
    assert not changes.is_waiting
    assert not changes.take()


def test_changes_that_never_stop_keep_nobody_waiting(clock: Clock) -> None:
    """Kept promise: however many changes follow, the first one is in force after a bounded time."""
    changes, taken_after = Settling(0.2), []
    began = clock.now
    for _ in range(100):
        changes.note()
        clock.now += 0.05
        if changes.take():
            taken_after.append(clock.now - began)
            began = clock.now
    assert len(taken_after) >= 4
    assert max(taken_after) <= LONGEST * 0.2 + 0.05 + 1e-6


def test_whoever_waits_knows_for_how_long(clock: Clock) -> None:
    """Kept promise: the dispatcher sleeps exactly until the changes are due."""
    changes = Settling(0.2)
    assert changes.due_in == 0.0
    changes.note()
    assert changes.due_in == pytest.approx(0.2)
    clock.now += 0.15
    changes.note()
    assert changes.due_in == pytest.approx(0.2)
    clock.now += 5.0
    assert changes.due_in == 0.0
    assert changes.take()
