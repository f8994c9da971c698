"""Promises of a topic's queries: every lane is served by exactly one of them, whatever fails.

The queries are stand-ins that say whether a start succeeds; what real ones do is in ``test_topic_query.py`` and in
the tests of the whole system.
"""

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from penstock.contract.model import QueryReport, Subscription
from penstock.errors import Unavailable
from penstock.kafka.ledger import LaneKey, LaneRecord, LedgerEntry
from penstock.pipeline import settling
from penstock.pipeline import topic as module
from penstock.pipeline.gears import Gearbox
from penstock.pipeline.running import Environment
from penstock.pipeline.settings import DispatcherSettings
from penstock.pipeline.topic import Topic
from penstock.pipeline.topic_query import StoppedLanes

A, B = (Subscription(uid, "Trigger", "default", uid, "orders", "g", "http://a/") for uid in ("a", "b"))


@dataclass
class World:
    """What the queries of a test share."""

    starts_fail: bool = False
    topic_id: str = "id-1"
    partitions: int = 2
    left_behind: frozenset[tuple[str, int]] = frozenset()  # by the next shared start
    is_kafka_away: bool = False
    is_in_flight: bool = False  # something of the lanes that are stopped
    queries: list["Query"] = field(default_factory=list)


class Query:
    """Stands for a TopicQuery."""

    world: World
    fails = False  # like ``World.starts_fail``, for this query

    def __init__(self, topic: str, environment: Any, uid: str | None = None, *, is_old: bool = False) -> None:
        self.uid = uid
        self.gearbox = Gearbox()
        self.pinned_apart: frozenset[str] = frozenset()
        self.lacks_room = 0
        self.made_at = 0.0
        self.wanted: tuple[Subscription, ...] = ()
        self.apart: frozenset[tuple[str, int]] = frozenset()
        self.only: frozenset[int] = frozenset()
        self.behind: frozenset[tuple[str, int]] = frozenset()
        self.must_restart = False
        self.movable: frozenset[str] = frozenset()
        self.moved: list[str] = []
        self.stopped: list[str] = []
        self.may_park = True
        self.parked_here: set[tuple[str, int]] = set()  # by the query that runs now
        self._topic_id = ""
        self.running: tuple[tuple[Subscription, ...], frozenset[tuple[str, int]]] | None = None
        self.running_since: float | None = None
        self.report = QueryReport(topic, "running")
        self.world.queries.append(self)

    def has_parked(self, uid: str, partition: int) -> bool:
        return (uid, partition) in self.parked_here

    @property
    def topic_id(self) -> str | None:
        return self._topic_id if self.running else None

    @property
    def partitions(self) -> int:
        return self.world.partitions if self.running else 0

    @property
    def topic_partitions(self) -> int:
        return self.partitions

    @property
    def is_settled(self) -> bool:
        return self.running is not None and self.running[0] == self.wanted and not self.must_restart

    def advance(self, _free_slots: int) -> None:
        if self.is_settled or not self.wanted:
            return
        if self.world.starts_fail or self.fails:
            return
        self.must_restart = False
        self.moved += self.movable
        self.parked_here.clear()
        self._topic_id = self.world.topic_id
        behind = frozenset() if self.uid else self.world.left_behind - self.apart
        pinned = {(uid, p) for uid in self.pinned_apart for p in (0, 1)}
        self.running = self.wanted, self.apart | behind | pinned
        self.running_since = time.time()
        self.behind = behind

    def stop_lanes(self, uid: str, besides: Any) -> StoppedLanes | None:
        if self.world.is_kafka_away:
            raise Unavailable("Kafka is away")
        self.stopped.append(uid)
        if self.running is None:
            return None
        self.running = self.running[0], self.running[1] | {(uid, p) for p in (0, 1)}
        return StoppedLanes(uid, 1, ())

    def has_stopped(self, _stopped: StoppedLanes) -> bool:
        return not self.world.is_in_flight

    def stop(self) -> None:
        self.running = self.running_since = None

    def serves(self) -> set[tuple[str, int]]:
        if self.running is None:
            return set()
        every = range(self.world.partitions)
        lanes = {(each.uid, p) for each in self.running[0] for p in every if self.uid is None or p in self.only}
        return lanes - self.running[1]


