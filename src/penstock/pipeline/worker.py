"""What runs in a Python worker of Spark: one task attempt, which is one partition of one topic.

    first row ─▶ claim the partition ─▶ wait for the predecessor ─▶ read the ledger ─▶ lanes
    rows      ─▶ deliveries ─▶ ledger every 50 ms
    end, stop or a newer claim ─▶ finish what is in flight ─▶ ledger ─▶ "closed"
                                                          └▶ slow lanes: marked in the ledger, finished after "closed"

Everything made here (sockets, Kafka clients, lanes) belongs to this attempt and is torn down with it:
Spark uses its Python workers again. Nothing is yielded to Spark, which reads results only at a batch's end.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import TaskContext

from penstock.contract.model import HOME, Cluster, Delivery, Subscription, place_of
from penstock.delivery.client import PAUSE_SECONDS
from penstock.delivery.deliver import Deliveries, Limits
from penstock.delivery.lane import Lane, LaneLimits
from penstock.delivery.progress import Progress
from penstock.delivery.row import Row
from penstock.delivery.sign import read_keys
from penstock.delivery.tally import SilentTally
from penstock.errors import Misconfigured, PenstockError, Unavailable
from penstock.kafka import claims, ledger
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection, Producer
from penstock.kafka.ends import first_offset
from penstock.kafka.ledger import LaneKey, LaneRecord, LedgerEntry
from penstock.kafka.outbox import KafkaOutbox
from penstock.kafka.telemetry import Teller
from penstock.pipeline.delivery_counts import DeliveryCounts, OfTopic
from penstock.pipeline.filter_errors import FilterErrors
from penstock.pipeline.gaps import Gaps
from penstock.pipeline.held_lanes import DEAD_SECONDS, READ_SECONDS, HeldLanes, Released
from penstock.pipeline.input import SparkRows
from penstock.pipeline.lane_records import LaneRecords
from penstock.pipeline.marks import STANDBY, Marks
from penstock.telemetry import logs
from penstock.telemetry.logs import about
from penstock.telemetry.traces import NO_TRACES, TraceSettings, open_tracing

if TYPE_CHECKING:
    from penstock.delivery.tracing import DeliveryTracing

logger = logging.getLogger("penstock.worker")

HAND_OVER_SECONDS = 0.05  # a fenced worker waits this long for answers before it releases the partition,
LONGEST_LET_GO_SECONDS = 30.0  # and this long for the last answers of the lanes that it still holds
DRAINING_BEAT_SECONDS = 1.0  # how often it writes a heartbeat to the ledger meanwhile
PREDECESSOR_SECONDS = 11.0  # longest wait for the release by the previous holder
STANDBY_SECONDS = 5.0  # without a row
KEYS_SECONDS = 5.0  # how often signing keys are read again
SILENT = "silent"  # nothing is noted
MARKS = "marks"  # in the scratch folder
MOST_WAITING = 2_000  # records of the ledger that Kafka has not taken
OUTRANKED_SECONDS = 60.0  # far longer than a dispatcher takes to stop a query that it has replaced


@dataclass(frozen=True)
class Assignment:
    """What a query tells its workers. Travels pickled, so it holds plain values only."""

    connection: KafkaConnection  # to home
    topic: str
    topic_id: str
    subscriptions_json: bytes
    limits: Limits
    partitions: int  # of the topic
    scope: str  # under which partitions are claimed: the topic's id, or one of a query that serves parked lanes
    apart: frozenset[tuple[str, int]]  # lanes, by uid and partition, that another query serves
    ledger: bytes  # what the dispatcher has read of the ledger, packed: the workers need not read all of it
    query: int  # its number, from claims.next_query_number
    first_query: int  # the first number that this dispatcher drew
    replaces: bool = False  # another query, which serves until all tasks of this one are ready
    predecessor_until: float | None = None  # epoch seconds: how long to wait for an older holder at most
    dead_below: int = 0  # workers of queries below this number are dead
    secrets_dir: str = ""  # secrets do not travel: they are read there
    cluster: Cluster = HOME  # where the topic is
    scratch_dir: str = "."
    delivery_log: str = "all"  # which attempts are logged: all, failures, off
    tracing: TraceSettings = NO_TRACES
    ends_with_input: bool = False  # bulk gear: all must be finished before the task ends

    @staticmethod
    def of_nobody(connection: KafkaConnection, topic: str) -> "Assignment":
        """For a query that only warms up, with the code that Spark generates for a trigger without a filter."""
        nothing = ledger.LedgerPart(ledger.Ledger(), 0).packed()
        nobody = msgspec.json.encode([Subscription("nobody", "Trigger", "", "", topic, "", "")])
        return Assignment(connection, topic, "", nobody, Limits(), 1, "", frozenset(), nothing, 0, 0)

    @property
    def is_aside(self) -> bool:
        """Whether it serves parked lanes, beside the query that all others share."""
        return self.scope != self.shared_scope

    @property
    def shared_scope(self) -> str:
        """Under which the query claims that all others of the topic share."""
        return shared_scope(self.topic_id, self.cluster)

    def subscriptions(self) -> list[Subscription]:
        return msgspec.json.decode(self.subscriptions_json, type=list[Subscription])

    def leaves(self, key: LaneKey, entry: LedgerEntry | None) -> bool:
        """Whether another query serves this lane, or is about to: nothing is delivered to it from here.

        ``entry``: its record in the ledger, once no predecessor serves it any more.
        """
        query = 0 if entry is None else entry.generation >> claims.QUERY_SHIFT  # the last one that wrote about it
        is_parked = entry is not None and entry.record.is_parked
        if is_parked and query == self.query:
            return True  # isolated by an earlier batch, whose rows do not come again: the next query continues
        if self.is_aside:
            return False  # we are that query
        if (key.subscription_uid, key.partition) in self.apart:
            return True
        # If no lane may be isolated, there is no other query: lanes that were isolated before are served here.
        return (is_parked and self.limits.may_park) or query > self.query


def serve_partition(assignment: Assignment, batches: Iterator[Any]) -> Iterator[Any]:
    """The function that Spark calls: delivers every row and yields nothing."""
    if not logging.getLogger().handlers:
        logs.configure()
    subscriptions = assignment.subscriptions()
    filter_errors = FilterErrors(subscriptions)
    sources = frozenset(place for place, each in enumerate(subscriptions) if each.records is not None)
    source = SparkRows(batches, assignment.topic, filter_errors, partial(_make_marks, assignment), sources)
    standby = Standby(assignment)
    if assignment.replaces:
        standby.get_ready()
    with _said(assignment, lambda: source.marks):
        first = source.read_first(STANDBY_SECONDS, standby.rest)
        if first:
            Holding(assignment, source, filter_errors, standby).serve(first)
    yield from ()


@contextmanager
def _said(assignment: Assignment, its_marks: Callable[[], Marks | None]) -> Iterator[None]:
    """That it fails, and why: Spark hears of it with the next record, which may never come."""
    try:
        yield
    except BaseException as error:
        marks = its_marks()
        is_over = marks is None or marks.is_closed  # it was let go, or its query was stopped
        if marks is not None:
            marks.fail()
        why = error.message if isinstance(error, PenstockError) else repr(error)
        level = logging.WARNING if is_over else logging.ERROR
        logger.log(level, "a worker has failed: %s", why, extra=about(topic=assignment.topic))
        raise
    if (marks := its_marks()) is not None:
        marks.close()


def _make_marks(assignment: Assignment, name: int | str) -> Marks | None:
    """By partition. Before the worker has one: by anything else."""
    try:
        return Marks(Path(assignment.scratch_dir, MARKS, f"{assignment.scope}-{name}"), assignment.query)
    except OSError as error:
        logger.warning("what ends this worker will not be known: %s", error)
        return None


class Standby:
    """A worker before its first row. Which partition it has, it learns only from that row.

    Whoever is to replace another gets ready first: its clients are connected and have read what there is, while the
    other still serves. Then taking over is a matter of a few requests. Nobody stands by for long: threads and
    connections that an idle partition does not need are given up again.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._clients: tuple[Producer, claims.Watch] | None = None

    def get_ready(self) -> None:
        """And say so."""
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        marks = _make_marks(self._assignment, f"{STANDBY}-{task}")  # should it be the end of us
        with _said(self._assignment, lambda: marks):
            producer, _ = self.clients()
            claims.say_up(producer, self._assignment.scope, task, self._assignment.query)

    def clients(self) -> tuple[Producer, claims.Watch]:
        """Connected, and with claims and ledger read to the end."""
        if self._clients is None:
            connection = self._assignment.connection
            # A record of the ledger is never given up: while Kafka is away it waits here.
            # In order and without gaps: a floor must not be there without the records before it.
            producer = connection.producer(**{"message.timeout.ms": 0, "enable.gapless.guarantee": True})
            known = ledger.unpacked(self._assignment.ledger)
            self._clients = producer, claims.Watch(connection, known, drawn=self._assignment.query)
        self._clients[1].read_to_end(READ_SECONDS)
        return self._clients

    def rest(self) -> None:
        if self._clients is not None:
            self._clients[1].close()
            self._clients = None


