"""The life of one query: started, replaced beside itself, restarted after a failure, let go.

    wanted ≠ running      start the next query ─ its tasks run ─ old workers let go ─ stop the old query
    another gear          the same; into cold gear the old query is stopped first
    query failed          start again, with backoff, from the ledger
    nobody wants it       workers let go ─ stop

A topic has one for all its subscriptions, and one for each subscription whose lanes are parked. Owned by
``topic.py``, which calls ``advance`` again and again from one thread.
"""

import itertools
import logging
import time
from collections.abc import Collection, Set
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from penstock.contract.model import QueryReport, Subscription, topic_of
from penstock.errors import Misconfigured, PenstockError
from penstock.kafka import claims, secret_files, topics
from penstock.kafka.ledger import LaneKey
from penstock.pipeline.gears import Gear, Gearbox
from penstock.pipeline.held_lanes import DEAD_SECONDS
from penstock.pipeline.leaving import end_query
from penstock.pipeline.running import Environment, Running, cluster_of, failure_of, first_line
from penstock.pipeline.session import slots
from penstock.pipeline.start import Beginning, Lane, Wanted, find_beginning
from penstock.pipeline.stream import PreparedQuery, QueryPlan, prepare_query, start_query
from penstock.pipeline.worker import SILENT, Assignment, scope_of, shared_scope

logger = logging.getLogger("penstock.dispatcher")

RUNNING_SECONDS = 60.0  # longest wait for the tasks of a new query; thousands of filters take a while
TAKING_SECONDS = 0.7  # for tasks that stand by, until their first row
NO_ROOM_SECONDS = 3.0  # for the last answers of slow subscribers, when there is no room for two queries
SERVICE_SECONDS = 2.0  # longest wait for workers that have claimed a partition
LET_GO_SECONDS = 10.5  # longest wait for the releases of old workers
BACKOFF_SECONDS = (0.2, 1.0, 2.0, 5.0, 10.0, 30.0)
HEALTHY_SECONDS = 60.0
WORKER_GONE = "a worker has failed or died; `penstock logs dispatcher` may say of what"


class StoppedLanes(NamedTuple):
    """The lanes of a subscription that will be reset."""

    uid: str
    query: int  # whose workers have to stop them
    lanes: tuple[LaneKey, ...]  # that a worker had