class KnownLedger:
    def __init__(self) -> None:
        self.parked_lanes: list[LaneKey] = []
        self.positions: dict[str, int] = {}

    def parked(self, topic_id: str) -> list[LaneKey]:
        return [lane for lane in self.parked_lanes if lane.topic_id == topic_id]

    def entry(self, lane: LaneKey) -> LedgerEntry:
        return LedgerEntry(1, LaneRecord(self.positions.get(lane.subscription_uid, 0)))

    def floor(self, _topic_id: str, _partition: int) -> int:
        return 10_000


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    monkeypatch.setattr(Query, "world", found, raising=False)
    monkeypatch.setattr(module, "TopicQuery", Query)
    monkeypatch.setattr(module, "SHORTEST_STAY_SECONDS", 0.0)
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.0)
    return found


@pytest.fixture
def known() -> KnownLedger:
    return KnownLedger()


def make_topic(known: KnownLedger, *wanted: Subscription, **settings: Any) -> Topic:
    nothing: Any = None
    ledger: Any = known
    environment = Environment(nothing, DispatcherSettings(**settings), nothing, ledger, *(nothing,) * 5, 0.0)
    made = Topic("orders", environment)
    made.wanted = wanted or (A, B)
    return made


@pytest.fixture
def topic(world: World, known: KnownLedger) -> Topic:
    return make_topic(known)


def served(world: World) -> list[tuple[str, int]]:
    return sorted(lane for query in world.queries for lane in query.serves())


EVERY_LANE = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def park(known: KnownLedger, world: World) -> None:
    """The worker of the shared query has let go of a/0."""
    known.parked_lanes = [LaneKey("a", world.topic_id, 0)]
    shared = world.queries[0]
    assert shared.running is not None
    shared.running = shared.running[0], shared.running[1] | {("a", 0)}


def test_a_parked_lane_is_served_apart_and_comes_back(topic: Topic, world: World, known: KnownLedger) -> None:
    """Kept promise: parked, served by its own query, caught up, shared again; each lane once at any time."""
    topic.advance(64)
    assert served(world) == EVERY_LANE
    park(known, world)
    topic.advance(64)
    assert served(world) == EVERY_LANE
    assert topic.report.apart == ("a",)
    known.parked_lanes = []  # its own query has written a newer record
    known.positions["a"] = 9_500
    topic.advance(64)
    assert served(world) == EVERY_LANE
    assert not list(topic.report.apart)


def test_a_query_of_its_own_waits_for_the_other_partitions(
    topic: Topic, world: World, known: KnownLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: one start for all partitions that are parked in a moment, and at once when it is all of them."""
    monkeypatch.setattr(module, "GATHER_SECONDS", 3600.0)
    topic.advance(64)
    park(known, world)
    topic.advance(64)
    assert served(world) == [lane for lane in EVERY_LANE if lane != ("a", 0)]
    known.parked_lanes.append(LaneKey("a", world.topic_id, 1))
    shared = world.queries[0]
    assert shared.running is not None
    shared.running = shared.running[0], shared.running[1] | {("a", 1)}
    topic.advance(64)
    assert served(world) == EVERY_LANE


def test_partitions_that_are_isolated_one_after_another_do_not_delay_the_first(
    world: World, known: KnownLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: however many partitions follow, the first one is served after a bounded time; and when the
    subscription is gone, nothing of it is kept."""
    clock: Any = SimpleNamespace(now=100.0, time=time.time)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(settling, "time", clock)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "GATHER_SECONDS", 1.5)
    world.partitions = 64
    topic = make_topic(known)
    topic.advance(1000)
    for partition in range(40):
        known.parked_lanes.append(LaneKey("a", world.topic_id, partition))
        topic.advance(1000)
        if any(query.serves() for query in world.queries[1:]):
            break
        clock.now += 1.4
    assert ("a", 0) in world.queries[1].serves()
    assert clock.now - 100.0 <= settling.LONGEST * 1.5 + 1.4
    known.parked_lanes.append(LaneKey("a", world.topic_id, 50))
    topic.advance(1000)
    topic.wanted, known.parked_lanes = (B,), []
    topic.advance(1000)
    assert not topic._gathering


