"""The life of one query: started, replaced beside itself, restarted after a failure, let go.

    wanted ≠ running      start the next query ─ its tasks run ─ old workers let go ─ stop the old query
    query failed          start again, with backoff, from the ledger
    nobody wants it       workers let go ─ stop

A topic has one for all its subscriptions, and one for each subscription whose lanes are parked. Owned by
``topic.py``, which calls ``advance`` again and again from one thread.
"""

import itertools
import logging
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from penstock.contract.model import QueryReport, Subscription
from penstock.delivery.deliver import Limits
from penstock.errors import Misconfigured, PenstockError
from penstock.kafka import claims
from penstock.kafka.connection import KafkaConnection, Producer
from penstock.kafka.ledger import FollowedLedger
from penstock.pipeline.session import slots
from penstock.pipeline.settings import DispatcherSettings
from penstock.pipeline.start import Lane, Wanted, find_beginning
from penstock.pipeline.stream import QueryPlan, start_query
from penstock.pipeline.worker import PREDECESSOR_SECONDS, Assignment, scope_of

logger = logging.getLogger("penstock.dispatcher")

RUNNING_SECONDS = 60.0  # longest wait for the tasks of a new query; thousands of filters take a while
LET_GO_SECONDS = 4.5  # longest wait for the closing words of old workers
BACKOFF_SECONDS = (0.2, 1.0, 2.0, 5.0, 10.0, 30.0)
HEALTHY_SECONDS = 60.0


@dataclass(frozen=True)
class Environment:
    """What all queries of a dispatcher share."""

    session: SparkSession
    settings: DispatcherSettings
    connection: KafkaConnection
    ledger: FollowedLedger
    producer: Producer  # for claims and the ledger; a new one would cost every start a quarter of a second
    started_at: float  # epoch seconds; workers of an earlier dispatcher are dead some seconds after this
    first_query: int = 0  # the number of no query: all that this dispatcher draws are higher


@dataclass(frozen=True)
class Running:
    query: StreamingQuery
    assignment: Assignment
    subscriptions: tuple[Subscription, ...]
    partitions: tuple[int, ...]
    checkpoint: Path
    since: float
    behind: frozenset[Lane] = frozenset()  # lanes that its start has left to other queries


