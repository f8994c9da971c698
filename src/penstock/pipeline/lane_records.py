"""What a worker writes to the ledger about its lanes.

All lanes of a partition see the same rows, and most lanes have nothing open most of the time. So one record, the
floor, holds the position of the rows. It is the position of every lane that is not marked as open:

    at each tick    lanes that have begun something since ─▶ "open", with what is finished and what is not
                    lanes that were open and have finished ─▶ "not open"
                    then the floor

In this order, because whoever reads the ledger may see any beginning of what was written: a floor is only true
together with the records before it.

At a hand-over the lanes that still wait for answers are marked as draining. The successor leaves these to this worker
until their last record comes, without the mark, and goes on with all others at once.
"""

from collections.abc import Sequence

from penstock.delivery.lane import Lane
from penstock.kafka.ledger import LaneKey, LaneRecord, Ledger, LedgerWriter, floor_key


class LaneRecords:
    """The records of one partition's lanes under one generation."""

    def __init__(self, writer: LedgerWriter, generation: int, keys: Sequence[LaneKey], lanes: Sequence[Lane]) -> None:
        self._writer = writer
        self._generation = generation
        self._keys = keys
        self._lanes = lanes
        # Other workers write the records of all other lanes.
        self._own = [place for place, lane in enumerate(lanes) if not (lane.is_parked or lane.is_held_back)]
        self._draining = 0  # counts the records since the hand-over
        self._stopped: dict[Lane, tuple[int, ...]] = {}
        self._floor_key = floor_key(keys[0])
        self._floor = 0
        self._is_open = [False] * len(lanes)  # as the ledger has it

    def write_all(self) -> None:
        """At the take-over, before the first row: from now on the floor of this generation counts for these lanes."""
        for place in self._own:
            self._write(place)

    def go_on(self, place: int) -> None:
        """Continues a lane that was held back. Writes at once: the predecessor's record is erased next."""
        self._own.append(place)
        self._write(place)

    def note_stopped(self, lane: Lane, in_flight: Sequence[int]) -> None:
        """Notes the offsets in flight of a lane that will be reset: those delivered by then are not sent again."""
        self._stopped[lane] = tuple(in_flight)

    def hand_over(self, seen_offset: int) -> None:
        """The last record of every lane that waits for no answer, and a mark for the others."""
        self._draining = 1
        for place in self._own:
            self._lanes[place].is_dirty |= self._lanes[place].busy > 0
        self.write_moved(seen_offset)
        self._own = [place for place in self._own if self._lanes[place].busy]

    @property
    def has_drained(self) -> bool:
        """Whether a lane has its last answer, and the ledger does not show it yet."""
        return any(not self._lanes[place].busy for place in self._own)

    def write_draining(self) -> None:
        """After the hand-over: writes a heartbeat of the waiting lanes, or that a lane has its last answer."""
        self._draining += 1
        for place in self._own:
            self._write(place)
        self._own = [place for place in self._own if self._lanes[place].busy]

    def release(self) -> None:
        """After the hand-over: this worker stops waiting for answers that are still missing."""
        self._draining = 0
        for place in self._own:
            self._write(place)
        self._own = []

    def write_moved(self, seen_offset: int) -> None:
        """What moved since the last call, in a few records."""
        for place in self._own:
            lane = self._lanes[place]
            if lane.is_dirty:
                if not lane.is_parked:
                    lane.progress.pass_by(seen_offset)
                if lane.is_parked or lane.progress.is_open or self._is_open[place]:
                    self._write(place)
                lane.is_dirty = False  # last: what could not be written is written before any floor
        if seen_offset >= self._floor:
            self._floor = seen_offset + 1
            self._writer.write(self._floor_key, self._generation, LaneRecord(self._floor))

    def erase_older(self, known: Ledger) -> None:
        """What predecessors wrote. A floor stays while it counts for a lane that is not among ours."""
        ours = {self._keys[place] for place in self._own}
        for key in ours:
            self._writer.erase(key, [g for g in known.generations(key) if g < self._generation])
        needed = {known.generations(lane)[-1] for lane in known.beside(self._keys[0]) if lane not in ours}
        floors = known.generations(self._floor_key)
        self._writer.erase(self._floor_key, [g for g in floors if g < self._generation and g not in needed])

    def _write(self, place: int) -> None:
        lane = self._lanes[place]
        progress = lane.progress
        draining = self._draining if lane.busy else 0
        # The floor does not count for an isolated lane.
        is_open = progress.is_open or lane.is_parked
        self._is_open[place] = is_open
        attempts = tuple(lane.failing.items())
        record = LaneRecord(
            progress.position,
            progress.beyond(),
            is_open,
            attempts,
            lane.is_drained,
            draining,
            self._stopped.get(lane, ()),
        )
        self._writer.write(self._keys[place], self._generation, record)