def test_lanes_that_a_failed_start_would_have_left_behind_stay_where_they_are(topic: Topic, world: World) -> None:
    """Kept promise: while the old query goes on, nobody else delivers its lanes too."""
    topic.advance(64)
    world.left_behind, world.starts_fail = frozenset({("b", 1)}), True
    topic.wanted = (A, Subscription("c", "Trigger", "default", "c", "orders", "g", "http://a/"), B)
    topic.advance(64)
    assert served(world) == EVERY_LANE
    world.starts_fail = False
    topic.advance(64)
    assert len(served(world)) == len(set(served(world))) == 6
    assert topic.report.apart == ("b",)


def test_a_lane_does_not_come_back_to_a_query_that_cannot_be_replaced(
    topic: Topic, world: World, known: KnownLedger
) -> None:
    """Kept promise: a lane that was given away is never left without anybody."""
    topic.advance(64)
    park(known, world)
    topic.advance(64)
    known.parked_lanes, known.positions["a"] = [], 9_500
    world.starts_fail = True
    topic.reset("a")  # takes it back whatever happens
    for _ in range(3):
        topic.advance(64)
    world.starts_fail = False
    topic.advance(64)
    topic.advance(64)
    assert served(world) == EVERY_LANE


def test_a_reset_makes_the_shared_query_start_again(topic: Topic, world: World) -> None:
    """Kept promise: whoever sets a group's offsets is obeyed, also when the trigger is not apart."""
    topic.advance(64)
    first = world.queries[0].running_since
    topic.reset("a")
    topic.advance(64)
    assert world.queries[0].running_since != first
    assert served(world) == EVERY_LANE


def test_a_reset_waits_for_what_is_in_flight(topic: Topic, world: World, known: KnownLedger) -> None:
    """Kept promise: lanes are moved when no query serves them and nothing is in flight, and all others are served."""
    topic.advance(64)
    (shared,) = world.queries
    world.is_in_flight = True
    topic.reset("a")
    for _ in range(3):
        topic.advance(64)
        assert served(world) == [("b", 0), ("b", 1)]
    topic.wanted = (A, Subscription("c", "Trigger", "default", "c", "orders", "g", "http://a/"), B)
    topic.advance(64)  # another change meanwhile
    assert served(world) == [("b", 0), ("b", 1), ("c", 0), ("c", 1)]
    assert not shared.moved
    known.parked_lanes = [LaneKey("a", world.topic_id, each) for each in (0, 1)]  # as they were stopped
    topic.advance(64)
    assert world.queries == [shared], "they get no query of their own"
    world.is_in_flight, world.starts_fail = False, True
    topic.advance(64)
    assert served(world) == [("b", 0), ("b", 1), ("c", 0), ("c", 1)], "no query serves lanes that are not moved yet"
    world.starts_fail = False
    topic.advance(64)
    known.parked_lanes = []  # they have been moved
    assert shared.moved == ["a"]
    assert len(served(world)) == 6
    topic.advance(64)
    assert world.queries == [shared]


def test_a_reset_of_an_isolated_subscription_waits_for_what_is_in_flight_there(
    topic: Topic, world: World, known: KnownLedger
) -> None:
    """Kept promise: its query notes what is in flight and finishes it before the lanes are moved."""
    topic.advance(64)
    park(known, world)
    topic.advance(64)
    shared, isolated = world.queries
    world.is_in_flight = world.is_kafka_away = True
    topic.reset("a")
    with pytest.raises(Unavailable):
        topic.advance(64)
    assert isolated.running, "the next round tries again"
    world.is_kafka_away = False
    topic.advance(64)
    assert isolated.stopped == ["a"]
    assert isolated.running is None
    assert not shared.moved
    world.is_in_flight, known.parked_lanes = False, []
    topic.advance(64)
    assert shared.moved == ["a"]
    assert served(world) == EVERY_LANE


