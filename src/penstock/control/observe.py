"""Looks at everything that has to be asked for, in a thread of its own, and remembers the last answers.

    Kafka answers? lags ──▶ ages      brokers, copies, ends, sizes      receiver, dispatcher      dead letters
                 └──────────────────────────── Sight ────────────────────────────┘

Whoever shows numbers (the metrics, the live feed) takes the last ``Sight`` and never waits for Kafka. While the
controller still waits for Kafka there is a Sight too, which says so. Made by the controller.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from penstock.contract.model import Cluster, place_of
from penstock.control.ages import Age, Ages
from penstock.control.kafka_state import STATE_SECONDS, KafkaLooker, KafkaState
from penstock.control.kinds import Resource, key_of, uid_of
from penstock.control.lag import LagReader, Lags
from penstock.control.parts import Part, all_parts
from penstock.control.probe import Receiver
from penstock.control.series import STEP_SECONDS
from penstock.control.settings import ControllerSettings
from penstock.control.telemetry import ALL
from penstock.control.world import World
from penstock.errors import PenstockError
from penstock.kafka.connection import Contact
from penstock.kafka.dead_letter_index import Waiting
from penstock.kafka.record_times import RecordTimes, Spot

logger = logging.getLogger("penstock.control")

LOOK_SECONDS = 1.0  # while somebody wants to see,
REST_SECONDS = float(STEP_SECONDS)  # and while nobody does: once in each step of the history
WATCHED_SECONDS = 3.0  # so long after somebody asked, or changed something
KAFKA_SECONDS = 2.0  # for an answer
OLD_SECONDS = 15.0
TREND_SECONDS = 10.0
READING = "reading what is stored"  # what the controller waits for once Kafka has answered
FORGET_SECONDS = 60.0  # between two looks for what is no more


Running = Callable[[], tuple[World, LagReader] | None]


@dataclass(frozen=True)
class Sight:
    at: float  # seconds since the epoch
    parts: tuple[Part, ...]
    lags: Lags = field(default_factory=dict)
    lags_before: Mapping[str, int] = field(default_factory=dict)  # some seconds ago, by key
    ages: Mapping[str, Age] = field(default_factory=dict)  # by key
    kafka: KafkaState = field(default_factory=KafkaState)
    dead: Mapping[str, Waiting] = field(default_factory=dict)  # by uid

    def lag(self, key: str) -> int | None:
        lanes = self.lags.get(key)
        return None if lanes is None else sum(lane.lag for lane in lanes)


class Observer:
    def __init__(
        self,
        settings: ControllerSettings,
        running: Callable[[], tuple[World, LagReader] | None],
        why: Callable[[], str],
    ) -> None:
        """``running``: None while the controller is starting; ``why`` says what it waits for."""
        self._settings = settings
        self._running = running
        self._why = why
        self._receiver = Receiver(settings.probe_url)
        self._round = threading.Condition()
        self._begun = self._ended = 0
        self._asked_at = float("-inf")
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._eyes: _Eyes | None = None
        self._sight = Sight(time.time(), (Part("controller", "starting", "it has not begun", settings.admin_url),))
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(timeout=3.0)
        if self._eyes is not None:
            self._eyes.close()

    @property
    def sight(self) -> Sight:
        """Of the last look. One that takes too long waits for Kafka, whatever it was told before."""
        self._asked_at = time.monotonic()
        sight, silent = self._sight, time.time() - self._sight.at
        if silent < OLD_SECONDS:
            return sight
        why = f"it has not answered for {silent:.0f} s"
        parts = (
            replace(part, state="not answering", reason=why) if part.name == "kafka" else part for part in sight.parts
        )
        return replace(sight, parts=tuple(parts), lags={}, ages={})

    def note_change(self, _event: str, _resource: Resource) -> None:
        """Of a resource. What was counted before a subscription came is not its own: that is to be looked at soon."""
        self._asked_at = time.monotonic()

    def fresh(self, timeout_seconds: float = 1.5) -> Sight:
        """Of a look that begins from now on, if that ends in time; else the last one."""
        with self._round:
            wanted = self._begun + 1
            self._wanted.set()
            self._round.wait_for(lambda: self._ended >= wanted, timeout_seconds)
        return self.sight

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._round:
                self._begun += 1
                self._wanted.clear()
            try:
                self._sight = self._look()
            except Exception:
                logger.exception("a look at the system failed")
            with self._round:
                self._ended = self._begun
                self._round.notify_all()
            self._pause()

    def _pause(self) -> None:
        due = REST_SECONDS - time.time() % REST_SECONDS
        first = min(LOOK_SECONDS, due)
        if not self._wanted.wait(first) and time.monotonic() - self._asked_at > WATCHED_SECONDS:
            self._wanted.wait(due - first)

    def _look(self) -> Sight:
        running = self._running()
        if running is None:
            return self._starting()
        if self._eyes is None:
            self._eyes = _Eyes(*running)
        return self._eyes.look()

    def _starting(self) -> Sight:
        receiver = self._receiver.ready()
        servers, why = self._settings.bootstrap_servers, self._why()
        is_reading = why == READING
        parts = (
            Part(
                "kafka",
                "running" if is_reading else "not answering",
                "" if is_reading else f"waiting for {why}",
                servers,
            ),
            Part("controller", "starting", why, self._settings.admin_url),
            Part("receiver", "running" if receiver.ok else "not answering", receiver.message, self._receiver.url),
            Part("dispatcher", "unknown", "it reports through Kafka"),
        )
        return Sight(time.time(), parts, kafka=KafkaState(problem=why))


class _Eyes:
    """Looks, once the controller runs. For one thread."""

    def __init__(self, world: World, lag_reader: LagReader) -> None:
        self._world = world
        self._lag_reader = lag_reader
        self._contact = Contact(world.connection)
        self._ages = Ages(self._read_times)
        self._times: dict[str, RecordTimes] = {}  # by bootstrap servers
        self._kafka_looker = KafkaLooker(world)
        self._kafka, self._kafka_at = KafkaState(), float("-inf")
        self._asked_for: frozenset[tuple[str, Cluster]] = frozenset()
        self._before: deque[tuple[float, dict[str, int]]] = deque()
        self._forgot_at = time.monotonic()

    def look(self) -> Sight:
        world, now, servers = self._world, time.time(), self._world.settings.bootstrap_servers
        lags: Lags = {}
        try:
            self._contact.check(KAFKA_SECONDS)
            kafka = Part("kafka", "running", "", servers)
            lags = self._lag_reader.read()
        except PenstockError as error:
            kafka = Part("kafka", "not answering", error.message, servers)
            self._kafka, self._kafka_at = KafkaState(brokers=0, problem=error.message), float("-inf")
        if kafka.is_well:
            self._look_at_kafka()
        ages = self._ages.see(time.time(), lags) if kafka.is_well else {}
        parts = all_parts(world, kafka)
        sight = Sight(
            time.time(), parts, lags, self._trend(now, lags), ages, self._kafka, world.dead_letters.waiting()
        )
        self._note(sight)
        self._forget()
        return sight

    def close(self) -> None:
        self._kafka_looker.close()
        for each in self._times.values():
            each.close()
        self._contact.close()

    def _look_at_kafka(self) -> None:
        """Every few seconds, and when there are other topics than before."""
        topics = frozenset(self._topics())
        if topics != self._asked_for or time.monotonic() - self._kafka_at > STATE_SECONDS:
            self._kafka = self._kafka_looker.look(topics)
            self._kafka_at, self._asked_for = time.monotonic(), topics

    def _trend(self, now: float, lags: Lags) -> dict[str, int]:
        if lags:
            self._before.append((now, {key: sum(lane.lag for lane in lanes) for key, lanes in lags.items()}))
        while len(self._before) > 1 and self._before[1][0] <= now - TREND_SECONDS:
            self._before.popleft()
        return self._before[0][1] if self._before else {}

    def _note(self, sight: Sight) -> None:
        """What the history needs besides what is told."""
        uids = {key_of(each): uid_of(each) for each in self._world.store.list()}
        states: dict[str, dict[str, float | None]] = {
            uids[key]: {"lag": sight.lag(key), "oldest_waiting_seconds": age.oldest}
            for key, age in sight.ages.items()
            if key in uids
        }
        if sight.ages or sight.parts[0].is_well:
            oldest = [age.oldest for age in sight.ages.values() if age.oldest is not None]
            lag = sum(lane.lag for lanes in sight.lags.values() for lane in lanes)
            states[ALL] = {"lag": lag, "oldest_waiting_seconds": max(oldest, default=0.0)}
        self._world.counts.note(sight.at, states)
        agreed = self._world.contract.agreements()
        self._world.counts.note_readers(
            {uids[key]: {s.place for s in each.subscriptions} for key, each in agreed.items() if key in uids}
        )

    def _topics(self) -> list[tuple[str, Cluster]]:
        found = []
        for agreement in self._world.contract.agreements().values():
            found += [(route.topic, route.cluster) for route in agreement.routes]
            found += [(each.topic, each.cluster) for each in agreement.subscriptions]
        return found

    def _forget(self) -> None:
        if time.monotonic() - self._forgot_at < FORGET_SECONDS:
            return
        self._forgot_at = time.monotonic()
        agreed = self._world.contract.agreements().values()
        known = {uid_of(each) for each in self._world.store.list()}
        known |= {name for topic, cluster in self._topics() for name in (topic, place_of(topic, cluster))}
        known |= {route.path for agreement in agreed for route in agreement.routes}
        self._world.counts.forget_unless(known)

    def _read_times(self, place: str, spots: Iterable[Spot]) -> Mapping[Spot, float]:
        cluster = next((c for topic, c in self._topics() if place_of(topic, c) == place), None)
        if cluster is None:
            return {}
        try:
            self._world.clusters.require(cluster)
            if cluster.bootstrap_servers not in self._times:
                self._times[cluster.bootstrap_servers] = RecordTimes(self._world.clusters.connection(cluster))
            return self._times[cluster.bootstrap_servers].of(spots)
        except PenstockError:
            return {}
