"""A change that Spark cannot start: what ran goes on. The queries are stand-ins, Kafka is real."""

import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.contract.model import CLAIMS_TOPIC, LEDGER_TOPIC, Subscription
from penstock.delivery.deliver import Limits
from penstock.errors import Misconfigured, Unavailable
from penstock.kafka import claims
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.doorbell import Doorbells
from penstock.kafka.ledger import FollowedLedger, LaneKey, LaneRecord, Ledger, LedgerPart
from penstock.kafka.telemetry import Teller
from penstock.kafka.topics import COMPACTED, TopicSpec, create_missing
from penstock.pipeline.leaving import LeavingQueries
from penstock.pipeline.marks import WorkerWatch
from penstock.pipeline.running import Environment, Running
from penstock.pipeline.settings import DispatcherSettings
from penstock.pipeline.topic_query import LET_GO_SECONDS, StoppedLanes, TopicQuery
from penstock.pipeline.vitals import Vitals
from penstock.pipeline.worker import Assignment


class Query:
    """As much of a StreamingQuery as the dispatcher looks at."""

    def __init__(self, *, is_active: bool) -> None:
        self.isActive = is_active
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True

    def exception(self) -> Exception:
        return RuntimeError("Spark cannot\nfor this reason")


@pytest.fixture
def topic_query(kafka: KafkaConnection) -> TopicQuery:
    create_missing(kafka.admin(), [TopicSpec(each, config=COMPACTED) for each in (CLAIMS_TOPIC, LEDGER_TOPIC)])
    session: Any = None
    ledger, producer, clusters = FollowedLedger(kafka), kafka.lasting_producer(), Clusters(kafka, Path("nowhere"))
    bells = Doorbells(clusters, lambda *_: None)
    vitals, watch = Vitals(session, Path("nowhere"), Teller(kafka)), WorkerWatch(Path("nowhere"))
    environment = Environment(
        session, DispatcherSettings(), kafka, ledger, producer, clusters, bells, vitals, watch, time.time()
    )
    return TopicQuery("orders", environment)


def running(kafka: KafkaConnection, topic_id: str, number: int, *, is_active: bool) -> Running:
    packed = LedgerPart(Ledger(), 0).packed()
    assignment = Assignment(kafka, "orders", topic_id, b"[]", Limits(), 1, topic_id, frozenset(), packed, number, 0)
    query: Any = Query(is_active=is_active)
    return Running(query, "live", assignment, (), (0,), Path("nowhere"), time.time())


@pytest.mark.parametrize("has_claimed", [False, True])
def test_a_query_that_fails_at_its_start(kafka: KafkaConnection, topic_query: TopicQuery, has_claimed: bool) -> None:
    """Kept promise: what ran goes on; but a partition that it has let go of is not left without anybody."""
    topic_id = str(uuid.uuid4())
    producer = kafka.producer()
    first, second = (claims.next_query_number(producer, topic_id) for _ in range(2))
    claims.claim(producer, topic_id, 0, second if has_claimed else first)
    old = running(kafka, topic_id, first, is_active=True)
    new = running(kafka, topic_id, second, is_active=False)
    topic_query._running = new
    topic_query._give_up(new, old, topic_query._await_tasks(new))
    assert topic_query._running is (None if has_claimed else old)
    stand_in: Any = old.query
    assert stand_in.is_stopped is has_claimed
    assert topic_query.report.state == ("failed" if has_claimed else "refused")
    assert topic_query.report.reason == "Spark cannot"


def test_a_change_does_not_wait_for_workers_that_are_dead(kafka: KafkaConnection, topic_query: TopicQuery) -> None:
    """Kept promise: a claim that a killed worker never released delays no later change of a trigger, and no reset."""
    topic_id = str(uuid.uuid4())
    producer = kafka.producer()
    dead, alive, next_number = (claims.next_query_number(producer, topic_id) for _ in range(3))
    old = running(kafka, topic_id, alive, is_active=True)
    uid = Subscription("uid", "Trigger", "default", "t", "orders", "g", "http://a/")
    topic_query._running = replace(old, subscriptions=(uid,), partitions=(0, 1))
    for partition, closes in ((0, False), (1, True)):  # of partition 1 the worker of the running query has ended
        generation = claims.claim(producer, topic_id, partition, dead if partition == 0 else alive)
        if closes:
            claims.close(producer, topic_id, partition, generation)
    stopped = topic_query.stop_lanes("uid", ())
    assert stopped is not None
    assert not stopped.lanes, "no worker of the running query has any"
    claims.claim(producer, topic_id, 1, alive)
    stopped = topic_query.stop_lanes("uid", ())
    assert stopped is not None
    assert [lane.partition for lane in stopped.lanes] == [1]
    thread = threading.Thread(target=topic_query._let_go, args=(old, next_number), daemon=True)
    thread.start()
    thread.join(LET_GO_SECONDS - 2)
    assert not thread.is_alive()


