"""Lanes that a worker may not begin yet, since its predecessor still waits for answers to them.

    draining in the ledger ─▶ held back ─▶ the last record has come, or none for five seconds ─▶ the worker goes on

Owned by the worker, which checks them at each tick.
"""

import time
from typing import NamedTuple

from penstock.kafka.claims import Watch
from penstock.kafka.ledger import LaneKey, LaneRecord, LedgerEntry

DEAD_SECONDS = 5.0  # longest silence of a worker that waits for answers; it writes every second
READ_SECONDS = 20.0


class HeldLane(NamedTuple):
    place: int
    record: LaneRecord  # the last that was seen of it,
    until: float  # and how long to wait for another, on the monotonic clock


class Released(NamedTuple):
    """A lane whose predecessor has handed it over or is dead."""

    key: LaneKey
    place: int
    entry: LedgerEntry | None  # its last record


class HeldLanes:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._held: dict[LaneKey, HeldLane] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, key: LaneKey, place: int, record: LaneRecord) -> None:
        self._held[key] = HeldLane(place, record, time.monotonic() + DEAD_SECONDS)

    def take_released(self) -> list[Released]:
        """The lanes that no worker serves any more, and how far they have come."""
        now, released = time.monotonic(), list[Released]()
        if any(now > held.until for held in self._held.values()):
            self._watch.read_to_end(READ_SECONDS)  # this process itself may have been paused
        for key, held in list(self._held.items()):
            entry = self._watch.ledger.entry(key)
            record = entry.record if entry else LaneRecord(0)
            if not record.draining or (record == held.record and now > held.until):
                del self._held[key]
                released.append(Released(key, held.place, entry))
            elif record != held.record:
                self.hold(key, held.place, record)
        return released
