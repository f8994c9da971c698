"""How old what waits is: the oldest waiting event, the time between it and the newest, partitions that do not move.

Lags come in every second or two, ages go out. The end of each partition is remembered with the time at which it was
seen, so when a record came is known as well as that without reading it; what has waited for longer is looked at
once, by reading the record at its offset, a few a round. Called by ``observe``.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from penstock.control.lag import Lags, LanePosition
from penstock.kafka.record_times import Spot

KEPT_ENDS = 240  # by partition: changes of its end
EXACT_SECONDS = 5.0  # what waits for longer is looked at
ROUND = 16  # records that are read in a round
KEPT_TIMES = 5_000
AGAIN_SECONDS = 30.0  # until what could not be read is tried again

Read = Callable[[str, Iterable[Spot]], Mapping[Spot, float]]  # of a place: when the records there came


@dataclass(frozen=True)
class Age:
    """Of one subscription, in seconds. None: not known yet."""

    oldest: float | None = 0.0
    behind: float | None = 0.0
    stalled: float = 0.0


class Ends:
    """When the end of a partition was where."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=KEPT_ENDS)
        self._ends: deque[int] = deque(maxlen=KEPT_ENDS)

    def see(self, now: float, end: int) -> None:
        if self._ends and end < self._ends[-1]:  # made anew
            self._times.clear()
            self._ends.clear()
        if not self._ends or end > self._ends[-1]:
            self._times.append(now)
            self._ends.append(end)

    def came(self, offset: int) -> float | None:
        """When a record was first seen; None: it was there before we looked."""
        number = bisect_right(self._ends, offset)
        return self._times[number] if 0 < number < len(self._ends) else None


class Ages:
    def __init__(self, read: Read) -> None:
        self._read = read
        self._ends: dict[tuple[str, int], Ends] = {}
        self._moved: dict[tuple[str, str, int], tuple[int, float]] = {}  # position, and since when
        self._times: dict[tuple[str, Spot], float] = {}
        self._not_before: dict[tuple[str, Spot], float] = {}  # of what could not be read

    def see(self, now: float, lags: Lags) -> dict[str, Age]:
        lanes = [(key, lane) for key, found in lags.items() for lane in found]
        for where in self._ends.keys() - {(lane.place, lane.partition) for _, lane in lanes}:
            del self._ends[where]
        for lane_key in self._moved.keys() - {(key, lane.place, lane.partition) for key, lane in lanes}:
            del self._moved[lane_key]
        for _, lane in lanes:
            self._ends.setdefault((lane.place, lane.partition), Ends()).see(now, lane.end)
        self._look_up(now, [lane for _, lane in lanes if lane.lag])
        return {key: self._age(now, key, found) for key, found in lags.items()}

    def _age(self, now: float, key: str, lanes: list[LanePosition]) -> Age:
        stalled = max((self._stalled(now, key, lane) for lane in lanes), default=0.0)
        waiting = [lane for lane in lanes if lane.lag]
        if not waiting:
            return Age()
        first = {lane: self._came(lane, lane.position) for lane in waiting}
        known = [at for at in first.values() if at is not None]
        behind = [
            newest - at
            for lane, at in first.items()
            if at is not None and (newest := self._came(lane, lane.end - 1)) is not None
        ]
        return Age(
            max(0.0, now - min(known)) if known else None,
            max(0.0, max(behind)) if behind else None,
            stalled,
        )

    def _stalled(self, now: float, key: str, lane: LanePosition) -> float:
        where = (key, lane.place, lane.partition)
        position, since = self._moved.get(where, (-1, now))
        if not lane.lag or lane.position != position:
            self._moved[where] = lane.position, now
            return 0.0
        return now - since

    def _came(self, lane: LanePosition, offset: int) -> float | None:
        exact = self._times.get((lane.place, Spot(lane.topic, lane.partition, offset)))
        return exact if exact is not None else self._ends[lane.place, lane.partition].came(offset)

    def _look_up(self, now: float, waiting: list[LanePosition]) -> None:
        """Reads the records of which nothing, or too little, is known."""
        wanted: dict[str, list[Spot]] = {}
        count = 0
        for lane in sorted(waiting, key=lambda lane: -lane.lag):
            for offset in (lane.position, lane.end - 1):
                spot = Spot(lane.topic, lane.partition, offset)
                came = self._ends[lane.place, lane.partition].came(offset)
                is_recent = came is not None and now - came < EXACT_SECONDS
                is_known = is_recent or (lane.place, spot) in self._times
                if count < ROUND and not is_known and now >= self._not_before.get((lane.place, spot), 0.0):
                    wanted.setdefault(lane.place, []).append(spot)
                    count += 1
        for place, spots in wanted.items():
            found = self._read(place, spots)
            for spot in spots:
                if spot in found:
                    self._times[place, spot] = found[spot]
                else:
                    self._not_before[place, spot] = now + AGAIN_SECONDS
        for kept in (self._times, self._not_before):
            while len(kept) > KEPT_TIMES:
                kept.pop(next(iter(kept)))
