"""What a worker tells about its deliveries, once a second: the growth since the last time, what it has in hand,
and the log of all attempts.

Numbers go to the telemetry topic, the log to the deliveries topic (``contract.telemetry``). Nobody waits for either.
"""

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import NamedTuple

from penstock.contract.telemetry import DeliveryLog, LaneLog, Served, Telemetry
from penstock.delivery.deliver import Deliveries
from penstock.delivery.lane import Counts, Lane
from penstock.delivery.tally import PLAIN, Columns, logged, summed_up

TELL_SECONDS = 1.0
MOST_NOTED = 20_000  # attempts of all lanes; more of them are told sooner
OUTCOMES = tuple(field.name for field in fields(Counts))
_values = attrgetter(*OUTCOMES)


class OfTopic(NamedTuple):
    """The partition whose deliveries are counted."""

    place: str
    partition: int
    topic_id: str


class DeliveryCounts:
    def __init__(
        self, deliveries: Deliveries, of_topic: OfTopic, log: str = "all", *, is_aside: bool = False
    ) -> None:
        self._deliveries = deliveries
        self._lanes: Sequence[Lane] = deliveries.lanes
        self._place, self._partition, self._topic_id = of_topic
        self._log = log
        self._source = f"{socket.gethostname()}:{os.getpid()}:{self._place}/{self._partition}"
        self._is_aside = is_aside  # the query that the others share counts what was read
        self._told_bad = 0
        self._told_gaps = 0
        self._told_rows = 0
        self._held_something = False
        self._told = [_values(Counts()) for _ in self._lanes]
        self._due = 0.0

    def to_tell(
        self, bad_records: int, gaps: int = 0, *, at_once: bool = False
    ) -> tuple[Telemetry | None, DeliveryLog | None]:
        """None: nothing is new, or it is not time yet."""
        now = time.monotonic()
        if now < self._due and not at_once and not self._has_much():
            return None, None
        self._due = now + TELL_SECONDS
        served, lanes = {}, []
        for place, lane in enumerate(self._lanes):
            outcomes, uid = self._outcomes(place, lane), lane.subscription.uid
            if lane.tally.matched or lane.tally.noted or outcomes:
                noted = lane.tally.take()
                served[uid] = summed_up(noted)
                served[uid].outcomes = outcomes
                lanes += self._logged(uid, noted)
        log = DeliveryLog(self._place, self._partition, lanes, self._topic_id) if lanes else None
        return self._telemetry(bad_records, gaps, served, is_last=at_once), log

    def _has_much(self) -> bool:
        return sum(lane.tally.attempts for lane in self._lanes) >= MOST_NOTED

    def _telemetry(
        self, bad_records: int, gaps: int, served: dict[str, Served], *, is_last: bool
    ) -> Telemetry | None:
        bad, self._told_bad = bad_records - self._told_bad, bad_records
        new_gaps, self._told_gaps = gaps - self._told_gaps, gaps
        rows = self._deliveries.taken_rows
        consumed, self._told_rows = rows - self._told_rows, rows
        holds = {} if is_last else self._deliveries.holds()
        held_something, self._held_something = self._held_something, bool(holds)
        if not (served or bad or new_gaps or consumed or holds or held_something):
            return None
        return Telemetry(
            source=self._source,
            time=time.time(),
            topic=self._place,
            partition=self._partition,
            consumed=0 if self._is_aside else consumed,
            bad_records={self._place: bad} if bad else {},
            gaps={self._place: new_gaps} if new_gaps else {},
            served=served,
            holds=holds,
        )

    def _outcomes(self, place: int, lane: Lane) -> dict[str, int]:
        """Those that happened."""
        before, after = self._told[place], _values(lane.counts)
        if after == before:
            return {}
        self._told[place] = after
        return {name: now - then for name, then, now in zip(OUTCOMES, before, after, strict=True) if now != then}

    def _logged(self, uid: str, noted: Columns) -> list[LaneLog]:
        if self._log == "failures":
            noted = noted.where(lambda each: each != PLAIN)
        return [] if self._log == "off" or not noted.offsets else [logged(uid, noted)]
