"""The dispatcher process: follows the contract and keeps a query running for every topic that somebody wants.

In: the contract topic. Out: one Spark query per topic, consumer groups, and a report of all this in the report
topic. Started by ``penstock dispatcher`` and by ``penstock up``.
"""

import json
import logging
import os
import shutil
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

from penstock.access.tokens import make_token
from penstock.contract.model import (
    CONTRACT_TOPIC,
    HEARTBEAT,
    QUERY,
    REPORT_TOPIC,
    Subscription,
    decode_agreement,
    encode,
    topic_of,
)
from penstock.contract.questions import token_path
from penstock.errors import PenstockError, Unavailable
from penstock.http.server import ServerThread, listen
from penstock.kafka import claims, secret_files, topics
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import home
from penstock.kafka.doorbell import Doorbells
from penstock.kafka.fetch import spark_connector_jars
from penstock.kafka.group_image import GroupImages
from penstock.kafka.java import java_home
from penstock.kafka.ledger import FollowedLedger
from penstock.kafka.table import Table, put
from penstock.kafka.telemetry import Teller
from penstock.pipeline.marks import WorkerWatch
from penstock.pipeline.places import Places
from penstock.pipeline.questions import LIMITS, Answers, Trials, application
from penstock.pipeline.retention import RetentionWatch
from penstock.pipeline.running import Environment
from penstock.pipeline.search import Searches
from penstock.pipeline.session import slots, start_session
from penstock.pipeline.settings import DispatcherSettings
from penstock.pipeline.settling import Settling
from penstock.pipeline.stream import warm_up
from penstock.pipeline.topic import Topic
from penstock.pipeline.vitals import Vitals
from penstock.pipeline.worker import MARKS
from penstock.ports import http_url
from penstock.telemetry.traces import trace_settings

logger = logging.getLogger("penstock.dispatcher")

LOOP_SECONDS = 0.5  # how often queries are looked at; a change of the contract is noticed at once
BEAT_SECONDS = 2.0
LAST_ANSWERS_SECONDS = 9.0  # of slow subscribers, at the end of this process
PARTITIONS_SECONDS = 10.0
MOST_PREPARED = 500  # topics; each plan takes some memory
SHORTEST_QUIET_SECONDS = 5.0  # before a topic may have to make room for another