class Holding:
    """A claimed partition: its lanes, and their records in the ledger."""

    def __init__(
        self, assignment: Assignment, source: SparkRows, filter_errors: FilterErrors, standby: Standby
    ) -> None:
        partition = source.partition
        self._assignment = assignment
        self._source = source
        self._partition = partition
        self._is_written = False  # the last word is in the ledger
        self._keys_due = time.monotonic() + KEYS_SECONDS
        self._is_lost = False  # another worker has claimed the partition
        self._looked_at = 0.0  # when the claims were last read before the first delivery, on the monotonic clock
        self._trusted_until = 0.0  # when the partition is lost: until then the successor leaves slow lanes here
        self._beat_due: float | None = None  # set once the partition is handed over, and lanes still wait for answers
        self._filter_errors = filter_errors
        self._teller = Teller(assignment.connection)
        self._producer, self._watch = standby.clients()
        self._held_back = HeldLanes(self._watch)
        self._ledger = ledger.LedgerWriter(self._producer)
        self._clusters = Clusters(assignment.connection, Path(assignment.secrets_dir), assignment.limits.policy)
        elsewhere = None if assignment.cluster.is_home else partial(self._clusters.connection, assignment.cluster)
        self._outbox = KafkaOutbox(assignment.connection, elsewhere)
        tracing = _tracing(assignment, partition)
        # Nothing is delivered during the hand-over, so everything that can be prepared is prepared before it.
        self._generation = self._take_over()
        keys = [LaneKey(each.uid, assignment.topic_id, partition) for each in assignment.subscriptions()]
        lanes = self._lanes(keys)
        self._deliveries = Deliveries(lanes, assignment.limits, self._tick, self._outbox)
        self._deliveries.tracing = tracing
        place = place_of(assignment.topic, assignment.cluster)
        log, is_aside = assignment.delivery_log, assignment.is_aside
        self._gaps = Gaps(self._first_offset, self._report_lost)
        for first, last in source.first_gaps:
            self._gaps.note(first, last)
        source.on_gap = self._gaps.note
        of_topic = OfTopic(place, partition, assignment.topic_id)
        self._counts = DeliveryCounts(self._deliveries, of_topic, log, is_aside=is_aside)
        self._records = LaneRecords(self._ledger, self._generation, keys, lanes)
        self._records.write_all()
        self._ledger.flush(f"the take-over of {assignment.topic}/{partition}")
        self._records.erase_older(self._watch.ledger)
        if not self._held_back:
            self._watch.leave_ledger()
        self._deliveries.hand_over, self._deliveries.after_pause = self._hand_over, self._look_again

    def serve(self, first: list[Row]) -> None:
        """Delivers until the input ends or another worker claims the partition; leaves nothing behind."""
        source = self._source
        try:
            self._look_before_first()
            if source.marks is not None:
                self._deliveries.touch, self._deliveries.leave = source.marks.touch, source.marks.leave
            self._deliveries.take(first)
            is_bulk = self._assignment.ends_with_input
            self._deliveries.run(source, _patience_seconds(self._assignment), waits_for_retries=is_bulk)
        finally:
            self._close()
        if source.marks is not None:
            source.marks.close()  # what follows only waits
        if self._is_lost:
            # The dispatcher stops this query soon. If it does not, the claim was not its own, or that of a query
            # which it has given up since.
            source.discard(OUTRANKED_SECONDS)
            if source.is_over:
                return
            # The file of the partition is the other's; a name of our own, or nobody hears of this.
            source.marks = _make_marks(self._assignment, f"outranked-{self._partition}")
            raise RuntimeError("another query has claimed the partition; is there a second dispatcher on this Kafka?")
        is_behind = not self._is_written and any(lane.progress.is_open for lane in self._deliveries.lanes)
        if is_behind or not self._deliveries.is_finished:
            # The next batch would begin behind what is unfinished; only a new query goes back to it.
            raise RuntimeError("unfinished at the end of the batch: to be started again from the ledger")

    def _tick(self, last_round_seconds: float) -> None:
        """Before anything more is sent: what moved goes to the ledger, and the partition is still ours."""
        if self._source.marks is not None:
            self._source.marks.beat()
        if self._beat_due is not None:
            self._write_draining(self._beat_due)
        elif len(self._producer) < MOST_WAITING:  # while Kafka is away the last state is enough
            self._records.write_moved(self._deliveries.seen_offset)
        if time.monotonic() >= self._keys_due:
            self._keys_due = time.monotonic() + KEYS_SECONDS
            for lane in self._deliveries.lanes:
                self._give_keys(lane)
        self._tell()
        self._producer.poll(0)
        if self._ledger.failure is not None:
            raise RuntimeError(f"the ledger cannot be written: {self._ledger.failure}")
        if last_round_seconds > PAUSE_SECONDS:
            self._look_again()
        self._watch.poll(0)
        self._notice_loss()
        self._stop_lanes()
        if self._held_back and not self._is_lost:
            self._go_on_with_released()

    def _write_draining(self, due: float) -> None:
        if self._records.has_drained or time.monotonic() >= due:
            self._records.write_draining()
            self._expect_beat()

    def _look_again(self) -> None:
        """After a pause, before anything more is begun: another worker may hold the partition by now."""
        if self._is_lost:  # it begins nothing more, but waits for the last answers, also without Kafka
            if time.monotonic() > self._trusted_until:
                self._deliveries.abandon_all()
            return
        self._watch.read_to_end(READ_SECONDS)
        self._notice_loss()
        if self._is_lost:
            self._deliveries.abandon_unsent()

    def _look_before_first(self) -> None:
        """While this worker waited for its predecessor, or was paused, a successor may have claimed the partition."""
        if time.monotonic() - self._looked_at > PAUSE_SECONDS:
            self._look_again()
        self._notice_loss()
        self._stop_lanes()

    def _notice_loss(self) -> None:
        if self._watch.holder(self._assignment.scope, self._partition) != self._generation:
            if not self._is_lost:
                self._trusted_until = time.monotonic() + DEAD_SECONDS
            self._is_lost = True
            self._deliveries.let_go(HAND_OVER_SECONDS, LONGEST_LET_GO_SECONDS)

    def _stop_lanes(self) -> None:
        """Stops the lanes that the dispatcher wants to move; all others go on."""
        for uid, query in self._watch.stopped(self._assignment.scope, self._partition).items():
            if query > self._assignment.query:
                for lane in self._deliveries.lanes:
                    if lane.subscription.uid == uid and not lane.is_parked:
                        self._records.note_stopped(lane, self._deliveries.isolate(lane))

    # ── hand-over ─────────────────────────────────────────────────────────────────────────────────

    def _hand_over(self) -> None:
        """Hands over all lanes except those that still wait for answers; the successor does not wait for these."""
        self._records.hand_over(self._deliveries.seen_offset)
        self._flush_and_close()
        self._expect_beat()

    def _expect_beat(self) -> None:
        self._beat_due = time.monotonic() + DRAINING_BEAT_SECONDS
        self._trusted_until = time.monotonic() + DEAD_SECONDS

    def _flush_and_close(self) -> None:
        try:
            self._ledger.flush(f"the last records of {self._assignment.topic}/{self._partition}", 5.0)
            claims.close(self._producer, self._assignment.scope, self._partition, self._generation)
            self._is_written = True
        except Unavailable as error:
            logger.warning("%s; a successor repeats what was in flight", error.message)

    def _go_on_with_released(self) -> None:
        for released in self._held_back.take_released():
            self._go_on(released)
        if not self._held_back:
            self._records.erase_older(self._watch.ledger)
            self._watch.leave_ledger()

    def _go_on(self, released: Released) -> None:
        lane = self._deliveries.lanes[released.place]
        if self._assignment.leaves(released.key, released.entry):
            lane.is_held_back = False
            self._deliveries.isolate(lane)  # its predecessor has isolated it, and the dispatcher knows
            return
        record = released.entry.record if released.entry else LaneRecord(0)
        self._deliveries.go_on(lane, record.position, record.beyond, dict(record.attempts))
        self._records.go_on(released.place)

    def _close(self) -> None:
        """The lanes' last records first, then the release, so a successor can begin."""
        self._outbox.close()
        self._clusters.close()
        try:
            if self._beat_due is None:
                self._records.write_moved(self._deliveries.seen_offset)
            else:
                self._records.release()
            if self._is_written:
                self._ledger.flush(f"the slow lanes of {self._assignment.topic}/{self._partition}", 5.0)
            else:
                self._flush_and_close()
        except Unavailable as error:
            logger.warning("%s; a successor repeats what was in flight", error.message)
        finally:
            self._watch.close()
            self._tell(at_once=True)
            self._teller.close()
            if self._deliveries.tracing is not None:
                self._deliveries.tracing.close()

    def _tell(self, *, at_once: bool = False) -> None:
        bad_records = 0 if self._assignment.is_aside else self._source.bad_records  # the others count them
        self._teller.tell(self._filter_errors.to_tell(at_once=at_once))
        self._gaps.look(at_once=at_once)
        gaps = 0 if self._assignment.is_aside else self._gaps.count
        told, log = self._counts.to_tell(bad_records, gaps, at_once=at_once)
        self._teller.tell(told)
        self._teller.log(log)

    def _first_offset(self) -> int:
        """The first offset that Kafka still has. Called from another thread."""
        assignment = self._assignment
        is_home = assignment.cluster.is_home
        connection = assignment.connection if is_home else self._clusters.connection(assignment.cluster)
        return first_offset(connection, assignment.topic, self._partition)

    def _report_lost(self, first: int, last: int) -> None:
        served = [lane.subscription for lane in self._deliveries.lanes if not lane.is_parked]
        logger.error(
            "lost: %s/%d offsets %d to %d were deleted by retention before they were delivered to %s",
            self._assignment.topic, self._partition, first, last,
            ", ".join(f"{each.kind.lower()} {each.namespace}/{each.name}" for each in served),
        )  # fmt: skip

    # ── take-over and ledger ──────────────────────────────────────────────────────────────────────

    def _take_over(self) -> int:
        scope, partition = self._assignment.scope, self._partition
        generation = claims.claim(self._producer, scope, partition, self._assignment.query)
        latest = time.time() + PREDECESSOR_SECONDS
        if self._assignment.predecessor_until is not None:
            latest = min(latest, self._assignment.predecessor_until)
        self._watch.read_to_end(READ_SECONDS)
        self._fence_earlier_dispatchers()
        while self._has_predecessor(generation) and time.time() < latest:
            self._watch.poll(0.02)
        self._looked_at = time.monotonic()  # from the first delivery on, the client notices pauses
        self._watch.read_to_end(READ_SECONDS)
        return generation

    def _fence_earlier_dispatchers(self) -> None:
        """Their workers may have held these lanes under another scope, and be only asleep."""
        for scope in self._other_scopes():  # the number is below that of every query of our dispatcher
            claims.release(self._producer, scope, self._partition, self._assignment.first_query)

    def _other_scopes(self) -> list[str]:
        """Under which a dispatcher before ours has claims on this partition that were never closed."""
        assignment = self._assignment
        if assignment.predecessor_until is None:
            return []
        before = assignment.first_query << claims.QUERY_SHIFT
        uids = [each.uid for each in assignment.subscriptions()]
        shared = assignment.shared_scope
        scopes = {shared, *(scope_of(shared, uid) for uid in uids)} - {assignment.scope}
        return [each for each in scopes if self._watch.has_unclosed(each, self._partition, before)]

    def _has_predecessor(self, generation: int) -> bool:
        """Somebody before us under the same scope; or of a dispatcher before ours, under whatever scope."""
        dead_below = self._assignment.dead_below << claims.QUERY_SHIFT
        if self._watch.has_unclosed(self._assignment.scope, self._partition, generation, dead_below):
            return True
        return bool(self._other_scopes())

    def _lanes(self, keys: list[LaneKey]) -> list[Lane]:
        lanes, window = [], self._assignment.limits.window
        for place, (key, subscription) in enumerate(zip(keys, self._assignment.subscriptions(), strict=True)):
            entry = self._watch.ledger.entry(key)
            record = entry.record if entry else LaneRecord(0)  # a partition that came later: from its beginning
            limits = share(subscription.delivery, window, self._assignment.partitions)
            lane = Lane(subscription, Progress(record.position, record.beyond), limits, dict(record.attempts))
            lane.partition, lane.topic_id = self._partition, key.topic_id
            lane.is_parked = self._assignment.leaves(key, entry)
            if record.draining and not lane.is_parked:
                lane.hold_back()
                self._held_back.hold(key, place, record)
            if self._assignment.delivery_log == SILENT:
                lane.tally = SilentTally()
            self._give_keys(lane)
            lanes.append(lane)
        return lanes

    def _give_keys(self, lane: Lane) -> None:
        """Those with which its deliveries are signed. They are read here, now and then: secrets do not travel."""
        name = lane.subscription.delivery.signing_secret
        if name:
            try:
                lane.signing_keys = read_keys(Path(self._assignment.secrets_dir, lane.subscription.namespace, name))
                lane.signing_problem = ""
            except Misconfigured as error:
                if lane.signing_problem != error.message:
                    lane.complain("nothing is sent from", lane.progress.position, error.message)
                lane.signing_problem = error.message


