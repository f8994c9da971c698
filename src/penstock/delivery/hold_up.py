"""Which lane the others wait for, or soon would. Only arithmetic and clocks; asked by ``deliver.py`` in every round.

A worker holds so many rows at most. A subscriber that hangs keeps its rows, until there is room for nobody's: then
everybody waits for the one. So its lane is parked, best while there is still room for the others.
"""

from collections.abc import Sequence

from penstock.delivery.lane import Lane

CROWDED = 0.5  # of the room is taken,
CROWDED_SECONDS = 1.0  # and so long without an answer: it hangs;
HANGING_SECONDS = 0.3  # or so long while there is no room, and the others wait for it;
SLOW_SECONDS = 1.0  # or so long, when it gets answers but too slowly
BUSY_SECONDS = 5.0  # while another lane did something so lately
ROOMY_SECONDS = 0.2
HOLDING_UP_SHARE = 0.5  # of all that is unfinished is the lane's own,
OTHERS_SHARE = 0.1  # and another has next to nothing to do


class HoldUp:
    def __init__(self) -> None:
        self._crowded_since = 0.0  # 0: it is not
        self._full_since = 0.0  # since when hardly any rows are taken; 0: they are
        self._full_at = 0.0  # the last time that it was so

    def find(self, lanes: Sequence[Lane], unfinished_rows: int, fill: float, now: float) -> Lane | None:
        """The lane to park. ``fill`` is the share of the room that is taken; at 1 no rows are."""
        if fill >= 1.0:
            self._full_at = now
            self._full_since = self._full_since or now
        elif now - self._full_at > ROOMY_SECONDS:  # a few rows that fitted in between are no relief
            self._full_since = 0.0
        if fill < CROWDED:
            self._crowded_since = 0.0
            return None
        self._crowded_since = self._crowded_since or now
        lanes = [lane for lane in lanes if not lane.is_parked]
        if len(lanes) < 2:
            return None  # there is nobody to be held up
        slowest = max(lanes, key=lambda lane: lane.progress.open_count)
        most = unfinished_rows * OTHERS_SHARE
        others = [lane for lane in lanes if lane is not slowest and lane.progress.open_count < most]
        if slowest.progress.open_count < unfinished_rows * HOLDING_UP_SHARE or not others:
            return None  # all of them are busy: that is load, and no reason to do the work twice
        if not (slowest.is_held_back or self._hangs(slowest, fill, now) or self._is_slow(others, fill, now)):
            return None
        self._full_since = self._crowded_since = 0.0
        return slowest

    def _hangs(self, slowest: Lane, fill: float, now: float) -> bool:
        if fill >= 1.0:
            return now - max(slowest.finished_at, self._full_since) > HANGING_SECONDS
        return now - max(slowest.finished_at, self._crowded_since) > CROWDED_SECONDS

    def _is_slow(self, others: Sequence[Lane], fill: float, now: float) -> bool:
        if fill < 1.0 or now - self._full_since <= SLOW_SECONDS:
            return False
        return any(now - other.finished_at < BUSY_SECONDS for other in others)