def test_lanes_that_a_failed_start_has_moved_count_as_stopped(
    kafka: KafkaConnection, topic_query: TopicQuery
) -> None:
    """Kept promise: a trigger that was reset is served again at the next try, and not only half a minute later."""
    topic_id = str(uuid.uuid4())
    lane, ledger = LaneKey("uid", topic_id, 0), topic_query._environment.ledger
    topic_query._running = running(kafka, topic_id, 5, is_active=True)
    stopped = StoppedLanes("uid", 5, (lane,))
    for query, record, has_stopped in (
        (5, LaneRecord(3), False),
        (5, LaneRecord(3, is_parked=True), True),
        (6, LaneRecord(0), True),
    ):
        ledger._ledger.put(lane, query << claims.QUERY_SHIFT, record)
        assert topic_query.has_stopped(stopped) is has_stopped


def test_a_ledger_that_cannot_be_read_does_not_end_the_dispatcher(
    kafka: KafkaConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: queries that have handed over are stopped when their time is over, whatever the ledger does."""
    topic_id, leaving = str(uuid.uuid4()), LeavingQueries()
    left = running(kafka, topic_id, 5, is_active=True)

    def fail() -> None:
        raise Misconfigured("a newer version has written the ledger")

    ledger: Any = SimpleNamespace(
        read_to_end=fail, poll=fail, draining=lambda: {LaneKey("uid", topic_id, 0): 5 << claims.QUERY_SHIFT}
    )
    leaving.add("orders", left, ledger)
    leaving.advance()
    stand_in: Any = left.query
    assert not stand_in.is_stopped, "it still has requests in flight"
    leaving._until[5] = 0.0
    leaving.advance()
    assert stand_in.is_stopped


def test_a_start_that_was_prepared_waits_for_nobody_later(kafka: KafkaConnection, topic_query: TopicQuery) -> None:
    """Kept promise: after it, a take-over waits for its predecessor again, and nothing comes twice."""
    query: Any = Query(is_active=True)
    prepared: Any = SimpleNamespace(start=lambda: query, plan=SimpleNamespace(starting_offsets={0: 5}))
    cold = replace(running(kafka, "id", 1, is_active=True), query=None, gear="cold", partitions=())
    topic_query._running = cold
    assert topic_query._predecessor_until is not None
    topic_query._start_prepared(prepared, cold)
    assert topic_query.gear == "live"
    assert topic_query.partitions == 1
    assert topic_query._predecessor_until is None


def test_a_change_without_room_ends_queries_that_only_wait_first(
    kafka: KafkaConnection, topic_query: TopicQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: where many changes leave no slot, the query that serves is not stopped for the next change; one
    that only waits for last answers of slow subscribers is."""
    topic_id = str(uuid.uuid4())
    serving, waiting = (running(kafka, topic_id, number, is_active=True) for number in (6, 5))
    draining = {LaneKey("uid", topic_id, 0): 5 << claims.QUERY_SHIFT}
    ledger: Any = SimpleNamespace(read_to_end=lambda: None, poll=lambda: None, draining=lambda: draining)
    topic_query._environment.leaving.add("orders", waiting, ledger)
    draining.clear()
    free: list[int] = []

    def start(free_slots: int, gear: str | None) -> Running:
        free.append(free_slots)
        raise Misconfigured("a filter is invalid")

    monkeypatch.setattr(topic_query, "_start", start)
    topic_query._running = serving
    topic_query._start_or_replace(0)
    assert free == [1]
    assert topic_query._running is serving
    stopped: tuple[Any, Any] = serving.query, waiting.query
    assert [each.is_stopped for each in stopped] == [False, True]


def test_a_shift_that_failed_and_is_no_longer_needed_is_no_failure(
    kafka: KafkaConnection, topic_query: TopicQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: a query that goes on is reported as running, although a query in another gear could not be
    started when it was needed."""
    wanted = (Subscription("uid", "Trigger", "default", "t", "orders", "g", "http://a/"),)
    serving = replace(running(kafka, str(uuid.uuid4()), 5, is_active=True), subscriptions=wanted)
    gears = iter(["bulk", "live"])

    def start(free_slots: int, gear: str | None) -> Running:
        raise Unavailable("Kafka does not answer")

    monkeypatch.setattr(topic_query, "_start", start)
    monkeypatch.setattr(topic_query, "_next_gear", lambda _: next(gears))
    topic_query.wanted, topic_query._running = wanted, serving
    topic_query.advance(64)
    assert (topic_query.report.state, topic_query.report.reason) == ("failed", "Kafka does not answer")
    topic_query._not_before = 0.0  # the wait after a failure is over
    topic_query.advance(64)
    assert topic_query._running is serving
    assert (topic_query.report.state, topic_query.report.reason) == ("running", "")