def _tracing(assignment: Assignment, partition: int) -> "DeliveryTracing | None":
    """OpenTelemetry is imported, and its thread started, only where it is wanted."""
    opened = open_tracing(assignment.tracing, "dispatcher")
    if opened is None:
        return None
    from penstock.delivery.tracing import DeliveryTracing

    return DeliveryTracing(opened, assignment.topic, partition)


def shared_scope(topic_id: str, cluster: Cluster) -> str:
    """Under which the query of a topic claims partitions. Two addresses may lead to the same topic (home's, with
    credentials and without): they are two queries, for different subscriptions, and must not outrank each other."""
    if cluster.is_home:
        return topic_id
    return f"{topic_id}~{hashlib.sha256(cluster.bootstrap_servers.encode()).hexdigest()[:12]}"


def scope_of(shared: str, uid: str) -> str:
    """Under which the query of a subscription's parked lanes claims partitions."""
    return f"{shared}@{uid}"


def share(delivery: Delivery, window: int, partitions: int) -> LaneLimits:
    """What one lane may, so that all of a subscription's lanes together keep its limits."""
    if delivery.max_in_flight:
        window = min(window, max(1, delivery.max_in_flight // partitions))
    return LaneLimits(window, delivery.events_per_second / partitions)


def _patience_seconds(assignment: Assignment) -> float:
    """How long to wait for answers at the end: in bulk gear, also for all retries, as long as it takes."""
    return 24 * 3600.0 if assignment.ends_with_input else 5.0