class TopicQuery:
    def __init__(self, place: str, environment: Environment, uid: str | None = None, *, is_old: bool = False) -> None:
        self.place = place
        self.topic = topic_of(place)
        self.uid = uid  # of the subscription whose parked lanes it serves; None: it serves all that are not parked
        self.wanted: tuple[Subscription, ...] = ()
        self.apart: frozenset[Lane] = frozenset()  # lanes that other queries serve
        self.pinned_apart: frozenset[str] = frozenset()  # uids of those who want another gear than the others
        self.only: frozenset[int] = frozenset()  # partitions; none: all of them
        self.movable: frozenset[str] = frozenset()  # uids whose lanes are stopped, to be moved by the next start
        self.behind: frozenset[Lane] = frozenset()  # lanes that a start which succeeded has left to other queries
        self.report = QueryReport(topic=place, state="starting")
        quiet_seconds = 0.0 if uid else environment.settings.quiet_minutes * 60
        self.gearbox = Gearbox(quiet_seconds)
        self.may_rest = not uid  # in cold gear, while there is nothing to do
        self.must_restart = False  # set when the start has to be found anew: a reset, more partitions
        self._refused_slots = 0
        self.made_at = time.time()
        self._was_cold = False
        self._unpreparable: QueryPlan | None = None
        self._prepared: PreparedQuery | None = None  # from the plan of what is cold
        self._is_old = is_old  # it was there before this dispatcher; if it was quiet, it starts cold
        self._quiet_seconds = quiet_seconds
        self._environment = environment
        self._running: Running | None = None
        self._failures = 0
        self._not_before = 0.0
        self._predecessor_until: float | None = environment.started_at + DEAD_SECONDS
        # Workers of queries below this number are dead from that time on. They may not have released their claims.
        self._dead_below, self._dead_from = environment.first_query, environment.started_at + DEAD_SECONDS
        self._count = itertools.count(1)

    @property
    def topic_id(self) -> str | None:
        return self._running.assignment.topic_id if self._running else None

    @property
    def partitions(self) -> int:
        return len(self._running.partitions) if self._running else 0

    @property
    def topic_partitions(self) -> int:
        return self._running.assignment.partitions if self._running else 0

    @property
    def lacks_room(self) -> int:
        """How many task slots it was refused for; 0: it was not."""
        return self._refused_slots if self._running is None and self.wanted else 0

    @property
    def gear(self) -> Gear | None:
        return self._running.gear if self._running else None

    @property
    def is_settled(self) -> bool:
        """Whether what runs is what is wanted."""
        return self._running is not None and self._running.subscriptions == self.wanted and not self.must_restart

    @property
    def may_park(self) -> bool:
        """Whether its workers leave isolated lanes to other queries."""
        return self._running is not None and self._running.assignment.limits.may_park

    def has_parked(self, uid: str, partition: int) -> bool:
        """Whether a worker of the query that runs now has isolated this lane: its tasks do not continue it."""
        if self._running is None:
            return False
        entry = self._environment.ledger.entry(LaneKey(uid, self._running.assignment.topic_id, partition))
        if entry is None or not entry.record.is_parked:
            return False
        return entry.generation >> claims.QUERY_SHIFT == self._running.assignment.query

    @property
    def running_since(self) -> float | None:
        return self._running.since if self._running else None

    @property
    def _label(self) -> str:
        names = "".join(f" for {each.kind.lower()} {each.namespace}/{each.name} alone" for each in self.wanted[:1])
        return self.place + (names if self.uid else "")

    def _scope(self, topic_id: str) -> str:
        shared = shared_scope(topic_id, cluster_of(self.wanted))
        return scope_of(shared, self.uid) if self.uid else shared

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
                return
            try:
                gear = self._next_gear(running)
            except (PenstockError, TimeoutError):  # Kafka is away: what runs goes on as it is
                return
            if gear != running.gear:
                self._shift(running, gear, free_slots)
                return
            if time.time() - running.since > HEALTHY_SECONDS:
                self._failures = 0
            if self._ends_soon(running) and len(running.partitions) <= free_slots:
                self._start_or_replace(free_slots, running.gear)
            elif self.report.state != "running":  # another query could not be started, and none is needed any more
                self.report = msgspec.structs.replace(self.report, state="running", reason="", since=running.since)

    def _ends_soon(self, running: Running) -> bool:
        """Whether its real-time batch is about to end. At the end all lanes wait for slow subscribers; nobody waits
        when another query replaces it before."""
        settings = self._environment.settings
        batch_seconds = settings.live_batch_minutes * 60
        renewal_seconds = min(settings.renewal_seconds, batch_seconds / 2)
        is_renewed = running.gear == "live" and renewal_seconds > 0
        return is_renewed and time.time() - running.since > batch_seconds - renewal_seconds

    def _next_gear(self, running: Running) -> Gear:
        ledger, topic_id = self._environment.ledger, running.assignment.topic_id
        partitions = running.partitions or range(running.assignment.partitions)

        def position(uid: str, partition: int) -> int:
            entry = ledger.entry(LaneKey(uid, topic_id, partition))
            return entry.record.position if entry else 0

        def ends() -> dict[int, int]:
            return topics.latest_offsets(
                self._environment.clients(self.wanted).admin, self.topic, running.assignment.partitions
            )

        def backlog() -> int:
            latest = ends()
            return sum(latest[each] for each in partitions) - progress

        def is_idle() -> bool:
            latest = ends()
            lanes = ((each.uid, at) for each in self.wanted for at in partitions)
            return self.may_rest and all(position(uid, at) >= latest[at] for uid, at in lanes)

        def is_open() -> bool:
            keys = (LaneKey(each.uid, topic_id, at) for each in self.wanted for at in partitions)
            return any(entry.record.is_open for key in keys if (entry := ledger.entry(key)) is not None)

        if self.uid:
            progress = sum(position(self.uid, each) for each in partitions)
        else:
            progress = sum(ledger.floor(topic_id, each) for each in partitions)
        return self.gearbox.next(running.gear, progress, backlog, is_idle, is_open)

    def prepare(self) -> bool:
        """Whether something was left to prepare."""
        running = self._running
        if running is None or running.plan in (None, self._unpreparable) or self._prepared is not None:
            return False
        assert running.plan is not None
        environment = self._environment
        try:
            self._prepared = prepare_query(environment.session, environment.settings, running.plan)
        except Exception as error:  # Spark's own errors have many classes; the start will say it
            self._unpreparable = running.plan
            logger.warning("the query of %s could not be prepared: %s", self._label, first_line(error))
        return True

    def _start_prepared(self, prepared: PreparedQuery, cold: Running) -> None:
        """What was found out when it went cold still holds: nothing has come, and nobody has changed anything."""
        began = time.monotonic()
        self._end(cold)
        self._running = None
        self.gearbox.at_start(1, may_rest=False)
        try:
            query = prepared.start()
            self._environment.vitals.started(self.place)
        except Exception as error:
            self._failed(first_line(error))
            return
        self._predecessor_until = None
        partitions = tuple(prepared.plan.starting_offsets)
        self._running = replace(
            cold, query=query, gear="live", partitions=partitions, since=time.time(), plan=None
        )  # fmt: skip
        self.report = msgspec.structs.replace(self.report, gear="live", since=self._running.since)
        logger.info("the query of %s is in live gear (%.1f s to start it)", self._label, time.monotonic() - began)

    def _shift(self, running: Running, gear: Gear, free_slots: int) -> None:
        """A take-over like any other. Into cold gear there is nothing to start, so what runs is stopped first."""
        logger.info("%s shifts from %s to %s gear", self._label, running.gear, gear)
        prepared = self._prepared
        if prepared is not None and gear == "live" and len(prepared.plan.starting_offsets) <= free_slots:
            self._start_prepared(prepared, running)
            return
        if gear == "cold":
            free_slots += len(running.partitions)
            self.stop()
        self._start_or_replace(free_slots, gear)

    def stop(self) -> None:
        """Lets the workers finish what is in flight, then stops the query; without Kafka it is only stopped."""
        running = self._running
        if running is None:
            return
        try:
            if running.query is not None:
                self._let_go(running, self._next_number())
        except PenstockError as error:
            logger.warning("workers of %s were not asked to hand over: %s", self._label, error.message)
        finally:
            self._running = None
            self._leave(running)

    def _notice_failure(self) -> None:
        """Also of a worker: Spark would notice with the next record; the query is started again at once."""
        running = self._running
        if running is not None and (failure := self._failure(running)):
            self._ended(running, failure)

    def _ended(self, running: Running, reason: str) -> None:
        logger.error("the query of %s ended: %s", self._label, reason)
        self._end(running)
        self._running = None
        self._expect_dead_workers(running)
        self._failed(reason)

    def _expect_dead_workers(self, ended: Running) -> None:
        """Workers of a query that has failed may send for a little longer; nobody waits for them after that."""
        self._predecessor_until = self._dead_from = time.time() + DEAD_SECONDS
        self._dead_below = ended.assignment.query + 1

    def _start_or_replace(self, free_slots: int, gear: Gear | None = None) -> None:
        """In this gear, or in the one that suits."""
        old, began = self._running, time.monotonic()
        self._was_cold = old is not None and old.query is None
        if old is not None and old.query is None:
            self._end(old)
            self._running = old = None
        if old is not None and len(old.partitions) > free_slots:
            free_slots += self._room_of_leaving()  # first: the query that serves goes on meanwhile
        if old is not None and len(old.partitions) > free_slots:  # no room for two side by side: one after the other
            free_slots += len(old.partitions)
            self.stop()
            self._room_of_leaving()
            old = None
        must_restart, self.must_restart = self.must_restart, False  # before: it may be set again meanwhile
        try:
            release_number = self._next_number() if old else 0
            new = self._start(free_slots, gear)
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
            failure = self._await_tasks(new)
            if failure:
                self.must_restart = must_restart or self.must_restart
                self._give_up(new, old, failure)
                return
            self._let_go(old, release_number, new)
            self._leave(old)
        self.behind = new.behind
        uids = tuple(each.uid for each in new.subscriptions)
        self._is_old = False
        if new.query is not None:
            self.gearbox.started()
        versions = tuple(each.version for each in new.subscriptions)
        self.report = QueryReport(self.place, "running", "", uids, versions, gear=new.gear, since=new.since)
        logger.info(
            "the query of %s is in %s gear for %d subscriptions (%.1f s to start it, %.1f s to take over)",
            self._label, new.gear, len(uids), started - began, time.monotonic() - started,
        )  # fmt: skip

    def _room_of_leaving(self) -> int:
        """Ends the queries that only wait for last answers, after a short time; returns the slots that this frees."""
        leaving = self._environment.leaving
        before = leaving.slots(self.place)
        leaving.finish(NO_ROOM_SECONDS, self.place)
        return before - leaving.slots(self.place)

    def _start(self, free_slots: int, gear: Gear | None) -> Running:
        environment, settings, wanted = self._environment, self._environment.settings, self.wanted
        may_part = self.uid is None and settings.private_queries > 0
        movable = None if self._running is None else self._movable(self._running)
        asked = Wanted(self.topic, wanted, self.apart, self.only, may_part, self._scope, self.pinned_apart, movable)
        clients = environment.clients(wanted)
        beginning = find_beginning(clients, environment.ledger, asked)
        if may_part and free_slots + self.partitions < 2 * beginning.partitions:  # no room for a query beside this
            may_part, asked = False, replace(asked, may_part=False)
            beginning = find_beginning(clients, environment.ledger, asked)
        partitions = len(beginning.offsets)
        if gear is None or (gear == "cold" and (beginning.backlog or beginning.behind)):
            gear = self._first_gear(beginning, free_slots)
        self._refused_slots = partitions if gear != "cold" and partitions > free_slots else 0
        if self._refused_slots:
            raise Misconfigured(
                f"topic {self.topic} needs {partitions} free task slots, one per partition, and Spark has "
                f"{free_slots} of {slots(environment.session)}: use a larger --master, for instance local[64]"
            )
        scratch = Path(settings.data_dir, "scratch").absolute()
        assignment = Assignment(
            connection=environment.connection,
            topic=self.topic,
            topic_id=beginning.topic_id,
            subscriptions_json=msgspec.json.encode(wanted),
            limits=environment.limits(may_park=may_part and len(wanted) > 1),
            partitions=beginning.partitions,
            scope=self._scope(beginning.topic_id),
            apart=beginning.apart | beginning.behind,
            ledger=beginning.ledger.packed(),
            query=claims.next_query_number(environment.producer, beginning.topic_id),
            first_query=environment.first_query,
            replaces=self._running is not None and gear == "live",
            predecessor_until=self._predecessor_until,
            dead_below=self._dead_below if time.time() > self._dead_from else 0,
            scratch_dir=str(scratch),
            secrets_dir=str(secret_files.folder(settings.data_dir, settings.secrets_dir)),
            cluster=cluster_of(wanted),
            delivery_log=settings.delivery_log if settings.telemetry == "on" else SILENT,
            tracing=settings.tracing,
            ends_with_input=gear == "bulk",
        )
        checkpoint = scratch / f"{self.topic}-{beginning.topic_id}-{self.uid or 'all'}-{next(self._count)}"
        if gear == "cold":
            environment.doorbells.watch(assignment.cluster, self.topic, beginning.offsets)
            plan = QueryPlan(assignment, beginning.offsets, str(checkpoint), source=environment.source(wanted))
            return Running(None, gear, assignment, wanted, (), checkpoint, time.time(), plan=plan)
        plan = QueryPlan(assignment, beginning.offsets, str(checkpoint), gear, environment.source(wanted))
        query = start_query(environment.session, settings, plan)
        environment.vitals.started(self.place)
        self._predecessor_until = None
        served = tuple(beginning.offsets)
        return Running(query, gear, assignment, wanted, served, checkpoint, time.time(), beginning.behind)

    def _movable(self, running: Running) -> Set[str]:
        """Uids of subscriptions with nothing in flight."""
        served = {each.uid for each in running.subscriptions}
        draining = {lane.subscription_uid for lane in self._environment.ledger.draining()}
        return self.movable | {each.uid for each in self.wanted if each.uid not in served | draining}

    def _first_gear(self, beginning: Beginning, free_slots: int) -> Gear:
        """A topic that is new waits for its first event in live gear, as long as half of the slots are free."""
        rests = False
        if self.may_rest and not beginning.behind:
            kept = slots(self._environment.session) // 2  # for topics that something comes to
            rests = self._was_cold or len(beginning.offsets) > free_slots - kept or self._was_quiet(beginning)
        return self.gearbox.at_start(beginning.backlog, may_rest=rests)

    def _was_quiet(self, beginning: Beginning) -> bool:
        """Before this dispatcher started."""
        if not self._is_old or not self._quiet_seconds or beginning.backlog:
            return False
        return topics.is_quiet(
            self._environment.clients(self.wanted).admin, self.topic, beginning.ends, self._quiet_seconds
        )

    def _next_number(self) -> int:
        running = self._running
        if running is None:
            return 0
        return claims.next_query_number(self._environment.producer, running.assignment.topic_id)

    def _await_tasks(self, new: Running) -> str:
        """Until all tasks of the new query stand by, or it has failed: the old one serves, and nobody waits.

        Those that rows come to take over by themselves, one by one. A moment is left for that. Returns why it failed.
        """
        if new.query is None or new.gear != "live":
            return self._failure(new)  # its tasks come and go
        scope, query = new.assignment.scope, new.assignment.query
        watch = self._watch_claims(new.assignment.query)
        deadline = time.monotonic() + RUNNING_SECONDS
        try:
            while (
                time.monotonic() < deadline
                and not self._failure(new)
                and not watch.is_up(scope, len(new.partitions), query)
            ):
                watch.poll(0.05)
            deadline = min(deadline, time.monotonic() + TAKING_SECONDS)
            first_of_new = query << claims.QUERY_SHIFT
            while (
                time.monotonic() < deadline
                and not self._failure(new)
                and any(watch.holder(scope, each) < first_of_new for each in new.partitions)
            ):
                watch.poll(0.05)
        finally:
            watch.close()
        return self._failure(new)

    def _failure(self, running: Running) -> str:
        if running.query is None:
            return ""
        if not running.query.isActive:
            return failure_of(running.query)
        return WORKER_GONE if running.assignment.query in self._environment.workers.dead() else ""

    def _give_up(self, new: Running, old: Running, reason: str) -> None:
        """The new query failed at its start. If it had not taken anything over, the old one goes on."""
        self._end(new)
        watch = self._watch_claims(new.assignment.query)
        try:
            watch.read_to_end(10.0)
            first_of_new = new.assignment.query << claims.QUERY_SHIFT
            holders = [watch.holder(new.assignment.scope, each) for each in old.partitions]
            has_begun = self._environment.workers.has_begun(new.assignment.query)
            has_taken_over = has_begun or any(holder >= first_of_new for holder in holders)
        except PenstockError:
            has_taken_over = True  # nobody knows: a start from the ledger is always right
        finally:
            watch.close()
        if has_taken_over:
            self._end(old)
            self._running = None
            self._expect_dead_workers(new)
        else:
            self._running = old
        self._failed(reason, state="failed" if has_taken_over else "refused")

    def stop_lanes(self, uid: str, besides: Collection[int]) -> StoppedLanes | None:
        """Makes the workers isolate the lanes of a subscription; all others go on. None: no worker has any.

        ``besides``: partitions in which another query serves them.
        """
        running = self._running
        if running is None or running.query is None or all(each.uid != uid for each in running.subscriptions):
            return None
        producer, scope, query = self._environment.producer, running.assignment.scope, self._next_number()
        for partition in running.partitions:
            claims.stop_lane(producer, scope, partition, uid, query)
        watch = self._watch_claims(running.assignment.query)
        try:
            watch.read_to_end(10.0)  # a worker that claims a partition later has seen that the lane is stopped
            since, below = running.assignment.query << claims.QUERY_SHIFT, query << claims.QUERY_SHIFT
            held = [each for each in running.partitions if watch.has_unclosed(scope, each, below, since)]
        finally:
            watch.close()
        topic_id = running.assignment.topic_id
        lanes = tuple(LaneKey(uid, topic_id, each) for each in held if each not in besides)
        return StoppedLanes(uid, running.assignment.query, lanes)

    def has_stopped(self, stopped: StoppedLanes) -> bool:
        """Whether nothing is in flight for these lanes any more."""
        ledger = self._environment.ledger
        ledger.poll()
        if any(lane.subscription_uid == stopped.uid for lane in ledger.draining()):
            return False
        if self._running is None or self._running.assignment.query != stopped.query:
            return True  # that query has handed over since, or has failed
        entries = [ledger.entry(lane) for lane in stopped.lanes]
        return all(
            # A start that failed may have moved the lane already.
            entry is not None and (entry.record.is_parked or entry.generation >> claims.QUERY_SHIFT > stopped.query)
            for entry in entries
        )

    def _watch_claims(self, query: int) -> claims.Watch:
        """``query``: one of those that are looked for."""
        environment = self._environment
        return claims.Watch(environment.connection, unreadable=environment.ledger.unreadable, drawn=query)

    def _leave(self, old: Running) -> None:
        """Its workers have handed over; those that still wait for answers are not disturbed."""
        if old.query is None:
            self._end(old)
            return
        self._prepared = None
        self._environment.leaving.add(self.place, old, self._environment.ledger)

    def _let_go(self, old: Running, release_number: int, new: Running | None = None) -> None:
        """Asks the workers of a query to hand over, and waits for their releases, for a limited time.

        Then waits until the workers of the new query serve the partitions that they have claimed.
        """
        producer, scope = self._environment.producer, old.assignment.scope
        watch = self._watch_claims(old.assignment.query)
        try:
            for partition in old.partitions:
                claims.release(producer, scope, partition, release_number)
            watch.read_to_end(10.0)
            deadline = time.monotonic() + LET_GO_SECONDS
            # Workers of earlier queries have handed over, or they are dead and never release their claims.
            since, below = old.assignment.query << claims.QUERY_SHIFT, release_number << claims.QUERY_SHIFT
            while time.monotonic() < deadline and any(
                watch.has_unclosed(scope, partition, below, since) for partition in old.partitions
            ):
                watch.poll(0.02)
            if new is not None:
                self._await_service(new, watch)
        except (PenstockError, TimeoutError) as error:
            logger.warning("workers of %s were not asked to hand over: %s", self._label, first_line(error))
        finally:
            watch.close()

    def _await_service(self, new: Running, watch: claims.Watch) -> None:
        """Waits until the workers that claimed a partition have written to the ledger: then they serve it."""
        ledger, first_of_new = self._environment.ledger, new.assignment.query << claims.QUERY_SHIFT
        deadline = time.monotonic() + SERVICE_SECONDS

        def is_waited_for(partition: int) -> bool:
            if watch.holder(new.assignment.scope, partition) < first_of_new:
                return False  # no row has come to this partition
            topic_id, apart = new.assignment.topic_id, new.assignment.apart
            lanes = {
                LaneKey(each.uid, topic_id, partition)
                for each in new.subscriptions
                if (each.uid, partition) not in apart
            }
            # Nothing is written about lanes that an earlier worker still drains, or that are left to another query.
            lanes -= ledger.draining().keys()
            if new.assignment.limits.may_park:
                lanes.difference_update(ledger.parked(topic_id))
            return bool(lanes) and ledger.generation(lanes) < first_of_new

        while time.monotonic() < deadline and not self._failure(new) and any(map(is_waited_for, new.partitions)):
            watch.poll(0.02)
            ledger.poll()

    def _end(self, running: Running) -> None:
        self._prepared = None
        if running.query is None:
            self._environment.doorbells.forget(running.assignment.cluster, self.topic)
        end_query(running)

    def _failed(self, reason: str, state: str = "failed") -> None:
        wait = BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        self._failures += 1
        self._not_before = time.monotonic() + wait
        if self.report.reason != reason:
            logger.error("the query of %s cannot run: %s; next try in %g s", self._label, reason, wait)
        self.report = msgspec.structs.replace(self.report, state=state, reason=reason, since=time.time())
