"""Promises of the gearbox: which gear for which traffic, and no shifting to and fro."""

import pytest

from penstock.pipeline import gears
from penstock.pipeline.gears import (
    BULK_ROWS,
    LOOK_SECONDS,
    NEAR_ROWS,
    SHORTEST_STAY_SECONDS,
    STUCK_SECONDS,
    Gear,
    Gearbox,
)

QUIET = 300.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Drive:
    """A gearbox, a clock, and a topic whose rows are read at some rate."""

    def __init__(self, clock: Clock, quiet_seconds: float = QUIET) -> None:
        self.clock = clock
        self.box = Gearbox(quiet_seconds)
        self.gear: Gear = self.box.at_start(0, may_rest=False)
        self.rows = 0
        self.backlog = 0
        self.is_idle = True
        self.is_open = False

    def for_seconds(self, seconds: float, rows_per_second: int = 0) -> list[Gear]:
        """Every half second, as the dispatcher does; the gears that it went through."""
        seen = [self.gear]
        for _ in range(int(seconds * 2)):
            self.clock.now += 0.5
            self.rows += rows_per_second // 2
            self.gear = self.box.next(
                self.gear, self.rows, lambda: self.backlog, lambda: self.is_idle, lambda: self.is_open
            )
            if self.gear != seen[-1]:
                seen.append(self.gear)
                if self.gear != "cold":
                    self.box.started()
        return seen


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(gears, "time", made)
    return made


@pytest.fixture
def drive(clock: Clock) -> Drive:
    return Drive(clock)


def test_live_while_it_keeps_up(drive: Drive) -> None:
    """Kept promise: load alone is no reason to leave live gear."""
    drive.backlog = BULK_ROWS - 1
    assert drive.for_seconds(60, rows_per_second=5_000) == ["live"]


def test_a_backlog_is_worked_off_in_bulk(drive: Drive) -> None:
    """Kept promise: far behind and moving, bulk; near the end again, live."""
    drive.backlog = BULK_ROWS
    assert drive.for_seconds(2 * LOOK_SECONDS, rows_per_second=2_000) == ["live", "bulk"]
    drive.backlog = NEAR_ROWS
    assert drive.for_seconds(2 * LOOK_SECONDS, rows_per_second=2_000) == ["bulk", "live"]


def test_a_backlog_that_does_not_move_stays_live(drive: Drive) -> None:
    """Kept promise: a subscriber that hangs is not helped by large batches."""
    drive.backlog = 10 * BULK_ROWS
    assert drive.for_seconds(60) == ["live"]


def test_where_a_query_starts_is_no_movement(drive: Drive) -> None:
    """Kept promise: a query that begins at the millionth row and stands still there stays live."""
    drive.backlog, drive.rows = 10 * BULK_ROWS, 1_000_000
    drive.box.started()
    assert drive.for_seconds(60) == ["live"]


def test_a_slow_shift_is_not_taken_for_being_stuck(drive: Drive) -> None:
    """Kept promise: what a shift itself takes does not count."""
    drive.backlog = 10 * BULK_ROWS
    while drive.gear != "bulk":
        drive.for_seconds(1, rows_per_second=2_000)
    drive.clock.now += 2 * STUCK_SECONDS
    drive.box.started()
    assert drive.for_seconds(STUCK_SECONDS - 1) == ["bulk"]


def test_what_is_stuck_in_bulk_goes_live_and_stays_there_longer_each_time(drive: Drive) -> None:
    """Kept promise: one event that is tried for an hour does not hold up those behind the micro-batch."""
    drive.backlog = 10 * BULK_ROWS
    stays = []
    for _ in range(3):
        while drive.gear != "bulk":
            drive.for_seconds(1, rows_per_second=2_000)
        assert drive.for_seconds(STUCK_SECONDS + 1) == ["bulk", "live"]
        began = drive.clock.now
        while drive.gear != "bulk":
            drive.for_seconds(1, rows_per_second=2_000)
        stays.append(drive.clock.now - began)
    assert stays[1] > 1.5 * stays[0]
    assert stays[2] > 1.5 * stays[1]