def test_a_reset_disturbs_no_isolated_subscription(
    topic: Topic, world: World, known: KnownLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: no subscription loses its own query to make room for one that needs none."""
    monkeypatch.setattr(module, "ROTATE_SECONDS", -1.0)
    topic.advance(64)
    park(known, world)
    topic.advance(64)
    isolated = world.queries[1]
    since = isolated.running_since
    world.is_in_flight = True
    topic.reset("b")
    for _ in range(3):
        topic.advance(64)
    assert isolated.running_since == since
    assert world.queries[1:] == [isolated]


def test_who_waits_for_a_query_of_its_own_is_reported(
    world: World, known: KnownLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: an isolated subscription that no query serves at the moment is not reported as ready."""
    topic = make_topic(known, private_queries=1)
    topic.advance(64)
    known.parked_lanes = [LaneKey(uid, world.topic_id, each) for uid in ("a", "b") for each in (0, 1)]
    topic.advance(64)
    (waiting,) = topic.report.failures
    assert waiting in {"a", "b"}
    assert "PENSTOCK_PRIVATE_QUERIES" in topic.report.failures[waiting]
    monkeypatch.setattr(module, "ROTATE_SECONDS", -1.0)
    topic.advance(64)
    assert list(topic.report.failures) == [({"a", "b"} - {waiting}).pop()], "they take turns"


@pytest.mark.scenario(24)
def test_a_topic_made_anew_has_no_lanes_apart(topic: Topic, world: World, known: KnownLedger) -> None:
    """Kept promise: what was known of the old topic does not keep anybody from the new one."""
    topic.advance(64)
    park(known, world)
    topic.advance(64)
    assert topic.report.apart == ("a",)
    world.topic_id = "id-2"
    world.queries[0].stop()
    topic.advance(64)
    topic.advance(64)
    assert served(world) == EVERY_LANE
    assert not list(topic.report.apart)


def test_a_failure_of_the_shared_query_stops_no_isolated_one(topic: Topic, world: World, known: KnownLedger) -> None:
    """Kept promise: while the shared query is stopped and cannot be started, isolated queries go on, and one that
    fails is started again."""
    topic.advance(64)
    park(known, world)
    topic.advance(64)
    shared, isolated = world.queries
    since = isolated.running_since
    shared.stop()
    shared.fails = True
    topic.advance(64)
    assert served(world) == [("a", 0)]
    assert isolated.running_since == since
    isolated.stop()
    topic.advance(64)
    assert served(world) == [("a", 0)]
    shared.fails = False
    topic.advance(64)
    assert served(world) == EVERY_LANE
    assert world.queries == [shared, isolated]


def test_a_query_that_cannot_be_started_does_not_keep_its_turn(
    world: World, known: KnownLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: those that wait for a query get their turn, also if the query before them never runs."""
    monkeypatch.setattr(module, "ROTATE_SECONDS", -1.0)
    topic = make_topic(known, private_queries=1)
    topic.advance(64)
    known.parked_lanes = [LaneKey("a", world.topic_id, each) for each in (0, 1)]
    monkeypatch.setattr(Query, "fails", True)
    topic.advance(64)
    assert list(topic.report.apart) == ["a"]
    assert world.queries[1].running is None
    known.parked_lanes += [LaneKey("b", world.topic_id, each) for each in (0, 1)]
    topic.advance(64)
    topic.advance(64)
    assert [query.uid for query in world.queries] == [None, "a", "b", "a"]


def test_who_is_paused_is_served_by_nobody_and_afterwards_by_one(topic: Topic, world: World) -> None:
    """Kept promise: a pause has an end, and then every lane has its query."""
    topic.advance(64)
    paused = Subscription("a", "Trigger", "default", "a", "orders", "g", "http://a/", paused="x", paused_until=1.0)
    forever = Subscription("a", "Trigger", "default", "a", "orders", "g", "http://a/", paused="x")
    topic.wanted = (forever, B)
    topic.advance(64)
    assert served(world) == [("b", 0), ("b", 1)]
    topic.wanted = (paused, B)
    topic.advance(64)
    assert served(world) == EVERY_LANE


def test_who_leaves_while_nothing_can_be_started_harms_nobody(topic: Topic, world: World, known: KnownLedger) -> None:
    """Kept promise: a trigger that is apart and deleted, while Kafka is away, does not stop the dispatcher."""
    topic.advance(64)
    park(known, world)
    topic.advance(64)
    world.starts_fail, known.parked_lanes = True, []
    topic.wanted = (B,)
    topic.advance(64)
    world.starts_fail = False
    topic.advance(64)
    assert served(world) == [("b", 0), ("b", 1)]


def test_another_thread_may_read_metrics_while_queries_come_and_go(
    topic: Topic, world: World, known: KnownLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: metrics can be read at the very moment at which a lane gets a query of its own."""
    topic.advance(64)
    park(known, world)
    topic.advance(64)

    def partitions(_: Query) -> int:  # another query comes while the present ones are counted
        newcomer: Any = Query("orders", None)
        topic._private[f"newcomer {len(topic._private)}"] = newcomer
        return 2

    monkeypatch.setattr(Query, "partitions", property(partitions))
    assert topic.slots >= 4
    assert "a" in topic.report.apart


def test_a_failure_of_an_isolated_query_is_reported(topic: Topic, world: World, known: KnownLedger) -> None:
    """Kept promise: when the query of an isolated subscription does not run, the report says which one, and why."""
    topic.advance(64)
    park(known, world)
    topic.advance(64)
    assert topic.report.failures == {}
    world.queries[-1].report = QueryReport("orders", "failed", "no room")
    assert topic.report.failures == {"a": "no room"}
    assert topic.report.state == "running"


@pytest.mark.parametrize(
    "filters",
    [
        {"prefix": {"a' || java_method('java.lang.System', 'exit', 1) || '": "x"}},
        {"attributes": {"type\n": "x"}},
        {"cesql": "note LIKE"},
        {"cesql": "note LIKE '%" + "a" * 300 + "%'"},
        {"unknown": {}},
        {"exact": {"type": 5}},
    ],
)
def test_an_invalid_filter_in_the_contract_stops_nobody_else(
    topic: Topic, world: World, filters: dict[str, Any]
) -> None:
    """Kept promise: the others are served, and the report names the invalid one."""
    bad = Subscription("bad", "Trigger", "default", "bad", "orders", "g", "http://a/", filters=(filters,))
    topic.wanted = (A, B, bad)
    topic.advance(64)
    assert served(world) == EVERY_LANE
    assert list(topic.report.refused) == ["bad"]
    assert "filters" in topic.report.refused["bad"]
    good = msgspec.structs.replace(bad, filters=({"exact": {"type": "x"}},))
    topic.wanted = (A, B, good)
    topic.advance(64)
    assert not topic.report.refused
    assert ("bad", 0) in served(world)


def test_what_a_batch_left_unfinished_is_served_again(topic: Topic, world: World, known: KnownLedger) -> None:
    """Kept promise: a lane that a worker left with a pending retry has a query again, also if no lane may be isolated
    or if it was isolated already."""
    topic.advance(64)
    shared = world.queries[0]
    shared.may_park = False
    known.parked_lanes = [LaneKey("a", world.topic_id, 0)]
    shared.parked_here = {("a", 0)}
    topic.advance(64)
    assert len(world.queries) == 1
    assert served(world) == EVERY_LANE
    assert not shared.parked_here, "the shared query was not started again"
    topic.advance(64)
    assert not list(topic.report.apart), "its record is old: the new query is about to write another"
    shared.may_park = True
    park(known, world)
    topic.advance(64)
    isolated = world.queries[1]
    isolated.parked_here = {("a", 0)}
    topic.advance(64)
    assert not isolated.parked_here, "the query of its own was not started again"
    assert served(world) == EVERY_LANE
