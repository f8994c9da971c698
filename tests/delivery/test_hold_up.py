"""Promises of the search for a lane that holds up the others: who hangs is found before anybody waits."""

from penstock.contract.model import Subscription
from penstock.delivery.hold_up import CROWDED_SECONDS, HANGING_SECONDS, SLOW_SECONDS, HoldUp
from penstock.delivery.lane import Lane, LaneLimits
from penstock.delivery.progress import Progress

ROOM = 1000


def lane(open_rows: int, finished_at: float = 0.0) -> Lane:
    made = Lane(Subscription("u", "Trigger", "n", "t", "topic", "g", "http://s/"), Progress(0), LaneLimits())
    made.finished_at = finished_at
    for offset in range(open_rows):
        made.progress.take_on(offset)
    return made


class Case:
    """Lanes that stay as they are while time goes by."""

    def __init__(self, *lanes: Lane, is_busy: bool = True) -> None:
        self.lanes, self.is_busy, self.hold_up = lanes, is_busy, HoldUp()
        self.unfinished = max(each.progress.open_count for each in lanes)

    def found_after(self, seconds: float) -> float | None:
        """When a lane was found, from the first look on."""
        for step in range(int(seconds / 0.05) + 1):
            now = 100.0 + step * 0.05
            for each in self.lanes[1:]:
                each.finished_at = now if self.is_busy else each.finished_at
            found = self.hold_up.find(self.lanes, self.unfinished, self.unfinished / ROOM, now)
            if found is not None:
                assert found is self.lanes[0]
                return now - 100.0
        return None


def test_who_hangs_is_found_while_there_is_room() -> None:
    """Kept promise: at half of the room, a second without an answer; nobody has waited by then."""
    found = Case(lane(ROOM // 2), lane(3), lane(0)).found_after(5)
    assert found is not None
    assert CROWDED_SECONDS < found < CROWDED_SECONDS + 0.2
    assert Case(lane(ROOM // 2 - 1), lane(3)).found_after(5) is None


def test_who_gets_answers_is_not_parked_while_there_is_room() -> None:
    """Kept promise: a lane that moves, however slowly, holds up nobody before the room is taken."""
    slow, hold_up = lane(900), HoldUp()
    for step in range(200):
        now = 100.0 + step * 0.05
        slow.finished_at = now - 0.5
        assert hold_up.find([slow, lane(0, now)], 900, 0.9, now) is None


def test_without_room_it_is_found_sooner() -> None:
    """Kept promise: when the others do wait, they wait for a moment."""
    found = Case(lane(ROOM), lane(0)).found_after(5)
    assert found is not None
    assert HANGING_SECONDS < found < HANGING_SECONDS + 0.2


def test_who_is_too_slow_for_the_others_is_found() -> None:
    """Kept promise: answers that come too slowly are as bad as none, as long as somebody else has something to do."""
    for is_busy, expected in ((True, True), (False, False)):
        slow, other, hold_up, found = lane(ROOM), lane(0), HoldUp(), None
        for step in range(100):
            now = 100.0 + step * 0.05
            slow.finished_at = now - 0.1
            other.finished_at = now if is_busy else 0.0
            found = found or hold_up.find([slow, other], ROOM, 1.0, now)
            assert found is None or now - 100.0 > SLOW_SECONDS
        assert (found is slow) is expected


def test_load_on_all_is_nobodys_fault() -> None:
    """Kept promise: when everybody is behind, or there is only one, nobody is parked."""
    assert Case(lane(ROOM), lane(ROOM // 2)).found_after(5) is None
    assert Case(lane(ROOM)).found_after(5) is None
    parked = lane(0)
    parked.is_parked = True
    assert Case(lane(ROOM), parked).found_after(5) is None