def run(settings: DispatcherSettings) -> None:
    """Until SIGTERM or Ctrl-C; then every worker finishes what it has in flight."""
    trace_settings(settings)  # what is wrong there is said before anything is started
    stopping = threading.Event()
    _end_on_signals(stopping)
    started_at = time.time()
    scratch = Path(settings.data_dir, "scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True, exist_ok=True)
    connection = home(settings.bootstrap_servers, "penstock-dispatcher", settings.kafka_secret_file)
    session = start_session(settings, spark_connector_jars(), java_home())
    _end_on_signals(stopping)  # again: PySpark takes Ctrl-C for itself
    ledger, producer = FollowedLedger(connection), connection.lasting_producer()
    notes = Notes()
    clusters = Clusters(connection, secret_files.folder(settings.data_dir, settings.secrets_dir), settings.policy)
    doorbells = Doorbells(clusters, notes.ring)
    marks = scratch.absolute() / MARKS
    vitals = Vitals(session, marks, Teller(connection), ledger.unreadable.counts)
    environment = Environment(
        session, settings, connection, ledger, producer, clusters, doorbells, vitals, WorkerWatch(marks), started_at
    )
    places = Places()
    server = serve_questions(environment, places)
    dispatcher = Dispatcher(environment, notes, places, http_url(settings.host, server.port))
    try:
        dispatcher.start(stopping)
        vitals.start()
        with ready_mark(Path(settings.data_dir)):
            while dispatcher.has_changes and not stopping.is_set():
                dispatcher.rest()
                dispatcher.advance()
            if dispatcher.is_idle:
                warm_up(session, settings, connection, lambda: dispatcher.has_changes or stopping.is_set())
            while not stopping.is_set():
                dispatcher.advance()
                dispatcher.rest()
    finally:
        dispatcher.stop()
        server.stop()
        vitals.stop()
        session.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def serve_questions(environment: Environment, places: Places) -> ServerThread:
    """On the port of the dispatcher, with a token that is new in each run."""
    settings = environment.settings
    token = make_token(token_path(settings.data_dir, settings.dispatcher_token_file))
    searches = Searches(environment.session, environment.clusters, places)
    answers = Answers(searches, Trials(environment.session), environment.vitals)
    app = application(answers, token, open_metrics=settings.has_open_metrics)
    listener = listen(settings.host, settings.dispatcher_port, "the dispatcher", may_move=True)
    limits = replace(LIMITS, connections_per_address=settings.dispatcher_connections_per_address)
    return ServerThread(app, limits, listener).start()


def _end_on_signals(stopping: threading.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())


class Notes:
    """What other threads leave for the dispatcher's round."""

    def __init__(self) -> None:
        self.is_awake = threading.Event()
        # Topics that something has come to while they were cold; and whether they were found shorter than before.
        self.rung: list[tuple[str, bool]] = []
        self.resets: list[Subscription] = []  # noticed, not yet obeyed

    def ring(self, topic: str, is_shorter: bool) -> None:
        self.rung.append((topic, is_shorter))
        self.is_awake.set()

    def reset(self, subscription: Subscription) -> None:
        self.resets.append(subscription)
        self.is_awake.set()


class Dispatcher:
    """All queries, and what is told about them. Runs in ``advance``; other threads only leave notes."""

    def __init__(self, environment: Environment, notes: Notes, places: Places, url: str) -> None:
        self._notes = notes
        self._places = places
        self._url = url  # where it answers questions
        self._environment = environment
        self._connection = environment.connection
        self._settings = environment.settings
        self._contract: dict[str, tuple[Subscription, ...]] = {}
        self._changes = Settling(self._settings.take_over_seconds)  # of the contract
        self._topics: dict[str, Topic] = {}
        self._table = Table(self._connection, CONTRACT_TOPIC, self._on_contract)
        self._images = GroupImages(environment.clusters, environment.ledger, notes.reset)
        self._retention = RetentionWatch(environment.clusters, environment.ledger)
        self._first_topics: set[str] = set()  # those that were wanted before this dispatcher started
        self._shown: dict[tuple[str, str], Subscription] = {}
        self._producer = environment.producer
        self._reported: dict[str, bytes | None] = {}
        self._is_stopped = threading.Event()
        self._slots = slots(environment.session)
        self._has_beaten = threading.Event()
        environment.vitals.slots = lambda: (self._free_slots(), self._slots - self._free_slots())
        environment.vitals.reports = lambda: [topic.report for topic in list(self._topics.values())]
        self._partitions_due = time.monotonic() + PARTITIONS_SECONDS

    def start(self, stopping: threading.Event) -> None:
        """Returns when the contract has been read; waits for Kafka and the controller as long as it takes."""
        self._table.start()
        while not stopping.is_set():
            try:
                self._table.wait_until_current(1.0)
                break
            except Unavailable as error:
                logger.info("waiting: %s", error.message)
        self._first_topics = {each.place for subscriptions in list(self._contract.values()) for each in subscriptions}
        while not stopping.is_set():
            try:
                first = claims.next_query_number(self._producer, "dispatcher")
                self._environment = replace(self._environment, first_query=first)
                break
            except PenstockError as error:
                logger.info("waiting: %s", error.message)
                stopping.wait(1.0)
        self._images.start()
        threading.Thread(target=self.beat, name="sign-of-life", daemon=True).start()
        self._has_beaten.wait(10.0)

    @property
    def has_changes(self) -> bool:
        """Whether somebody has left a note that the next round takes."""
        return self._changes.is_waiting or bool(self._notes.rung) or bool(self._notes.resets)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, since nobody subscribes to anything or all topics are quiet."""
        return not any(topic.slots for topic in self._topics.values())

    def rest(self) -> None:
        """Until there is something to do, or it is time to look."""
        self._notes.is_awake.wait(LOOP_SECONDS)
        self._notes.is_awake.clear()
        time.sleep(self._changes.due_in)  # several changes often come together

    def advance(self) -> None:
        """One round: take changes that have settled, move every query on, tell about it."""
        if self._changes.take():
            self._take_contract()
        while self._notes.resets:
            reset = self._notes.resets.pop()
            if reset.place in self._topics:
                self._topics[reset.place].reset(reset.uid)
        rung = set()
        while self._notes.rung:
            name, is_shorter = self._notes.rung.pop()
            if name in self._topics:
                topic = self._topics[name]
                topic.restart() if is_shorter else topic.wake()
                rung.add(name)
        self._environment.leaving.advance()
        for topic in sorted(self._topics.values(), key=lambda each: each.name not in rung):
            try:
                if topic.is_cold and topic.name in rung:
                    self._make_room(topic.partitions)
                elif topic.lacks_room:
                    self._make_room(topic.lacks_room)
                topic.advance(self._free_slots())
            except PenstockError as error:  # Kafka is away: the next round tries again
                logger.warning("%s: %s", topic.name, error.message)
            except Exception:  # a fault of ours: the other topics go on
                logger.exception("%s", topic.name)
            if not topic.wanted and not topic.slots:
                del self._topics[topic.name]
        try:
            self._prepare_one()
            self._images_follow()
            self._notice_partitions()
            self._notice_retention()
            self._tell()
        except (PenstockError, TimeoutError) as error:  # Kafka is away: the next round tells
            logger.warning("no report: %s", error)
        except Exception:  # a fault of ours: the queries go on
            logger.exception("no report")

    def stop(self) -> None:
        self._is_stopped.set()
        for topic in self._topics.values():
            try:
                topic.stop()
            except PenstockError as error:
                logger.warning("%s was not ended in order: %s", topic.name, error.message)
        self._environment.leaving.finish(LAST_ANSWERS_SECONDS)
        self._environment.doorbells.close()
        self._images.stop()
        self._table.stop()

    def _on_contract(self, key: str, value: bytes | None) -> None:
        """From the table's thread: notes the change. If a record cannot be read, the one before it stays in force."""
        if value is None:
            self._contract.pop(key, None)
            self._places.take(key, None)
        else:
            try:
                agreement = decode_agreement(value)
            except Exception as error:  # an invalid record can raise many exceptions
                self._environment.ledger.unreadable.note(CONTRACT_TOPIC, key, error)
                return
            self._contract[key] = agreement.subscriptions
            self._places.take(key, agreement)
        self._changes.note()
        self._notes.is_awake.set()

    def _take_contract(self) -> None:
        wanted: dict[str, list[Subscription]] = {}
        for subscriptions in list(self._contract.values()):
            for each in subscriptions:
                wanted.setdefault(each.place, []).append(each)
        for place in wanted.keys() - self._topics.keys():
            self._topics[place] = Topic(place, self._environment, is_old=place in self._first_topics)
        for place, queries in self._topics.items():
            queries.wanted = tuple(sorted(wanted.get(place, []), key=lambda each: each.uid))
        self._environment.clusters.keep_only(each.cluster for found in wanted.values() for each in found)

    def _free_slots(self) -> int:
        return self._slots - sum(topic.slots for topic in list(self._topics.values()))

    def _prepare_one(self) -> None:
        """A cold topic in each quiet round: the start that its next event asks for."""
        if not self._changes.is_waiting and not self._notes.is_awake.is_set():
            for topic in list(self._topics.values())[:MOST_PREPARED]:
                if topic.prepare():
                    return

    def _make_room(self, wanted: int) -> None:
        """For a topic that something has come to; those that have been quiet longest go cold."""
        free = self._free_slots()
        others = (each for each in self._topics.values() if each.slots and not each.is_cold)
        for topic in sorted(others, key=lambda each: each.quiet_since):
            if free >= wanted or time.monotonic() - topic.quiet_since < SHORTEST_QUIET_SECONDS:
                return
            topic.make_room()
            topic.advance(free)
            free = self._free_slots()

    def _images_follow(self) -> None:
        shown = {
            (each.uid, topic.topic_id): each
            for topic in self._topics.values()
            if topic.topic_id is not None
            for each in topic.serving
        }
        if shown != self._shown:
            self._shown = shown
            self._images.show(shown)

    def _notice_partitions(self) -> None:
        """Real-time mode would see new partitions only at a batch's end; a topic made anew, never."""
        if time.monotonic() < self._partitions_due:
            return
        self._partitions_due = time.monotonic() + PARTITIONS_SECONDS
        wanted = [topic for topic in self._topics.values() if topic.wanted]
        for cluster in {topic.cluster for topic in wanted}:
            here = {topic_of(topic.name): topic for topic in wanted if topic.cluster == cluster}
            try:
                self._environment.clusters.require(cluster)
                found = topics.describe(self._environment.clusters.clients(cluster).admin, here)
            except (PenstockError, TimeoutError) as error:
                logger.warning("partitions are not looked at: %s", error)
                continue
            for name, state in found.items():
                topic = here[name]
                if topic.topic_id and (topic.partitions, topic.topic_id) != (state.partitions, state.topic_id):
                    topic.restart()

    def _notice_retention(self) -> None:
        wanted = {(t.name, t.topic_id): t.wanted for t in self._topics.values() if t.topic_id is not None}
        for name, warnings in self._retention.look(wanted):
            self._topics[name].warnings = tuple(warnings)

    def _tell(self) -> None:
        """Tells about queries when they change."""
        reports = {QUERY + topic.name: encode(topic.report) for topic in self._topics.values()}
        gone = dict.fromkeys(self._reported.keys() - reports.keys())
        for key, value in {**reports, **gone}.items():
            if self._reported.get(key) != value or value is None:
                put(self._producer, REPORT_TOPIC, key, value)
                self._reported[key] = value
            if value is None:
                del self._reported[key]

    def beat(self) -> None:
        """The heartbeat, from a thread of its own: starting a query takes the loop several seconds."""
        producer = self._connection.lasting_producer()
        while not self._is_stopped.is_set():
            alive = {"state": "running", "since": self._environment.started_at, "pid": os.getpid()}
            alive |= {
                "time": time.time(),
                "queries": len(self._topics),
                "gear": self._settings.gear,
                "url": self._url,
                "delivery_window": self._settings.delivery_window,
                "reason": self._environment.ledger.unreadable.summary(),
            }
            try:
                put(producer, REPORT_TOPIC, HEARTBEAT, json.dumps(alive).encode())
                self._has_beaten.set()
            except PenstockError as error:
                logger.warning("the heartbeat cannot be written: %s", error.message)
            self._is_stopped.wait(BEAT_SECONDS)


class ready_mark:  # noqa: N801 - a context manager, read as a verb
    """The file that tells ``penstock up`` that this process is ready."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "run" / "dispatcher.ready"

    def __enter__(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(str(os.getpid()))

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
