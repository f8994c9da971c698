"""What became of deliveries and of records that are no events, told once a second: the growth since the last time."""

import time
from collections.abc import Sequence
from dataclasses import asdict

from penstock.contract.telemetry import Served, Telemetry
from penstock.delivery.lane import Counts, Lane

TELL_SECONDS = 1.0


class DeliveryCounts:
    def __init__(self, lanes: Sequence[Lane], topic: str) -> None:
        self._lanes = lanes
        self._topic = topic
        self._told_bad = 0
        self._told = [Counts() for _ in lanes]
        self._due = 0.0

    def to_tell(self, bad_records: int, *, at_once: bool = False) -> Telemetry | None:
        now = time.monotonic()
        if now < self._due and not at_once:
            return None
        self._due = now + TELL_SECONDS
        grown: dict[str, Served] = {}
        for place, lane in enumerate(self._lanes):
            if lane.counts != self._told[place]:
                before, after = asdict(self._told[place]), asdict(lane.counts)
                grown[lane.subscription.uid] = Served(outcomes={name: after[name] - before[name] for name in after})
                self._told[place] = Counts(**after)
        bad, self._told_bad = bad_records - self._told_bad, bad_records
        return Telemetry(served=grown, bad_records={self._topic: bad} if bad else {}) if grown or bad else None
