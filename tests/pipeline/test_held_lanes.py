"""Promises of lanes that are held back until their predecessor has its last answer. Kafka is a stand-in."""

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.contract.model import Subscription
from penstock.delivery.client import PAUSE_SECONDS
from penstock.delivery.deliver import Deliveries, Limits
from penstock.delivery.lane import Lane, LaneLimits
from penstock.delivery.progress import Progress
from penstock.delivery.row import Row
from penstock.kafka.claims import QUERY_SHIFT, Watch
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ledger import LaneKey, LaneRecord, Ledger, LedgerWriter
from penstock.pipeline.held_lanes import DEAD_SECONDS, HeldLanes
from penstock.pipeline.lane_records import LaneRecords
from penstock.pipeline.worker import Assignment, Holding, scope_of
from tests.delivery.outbox import KeptOutbox
from tests.pipeline.test_lane_records import Log

KEY = LaneKey("uid", "topic-id", 0)
OLD, NEW = 5, 8  # queries
DRAINING = LaneRecord(3, is_open=True, draining=1, attempts=((3, 2),))
ISOLATED = LaneRecord(3, is_open=True, is_parked=True, attempts=((3, 2),))  # its last attempt failed


def assignment(*, may_park: bool, scope: str = "topic-id") -> Assignment:
    nobody = Assignment.of_nobody(KafkaConnection("nowhere:1"), "topic")
    limits = Limits(may_park=may_park)
    return dataclasses.replace(nobody, topic_id="topic-id", scope=scope, query=NEW, limits=limits)


class Successor:
    """The part of a worker that continues a lane."""

    def __init__(self, assigned: Assignment) -> None:
        self.log, self.ledger = Log(), Ledger()
        self.ledger.put(KEY, OLD << QUERY_SHIFT, DRAINING)
        subscription = Subscription("uid", "Trigger", "default", "t", "topic", "group", "http://127.0.0.1:1/")
        self.lane = Lane(subscription, Progress(3), LaneLimits())
        self.lane.hold_back()
        watch: Any = SimpleNamespace(ledger=self.ledger, read_to_end=lambda _: None, leave_ledger=lambda: None)
        worker: Any = Holding.__new__(Holding)
        worker._assignment, worker._watch, worker._is_lost = assigned, watch, False
        worker._deliveries = Deliveries([self.lane], assigned.limits, lambda _: None, KeptOutbox())
        worker._records = LaneRecords(LedgerWriter(self.log), NEW << QUERY_SHIFT, [KEY], [self.lane])
        worker._held_back = HeldLanes(watch)
        worker._held_back.hold(KEY, 0, DRAINING)
        self.worker = worker
        worker._deliveries.take([Row(offset, (0,), [], b"") for offset in (3, 4)])

    def predecessor_writes(self, record: LaneRecord) -> None:
        self.ledger.put(KEY, OLD << QUERY_SHIFT, record)
        self.worker._go_on_with_released()


@pytest.mark.parametrize(
    "assigned",
    [assignment(may_park=False), assignment(may_park=False, scope=scope_of("topic-id", "uid"))],
    ids=["shared, and none may be isolated", "of its own"],
)
def test_a_lane_that_was_isolated_while_it_was_handed_over_is_served(assigned: Assignment) -> None:
    """Kept promise: a lane that its predecessor had isolated is served, with its attempts counted, also
    if no other query is started for it."""
    successor = Successor(assigned)
    successor.predecessor_writes(ISOLATED)
    assert not successor.lane.is_parked, "nobody would ever serve it"
    assert successor.lane.busy == 2, "it has begun"
    written = successor.log.read().entry(KEY)
    assert written is not None
    assert (written.generation, written.record.is_parked) == (NEW << QUERY_SHIFT, False)
    assert written.record.attempts == ((3, 2),)


def test_a_lane_that_was_isolated_while_it_was_handed_over_is_left_to_its_own_query() -> None:
    """Kept promise: if the dispatcher starts a query for it, no other worker serves it or writes its record."""
    successor = Successor(assignment(may_park=True))
    successor.predecessor_writes(ISOLATED)
    assert successor.lane.is_parked
    assert not successor.lane.busy
    assert not [key for key, _ in successor.log.records if key.startswith(b"uid/")]


def test_a_worker_that_is_fenced_does_not_ask_kafka_after_a_pause() -> None:
    """Kept promise: it begins nothing anyway, so while Kafka is away it still waits for its last answers."""
    successor = Successor(assignment(may_park=True))

    def unavailable(_: float) -> None:
        raise AssertionError("Kafka is away")

    successor.worker._watch.read_to_end = unavailable
    successor.worker._is_lost, successor.worker._trusted_until = True, time.monotonic() + 60
    successor.worker._look_again()


@pytest.mark.parametrize("silent_seconds", [DEAD_SECONDS - 4.0, DEAD_SECONDS + 0.1])
def test_a_worker_that_drains_and_was_frozen_for_long_gives_up_what_is_in_flight(silent_seconds: float) -> None:
    """Kept promise: once the successor considers it dead and sends again, it begins no dead letter and no reply."""
    worker = Successor(assignment(may_park=True)).worker
    worker._deliveries.go_on(worker._deliveries.lanes[0], 3, (), {})
    (lane,) = worker._deliveries.lanes
    assert lane.busy
    worker._is_lost, worker._trusted_until = True, time.monotonic() + DEAD_SECONDS - silent_seconds
    worker._look_again()
    is_dead = silent_seconds > DEAD_SECONDS
    assert (lane.busy == 0) is is_dead
    assert lane.progress.position == 3, "what was in flight stays open"


def test_nobody_waits_for_a_worker_that_is_known_to_be_dead() -> None:
    """Kept promise: the first event of a partition does not wait for a claim that was never released."""
    claimed = Watch.__new__(Watch)
    claimed._unclosed = {"topic-id/0": {OLD << QUERY_SHIFT | 1}}
    for dead_below, waits in ((0, True), (OLD, True), (OLD + 1, False)):
        worker = Successor(dataclasses.replace(assignment(may_park=True), dead_below=dead_below)).worker
        worker._watch, worker._partition = claimed, 0
        assert worker._has_predecessor(NEW << QUERY_SHIFT) is waits


@pytest.mark.parametrize("paused_seconds", [0.0, PAUSE_SECONDS + 0.5])
def test_a_worker_that_was_paused_before_its_first_delivery_looks_at_its_claim(paused_seconds: float) -> None:
    """Kept promise: the worker that claimed the partition during the pause delivers; this one begins nothing."""
    successor = Successor(assignment(may_park=True))
    successor.lane.go_on(3, (), {})
    ours, later = NEW << QUERY_SHIFT, (NEW + 1) << QUERY_SHIFT
    worker, holder = successor.worker, [ours]
    worker._watch.read_to_end = lambda _: holder.append(later)
    worker._watch.holder = lambda *_: holder[-1]
    worker._watch.stopped = lambda *_: {}
    worker._partition, worker._generation = 0, ours
    worker._looked_at = time.monotonic() - paused_seconds
    worker._look_before_first()
    worker._deliveries.take([Row(5, (0,), [], b"")])
    assert (worker._is_lost, successor.lane.busy > 0) == ((True, False) if paused_seconds else (False, True))