def test_a_quiet_topic_goes_cold_and_wakes(drive: Drive) -> None:
    """Kept promise: after minutes without an event nothing runs, until something rings."""
    assert drive.for_seconds(QUIET - 1) == ["live"]
    assert drive.for_seconds(5) == ["live", "cold"]
    assert drive.for_seconds(3600) == ["cold"]
    drive.box.wake()
    assert drive.for_seconds(1) == ["cold", "live"]
    assert drive.for_seconds(QUIET - 1) == ["live"]


def test_what_waits_for_its_next_try_is_not_quiet(drive: Drive) -> None:
    """Kept promise: an hour of backoff is not interrupted by going cold."""
    drive.is_idle = False
    assert drive.for_seconds(3 * QUIET) == ["live"]


def test_pinned_is_pinned(drive: Drive) -> None:
    """Kept promise: neither quiet nor backlog moves what somebody has pinned."""
    drive.box.pin = "live"
    drive.backlog = 10 * BULK_ROWS
    assert drive.for_seconds(60, rows_per_second=5_000) == ["live"]
    assert drive.for_seconds(3 * QUIET) == ["live"]
    drive.box.pin = "bulk"
    assert drive.for_seconds(60, rows_per_second=5_000) == ["live", "bulk"]
    drive.backlog = 0
    assert drive.for_seconds(3 * QUIET) == ["bulk"]


@pytest.mark.parametrize("backlog", [1, 10 * BULK_ROWS])
def test_a_query_pinned_to_bulk_runs_in_live_gear_for_a_time_when_it_is_stuck(drive: Drive, backlog: int) -> None:
    """Kept promise: one pending retry does not keep new events from the others, also in a pinned bulk gear; after a
    while in live gear the pin holds again, also for a query that is started in between."""
    drive.box.pin = "bulk"
    assert drive.for_seconds(10, rows_per_second=2_000) == ["live", "bulk"]
    drive.backlog, drive.is_open = backlog, True
    assert drive.for_seconds(STUCK_SECONDS + 1) == ["bulk", "live"]
    assert drive.box.at_start(backlog, may_rest=False) == "live"
    assert drive.for_seconds(SHORTEST_STAY_SECONDS - 2, rows_per_second=2_000) == ["live"]
    assert drive.for_seconds(SHORTEST_STAY_SECONDS, rows_per_second=2_000) == ["live", "bulk"]


@pytest.mark.parametrize(("backlog", "is_open"), [(1, False), (BULK_ROWS, False), (0, True)])
def test_a_query_pinned_to_bulk_that_waits_for_events_stays_there(drive: Drive, backlog: int, is_open: bool) -> None:
    """Kept promise: offsets without records, such as markers of transactions, are not taken for being stuck, and
    neither is a retry while no event waits."""
    drive.box.pin = "bulk"
    assert drive.for_seconds(10, rows_per_second=2_000) == ["live", "bulk"]
    drive.backlog, drive.is_open = backlog, is_open
    assert drive.for_seconds(600) == ["bulk"]


def test_never_cold_when_told_so(clock: Clock) -> None:
    """Kept promise: PENSTOCK_QUIET_MINUTES=0 keeps every query running."""
    assert Drive(clock, quiet_seconds=0.0).for_seconds(3600) == ["live"]


@pytest.mark.parametrize(
    ("backlog", "may_rest", "gear"),
    [
        (0, True, "cold"),
        (0, False, "live"),
        (1, True, "live"),
        (BULK_ROWS, True, "bulk"),
        (BULK_ROWS - 1, False, "live"),
    ],
)
def test_the_first_gear(clock: Clock, backlog: int, may_rest: bool, gear: Gear) -> None:
    """Kept promise: a start is in the gear that its backlog asks for; nothing to do and quiet for long is cold."""
    assert Gearbox(QUIET).at_start(backlog, may_rest=may_rest) == gear