class TopicQuery:
    def __init__(self, topic: str, environment: Environment, uid: str | None = None) -> None:
        self.topic = topic
        self.uid = uid  # of the subscription whose parked lanes it serves; None: it serves all that are not parked
        self.wanted: tuple[Subscription, ...] = ()
        self.apart: frozenset[Lane] = frozenset()  # lanes that other queries serve
        self.only: frozenset[int] = frozenset()  # partitions; none: all of them
        self.behind: frozenset[Lane] = frozenset()  # lanes that a start which succeeded has left to other queries
        self.report = QueryReport(topic=topic, state="starting")
        self.must_restart = False  # set when the start has to be found anew: a reset, more partitions
        self._environment = environment
        self._running: Running | None = None
        self._failures = 0
        self._not_before = 0.0
        self._predecessor_until: float | None = environment.started_at + PREDECESSOR_SECONDS
        self._count = itertools.count(1)

    @property
    def topic_id(self) -> str | None:
        return self._running.assignment.topic_id if self._running else None

    @property
    def partitions(self) -> int:
        return len(self._running.partitions) if self._running else 0

    @property
    def is_settled(self) -> bool:
        """Whether what runs is what is wanted."""
        return self._running is not None and self._running.subscriptions == self.wanted and not self.must_restart

    @property
    def running_since(self) -> float | None:
        return self._running.since if self._running else None

    @property
    def _label(self) -> str:
        names = "".join(f" for {each.kind.lower()} {each.namespace}/{each.name} alone" for each in self.wanted[:1])
        return self.topic + (names if self.uid else "")

    def _scope(self, topic_id: str) -> str:
        return scope_of(topic_id, self.uid) if self.uid else topic_id

    def advance(self, free_slots: int) -> None:
        """One step towards what is wanted. What goes wrong is in the report, and tried again."""
        try:
            self._advance(free_slots)
        except PenstockError as error:
            self._failed(error.message)

    def _advance(self, free_slots: int) -> None:
        self._notice_failure()
        running = self._running
        if running is not None and not self.wanted:
            self.stop()
        elif self.wanted and time.monotonic() >= self._not_before:
            if running is None or running.subscriptions != self.wanted or self.must_restart:
                self._start_or_replace(free_slots)
            elif time.time() - running.since > HEALTHY_SECONDS:
                self._failures = 0

    def stop(self) -> None:
        """Lets the workers finish what is in flight, then stops the query; without Kafka it is only stopped."""
        running = self._running
        if running is None:
            return
        try:
            self._let_go(running, self._next_number())
        except PenstockError as error:
            logger.warning("workers of %s were not asked to let go: %s", self._label, error.message)
        finally:
            self._end(running)
            self._running = None

    def _notice_failure(self) -> None:
        running = self._running
        if running is None or running.query.isActive:
            return
        reason = failure_of(running.query)
        logger.error("the query of %s ended: %s", self._label, reason)
        self._end(running)
        self._running = None
        self._predecessor_until = time.time() + PREDECESSOR_SECONDS
        self._failed(reason)

    def _start_or_replace(self, free_slots: int) -> None:
        old, began = self._running, time.monotonic()
        if old is not None and len(old.partitions) > free_slots:  # no room for two side by side: one after the other
            free_slots += len(old.partitions)
            self.stop()
            old = None
        must_restart, self.must_restart = self.must_restart, False  # before: it may be set again meanwhile
        try:
            release_number = self._next_number() if old else 0
            new = self._start(free_slots)
        except Misconfigured as error:
            self.must_restart = must_restart or self.must_restart
            self._failed(error.message, state="refused")
            return
        except Exception as error:  # Spark's own errors have many classes
            self.must_restart = must_restart or self.must_restart
            self._failed(error.message if isinstance(error, PenstockError) else first_line(error))
            return
        self._running = new
        started = time.monotonic()
        if old is not None:
            self._await_tasks(new)
            if not new.query.isActive:
                self.must_restart = must_restart or self.must_restart
                self._give_up(new, old)
                return
            self._let_go(old, release_number)
            self._end(old)
        self.behind = new.behind
        uids = tuple(each.uid for each in new.subscriptions)
        mode = self._environment.settings.mode
        self.report = QueryReport(self.topic, "running", "", uids, mode=mode, since=new.since)
        logger.info(
            "the query of %s runs for %d subscriptions (%.1f s to start it, %.1f s to take over)",
            self._label,
            len(uids),
            started - began,
            time.monotonic() - started,
        )

    def _start(self, free_slots: int) -> Running:
        environment, settings = self._environment, self._environment.settings
        wanted = self.wanted
        may_part = settings.mode == "live" and self.uid is None and settings.private_queries > 0
        asked = Wanted(self.topic, wanted, self.apart, self.only, may_part, self._scope)
        beginning = find_beginning(environment.connection, environment.ledger, asked)
        if may_part and free_slots + self.partitions < 2 * beginning.partitions:  # no room for a query beside this
            may_part, asked = False, replace(asked, may_part=False)
            beginning = find_beginning(environment.connection, environment.ledger, asked)
        partitions = len(beginning.offsets)
        if settings.mode == "live" and partitions > free_slots:
            raise Misconfigured(
                f"topic {self.topic} needs {partitions} free task slots, one per partition, and Spark has "
                f"{free_slots} of {slots(environment.session)}: use a larger --master, for instance local[64]"
            )
        assignment = Assignment(
            connection=environment.connection,
            topic=self.topic,
            topic_id=beginning.topic_id,
            subscriptions_json=msgspec.json.encode(wanted),
            limits=Limits(
                settings.delivery_window,
                settings.unfinished_rows,
                settings.unfinished_megabytes * 1024 * 1024,
                may_park=may_part and len(wanted) > 1,
                reply_hops=settings.reply_hops,
            ),
            partitions=beginning.partitions,
            scope=self._scope(beginning.topic_id),
            apart=self.apart | beginning.behind,
            ledger=beginning.ledger.packed(),
            query=claims.next_query_number(environment.producer, beginning.topic_id),
            first_query=environment.first_query,
            replaces=self._running is not None and settings.mode == "live",
            predecessor_until=self._predecessor_until,
            ends_with_input=settings.mode == "batch",
        )
        name = f"{self.topic}-{self.uid or 'all'}-{next(self._count)}"
        checkpoint = Path(settings.data_dir, "scratch", name).absolute()
        shutil.rmtree(checkpoint, ignore_errors=True)
        query = start_query(environment.session, settings, QueryPlan(assignment, beginning.offsets, str(checkpoint)))
        self._predecessor_until = None
        served = tuple(beginning.offsets)
        return Running(query, assignment, wanted, served, checkpoint, time.time(), beginning.behind)

    def _next_number(self) -> int:
        running = self._running
        if running is None:
            return 0
        return claims.next_query_number(self._environment.producer, running.assignment.topic_id)

    def _await_tasks(self, new: Running) -> None:
        """Until all tasks of the new query are ready, or it has failed: the old one serves, and nobody waits."""
        if self._environment.settings.mode == "batch":
            return  # its tasks come and go
        scope, query = new.assignment.scope, new.assignment.query
        watch = claims.Watch(self._environment.connection)
        deadline = time.monotonic() + RUNNING_SECONDS
        try:
            while not watch.is_up(scope, len(new.partitions), query):
                if time.monotonic() > deadline or not new.query.isActive:
                    return
                watch.poll(0.05)
        finally:
            watch.close()

    def _give_up(self, new: Running, old: Running) -> None:
        """The new query failed at its start. If it had not taken anything over, the old one goes on."""
        self._end(new)
        reason = failure_of(new.query)
        watch = claims.Watch(self._environment.connection)
        try:
            watch.read_to_end(10.0)
            first_of_new = new.assignment.query << claims.QUERY_SHIFT
            holders = [watch.holder(new.assignment.scope, each) for each in old.partitions]
            has_taken_over = any(holder >= first_of_new for holder in holders)
        except PenstockError:
            has_taken_over = True  # nobody knows: a start from the ledger is always right
        finally:
            watch.close()
        if has_taken_over:
            self._end(old)
            self._running = None
            self._predecessor_until = time.time() + PREDECESSOR_SECONDS
        else:
            self._running = old
        self._failed(reason, state="failed" if has_taken_over else "refused")

    def _let_go(self, old: Running, release_number: int) -> None:
        """Asks the workers of a query to finish, and waits for their closing words, though not for ever."""
        producer, scope = self._environment.producer, old.assignment.scope
        watch = claims.Watch(self._environment.connection)
        try:
            for partition in old.partitions:
                claims.release(producer, scope, partition, release_number)
            watch.read_to_end(10.0)
            deadline = time.monotonic() + LET_GO_SECONDS
            below = release_number << claims.QUERY_SHIFT
            while time.monotonic() < deadline and any(
                watch.has_unclosed(scope, partition, below) for partition in old.partitions
            ):
                watch.poll(0.02)
        except (PenstockError, TimeoutError) as error:
            logger.warning("workers of %s were not asked to let go: %s", self._label, first_line(error))
        finally:
            watch.close()

    def _end(self, running: Running) -> None:
        try:
            running.query.stop()
        except Exception as error:  # a timeout of the stop; the workers are fenced whatever it says
            logger.warning("stopping the query of %s: %s", self._label, first_line(error))
        shutil.rmtree(running.checkpoint, ignore_errors=True)

    def _failed(self, reason: str, state: str = "failed") -> None:
        wait = BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        self._failures += 1
        self._not_before = time.monotonic() + wait
        if self.report.reason != reason:
            logger.error("the query of %s cannot run: %s; next try in %g s", self._label, reason, wait)
        self.report = replace_report(self.report, state, reason)


def replace_report(report: QueryReport, state: str, reason: str) -> QueryReport:
    return msgspec.structs.replace(report, state=state, reason=reason, since=time.time())


def failure_of(query: StreamingQuery) -> str:
    error = query.exception()
    return first_line(error) if error else "stopped from outside"


def first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
