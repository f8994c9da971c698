"""Promises of a dispatcher: its gears, and an event that ends its worker. Kafka and Spark are real; there is no
controller: the tests write the contract, and read what the dispatcher reports."""

import json
import os
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import NewPartitions

from penstock.contract.model import (
    CLAIMS_TOPIC,
    CONTRACT_TOPIC,
    DEAD_LETTERS_TOPIC,
    LEDGER_TOPIC,
    QUERY,
    REPORT_TOPIC,
    Agreement,
    DeadLetter,
    QueryReport,
    RecordsAsEvents,
    Subscription,
    decode_dead_letter,
    decode_report,
    encode,
)
from penstock.contract.telemetry import TELEMETRY_TOPIC, Telemetry, decode_telemetry
from penstock.event.kafka import encode_record
from penstock.event.model import Event
from penstock.kafka import ledger, topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.server_files import ClusterSpec
from penstock.kafka.table import Table, put
from penstock.pipeline.topic_query import RUNNING_SECONDS
from penstock.ports import free_port
from tests.disk import small_disk
from tests.sink import Request, Sink
from tests.waiting import until

MakeSink = Callable[[], Sink]
ONE_MINUTE, TWO_MINUTES = 60, 120
PAGE = 4096

WRITTEN_MS = 1_577_836_800_123
Written = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]  # value, key, headers

# Loaded by every Python of the dispatcher. An event that says so ends the worker that touches it, or makes it fail; a
# worker also fails when it has claimed a partition, or says that it stands by, while a file of that name is there.
FAULTS = textwrap.dedent(
    """
    import os
    import penstock.kafka.claims as claims
    import penstock.pipeline.handover as handover
    from penstock.errors import Unavailable

    def failing_after(word):
        what = getattr(claims, word)
        def run(*given):
            done = what(*given)
            if os.path.exists(os.environ["FAULTS"] + "/" + word):
                os.unlink(os.environ["FAULTS"] + "/" + word)
                raise Unavailable("Kafka has just gone")
            return done
        setattr(claims, word, run)

    failing_after("claim")
    failing_after("say_up")
    parse = handover.parse_row
    def failing(packed):
        if b"poison" in packed:
            os._exit(139)
        if b"stumble" in packed:
            raise ValueError("nobody can read this")
        return parse(packed)
    handover.parse_row = failing
    """
)


@dataclass
class World:
    """A Kafka of its own with a dispatcher."""

    kafka: KafkaConnection
    folder: Path
    contract: list[str] = field(default_factory=list)

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    def let_fail(self, word: str) -> None:
        """The next worker that comes to this."""
        (self.folder / word).touch()

    def subscribe(self, url: str, partitions: int = 2, topic: str | None = None, **fields: Any) -> Subscription:
        """A subscription to a topic of its own, from its beginning."""
        topic = topic or f"topic-{uuid.uuid4()}"
        topics.create_missing(self.kafka.admin(), [topics.TopicSpec(topic, partitions=partitions)])
        topic_id = topics.describe(self.kafka.admin(), [topic])[topic].topic_id
        uid = str(uuid.uuid4())
        ledger.StartPositions(self.kafka).write(uid, topic, topic_id, dict.fromkeys(range(partitions), 0))
        made = Subscription(uid, "Trigger", "default", uid, topic, f"group-{uid}", url, **fields)
        self.agree(made)
        return made

    def agree(self, made: Subscription) -> None:
        """Writes it into the contract."""
        self.contract.append(f"Trigger/default/{made.uid}")
        put(self.kafka.producer(), CONTRACT_TOPIC, self.contract[-1], encode(Agreement(made.uid, 1, (), (made,))))

    def send(self, topic: str, ids: list[str], partition: int | None = None) -> None:
        producer = self.kafka.producer()
        for number, identity in enumerate(ids):
            event = Event({"specversion": "1.0", "id": identity, "source": "/s", "type": "t"}, b"{}")
            record = encode_record(event)
            where = number % 2 if partition is None else partition
            producer.produce(topic, record.value, headers=record.headers, partition=where)
            producer.poll(0)
        assert producer.flush(30) == 0

    def position(self, subscription: Subscription) -> int:
        """Of its lane in partition 0, as the ledger has it."""
        topic_id = topics.describe(self.kafka.admin(), [subscription.topic])[subscription.topic].topic_id
        entry = ledger.read_ledger(self.kafka).entry(ledger.LaneKey(subscription.uid, topic_id, 0))
        return entry.record.position if entry is not None else -1

    def report(self, topic: str) -> QueryReport | None:
        table = Table(self.kafka, REPORT_TOPIC).start()
        try:
            table.wait_until_current()
            value = table.values.get(QUERY + topic)
            return decode_report(value) if value else None
        finally:
            table.stop()

    def gear(self, topic: str) -> str:
        report = self.report(topic)
        return report.gear if report is not None and report.state == "running" else ""

    def bad_records(self, topic: str) -> int:
        """Of this topic, as the workers have told so far."""
        return self.counted(lambda told: told.bad_records.get(topic, 0))

    def counted(self, count: Callable[[Telemetry], int]) -> int:
        """The sum over all reports of the workers so far."""
        return sum(count(decode_telemetry(message.value())) for message in self.records(TELEMETRY_TOPIC))

    def records(self, topic: str) -> list[Message]:
        """All that are in a topic of one partition now."""
        found: list[Message] = []
        consumer = self.kafka.consumer()
        try:
            end = topics.latest_offsets(self.kafka.admin(), topic, 1)[0]
            consumer.assign([TopicPartition(topic, 0, 0)])
            while end > 0:
                for message in consumer.consume(1000, 0.1):
                    found.append(message)
                    end = 0 if message.offset() + 1 >= end else end
        finally:
            consumer.close()
        return found

    def gears(self, topic: str) -> list[str]:
        """All gears that its query was reported to run in so far: one may pass before somebody looks."""
        key = (QUERY + topic).encode()
        values = [each.value() for each in self.records(REPORT_TOPIC) if each.key() == key]
        reports = [decode_report(value) for value in values if value]
        return [each.gear for each in reports if each.state == "running"]

    def write(self, topic: str, records: Sequence[Written]) -> None:
        """Records as they are, all into partition 0."""
        producer = self.kafka.producer()
        for value, key, headers in records:
            producer.produce(topic, value, key, headers=headers, partition=0, timestamp=WRITTEN_MS)
        assert producer.flush(30) == 0

    def dead_letters(self) -> list[DeadLetter]:
        table = Table(self.kafka, DEAD_LETTERS_TOPIC).start()
        try:
            table.wait_until_current()
            return [decode_dead_letter(value) for value in list(table.values.values())]
        finally:
            table.stop()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_dispatcher(tmp_path_factory.mktemp("dispatcher"), PENSTOCK_QUIET_MINUTES="0.05") as started:
        yield started


@contextmanager
def running_dispatcher(folder: Path, **settings: str) -> Iterator[World]:
    """With a Kafka of its own."""
    (folder / "sitecustomize.py").write_text(FAULTS)
    cluster = EmbeddedKafka(ClusterSpec(folder / "kafka", port=free_port())).start()
    kafka = cluster.connection
    tables = (CONTRACT_TOPIC, LEDGER_TOPIC, CLAIMS_TOPIC, REPORT_TOPIC)
    specs = [topics.TopicSpec(name, config=topics.COMPACTED) for name in tables]
    topics.create_missing(kafka.admin(), [*specs, *map(topics.TopicSpec, (TELEMETRY_TOPIC, DEAD_LETTERS_TOPIC))])
    command = [sys.executable, "-m", "penstock.cli.main", "dispatcher"]
    command += ["--bootstrap-servers", kafka.bootstrap_servers, "--data-dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "FAULTS": str(folder), **settings}
    with subprocess.Popen(command, env=environment) as process:
        yield World(kafka, folder)
        process.terminate()
        assert process.wait(60) == 0
    cluster.stop()


def ids(requests: list[Request]) -> list[str]:
    """Data that says it is an event travels in JSON, all other in binary mode."""
    return [request.headers.get("ce-id") or str(json.loads(request.body)["id"]) for request in requests]


def test_a_quiet_topic_goes_cold_and_its_next_event_wakes_it(world: World, sink: MakeSink) -> None:
    """Kept promise: nothing runs for a topic that nothing comes to; what comes is delivered, once, and then live."""
    subscriber = sink()
    subscription = world.subscribe(subscriber.url + "/cold")
    world.send(subscription.topic, ["a", "b"])
    subscriber.wait_for(2, "/cold", ONE_MINUTE)

    def was_live_and_is_cold(since: int = 0) -> bool:
        gears = world.gears(subscription.topic)[since:]
        return "live" in gears and gears[-1] == "cold"

    until(was_live_and_is_cold, "live gear, then cold gear", TWO_MINUTES)
    before = len(world.gears(subscription.topic))
    world.send(subscription.topic, ["c", "d"])
    (*_, last) = subscriber.wait_for(4, "/cold", ONE_MINUTE)
    until(lambda: was_live_and_is_cold(before), "live gear again, then cold gear again", TWO_MINUTES)
    assert sorted(ids(subscriber.at("/cold"))) == ["a", "b", "c", "d"]
    assert last.headers["ce-id"] in "cd"


def test_a_backlog_is_worked_off_in_bulk_gear(world: World, sink: MakeSink) -> None:
    """Kept promise: who is far behind gets everything once, in its order, and ends up in live gear."""
    subscriber = sink()
    topic = f"topic-{uuid.uuid4()}"
    topics.create_missing(world.kafka.admin(), [topics.TopicSpec(topic, partitions=2)])
    expected = [str(number) for number in range(24_000)]
    world.send(topic, expected)
    world.subscribe(subscriber.url + "/bulk", topic=topic, order="ordered")
    until(lambda: "bulk" in world.gears(topic), "bulk gear")
    subscriber.wait_for(len(expected), "/bulk", ONE_MINUTE)
    until(lambda: world.gear(topic) in ("live", "cold"), "it has caught up")
    came = [int(each) for each in ids(subscriber.at("/bulk"))]
    assert len(came) == len(expected)
    for partition in (0, 1):
        of_partition = [each for each in came if each % 2 == partition]
        assert of_partition == sorted(of_partition)


def test_who_is_pinned_to_bulk_has_a_query_of_its_own(world: World, sink: MakeSink) -> None:
    """Kept promise: a pin moves nobody else out of live gear, and nothing is lost or doubled by it."""
    subscriber = sink()
    first = world.subscribe(subscriber.url + "/live", gear="live")
    world.subscribe(subscriber.url + "/pinned", topic=first.topic, gear="bulk")

    def is_apart() -> bool:
        report = world.report(first.topic)
        return report is not None and len(report.apart) == 1 and report.gear == "live"

    until(is_apart, "one of them is apart")
    world.send(first.topic, [str(number) for number in range(200)])
    for path in ("/live", "/pinned"):
        assert sorted(map(int, ids(subscriber.wait_for(200, path, ONE_MINUTE)))) == list(range(200))


@pytest.mark.scenario(21)
def test_an_event_that_ends_its_worker_is_set_aside(world: World, sink: MakeSink) -> None:
    """Kept promise: after two crashes at the same event it is given up, recorded, and the next one is delivered."""
    subscriber = sink()
    subscription = world.subscribe(subscriber.url + "/poison", order="ordered")
    world.send(subscription.topic, ["before", "poison", "after"], partition=0)
    until(lambda: "after" in ids(subscriber.at("/poison")), "what comes behind it", 90)
    assert list(dict.fromkeys(ids(subscriber.at("/poison")))) == ["before", "after"]
    (letter,) = [each for each in world.dead_letters() if each.uid == subscription.uid]
    assert (letter.offset, letter.outcome) == (1, "given up")
    assert "twice" in letter.reason


def test_an_event_that_makes_its_worker_fail_is_set_aside_though_nothing_comes(world: World, sink: MakeSink) -> None:
    """Kept promise: the same for one that it fails at, in the middle or at its very first row."""
    subscriber = sink()
    subscription = world.subscribe(subscriber.url + "/stumble", partitions=1, order="ordered", gear="live")
    world.send(subscription.topic, ["before", "stumble"], partition=0)
    (letter,) = until(
        lambda: [each for each in world.dead_letters() if each.uid == subscription.uid],
        "it is a dead letter",
        TWO_MINUTES,
    )
    assert (letter.offset, letter.outcome) == (1, "given up")
    assert set(ids(subscriber.at("/stumble"))) == {"before"}


def test_a_worker_that_fails_is_replaced_though_nothing_comes(world: World, sink: MakeSink) -> None:
    """Kept promise: whatever goes wrong in a worker, another begins at once. Spark hears of it only with the next
    record of that partition, and here none ever comes."""
    subscriber = sink()
    subscription = world.subscribe(subscriber.url + "/claims", partitions=1, gear="live")
    until(lambda: world.gear(subscription.topic) == "live", "live gear")
    world.let_fail("claim")
    world.send(subscription.topic, ["only"], partition=0)
    assert ids(subscriber.wait_for(1, "/claims", TWO_MINUTES)) == ["only"]


def test_a_worker_that_fails_before_its_first_record_is_replaced(world: World, sink: MakeSink) -> None:
    """Kept promise: one that fails while it stands by does not wait there for the first event."""
    subscriber = sink()
    first = world.subscribe(subscriber.url + "/first", partitions=1, gear="live")
    until(lambda: world.gear(first.topic) == "live", "live gear")
    world.let_fail("say_up")
    began = time.monotonic()
    second = world.subscribe(subscriber.url + "/second", partitions=1, topic=first.topic, gear="live")

    def is_served() -> bool:
        report = world.report(first.topic)
        return report is not None and report.state == "running" and second.uid in report.subscriptions

    until(is_served, "both are served", TWO_MINUTES)
    assert time.monotonic() - began < RUNNING_SECONDS  # which a dispatcher waits at most
    world.send(first.topic, ["only"], partition=0)
    subscriber.wait_for(1, "/first", TWO_MINUTES)
    subscriber.wait_for(1, "/second", TWO_MINUTES)


RUBBISH: list[tuple[bytes | None, list[tuple[str, bytes | None]]]] = [
    (None, []),
    (b"just text", []),
    (b'{"specversion": "1.0", "id"', [("content-type", b"application/cloudevents+json")]),
    (b"{}", [("ce_id", b"1"), ("ce_id", b"2")]),
    (b"{}", [("ce_id", b"1"), ("x-large", b"x" * 800_000)]),
]


@pytest.mark.scenario(22)
def test_rubbish_in_a_running_stream_is_passed_by(world: World, sink: MakeSink) -> None:
    """Kept promise: what is no event stops nothing, not even in an ordered lane, and the position passes it."""
    subscriber = sink()
    subscription = world.subscribe(subscriber.url + "/rubbish", partitions=1, order="ordered")
    world.send(subscription.topic, ["before"], partition=0)
    subscriber.wait_for(1, "/rubbish", ONE_MINUTE)
    producer = world.kafka.producer()
    for value, headers in RUBBISH:
        producer.produce(subscription.topic, value, headers=headers, partition=0)
    assert producer.flush(30) == 0
    world.send(subscription.topic, ["after"], partition=0)
    subscriber.wait_for(2, "/rubbish", ONE_MINUTE)
    until(lambda: world.position(subscription) == len(RUBBISH) + 2, "the ledger is at the end")
    assert ids(subscriber.at("/rubbish")) == ["before", "after"]


SOURCE = RecordsAsEvents("/apis/v1/namespaces/default/kafkasources/s#topic", "int")
OWN = [("ce_specversion", b"1.0"), ("ce_id", b"own"), ("ce_source", b"/s"), ("ce_type", b"t")]
MIXED: list[Written] = [
    (b"just text", None, []),
    (b"{}", b"key", [*OWN, ("content-type", b"application/json")]),
    (b"\0\n\xff", (7).to_bytes(4, "big"), [("content-type", b"a/b"), ("X-Trace", b"t"), ("n", None)]),
    (None, b"gone", []),
    (b"{trunc", None, [("content-type", b"application/cloudevents+json")]),
    (b"{}", None, [*OWN, ("ce_bad", b"a\r\nX-Evil: 1")]),
    (b"{}", None, [*OWN[:1], ("ce_id", b"last"), *OWN[2:]]),
]


AS_WRITTEN = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}


@pytest.mark.parametrize(("gear", "order"), [("live", "ordered"), ("live", "unordered"), ("bulk", "ordered")])
def test_a_source_makes_events_of_plain_records(world: World, sink: MakeSink, gear: str, order: str) -> None:
    """Kept promise: every record of a topic comes to a source as an event, once and in order, tombstones and broken
    events too; a trigger on the same topic gets the events and nothing else; only what nobody took is counted."""
    subscriber = sink()
    topic = f"topic-{uuid.uuid4()}"
    topics.create_missing(world.kafka.admin(), [topics.TopicSpec(topic, partitions=1, config=AS_WRITTEN)])
    source = world.subscribe(subscriber.url + "/source", 1, topic, records=SOURCE, order=order, gear=gear)
    world.write(source.topic, MIXED)
    subscriber.wait_for(len(MIXED), "/source", ONE_MINUTE)
    world.subscribe(subscriber.url + "/trigger", 1, source.topic, gear=gear)
    subscriber.wait_for(2, "/trigger", ONE_MINUTE)
    world.write(source.topic, MIXED)
    came = subscriber.wait_for(2 * len(MIXED), "/source", ONE_MINUTE)
    subscriber.wait_for(4, "/trigger", ONE_MINUTE)
    until(lambda: world.position(source) == 2 * len(MIXED), "the ledger is at the end")
    expected = [
        {1: "own", 6: "last"}.get(offset % 7, f"partition:0/offset:{offset}") for offset in range(2 * len(MIXED))
    ]
    assert sorted(ids(came)) == sorted(expected)
    if order == "ordered":
        assert ids(came) == expected
    assert sorted(ids(subscriber.at("/trigger"))) == ["last", "last", "own", "own"]
    (plain,) = [each for each in came if each.headers.get("ce-id") == "partition:0/offset:2"]
    assert plain.body == b"\0\n\xff"
    wanted = {
        "ce-type": "dev.knative.kafka.event", "ce-source": SOURCE.source, "ce-subject": "partition:0#2",
        "ce-time": "2020-01-01T00:00:00.123Z", "ce-key": "7", "ce-partitionkey": "7", "ce-kafkaheaderxtrace": "t",
        "content-type": "a/b", "ce-knativekafkaoffset": "2",
    }  # fmt: skip
    assert {name: plain.headers.get(name) for name in wanted} == wanted
    assert world.bad_records(source.topic) == 0


def test_what_no_source_takes_is_counted(world: World, sink: MakeSink) -> None:
    """Kept promise: records that are no events are counted where only triggers read them."""
    subscriber = sink()
    trigger = world.subscribe(subscriber.url + "/counted", 1)
    world.write(trigger.topic, MIXED)
    subscriber.wait_for(2, "/counted", ONE_MINUTE)
    # A query that begins anew counts again what it reads again.
    until(lambda: world.bad_records(trigger.topic) >= len(MIXED) - 2, "they are counted")


@pytest.mark.scenario(25)
def test_partitions_are_added_under_keyed_load(world: World, sink: MakeSink) -> None:
    """Kept promise: from four to eight partitions nothing is lost, and each key stays in order in its partition."""
    subscriber = sink()
    subscription = world.subscribe(subscriber.url + "/grown", partitions=4, order="key", gear="live")
    until(lambda: world.gear(subscription.topic) == "live", "live gear")
    sent = 0

    def send(count: int, partitions: int) -> None:
        nonlocal sent
        producer = world.kafka.producer()  # one that knows all partitions
        for _ in range(count):
            event = Event({"specversion": "1.0", "id": str(sent), "source": "/s", "type": "t"}, b"{}")
            record, key = encode_record(event), sent % 16
            where = key % partitions
            producer.produce(subscription.topic, record.value, b"%d" % key, headers=record.headers, partition=where)
            sent += 1
        assert producer.flush(30) == 0

    send(200, 4)
    admin = world.kafka.admin()
    admin.create_partitions([NewPartitions(subscription.topic, 8)])[subscription.topic].result(30)
    until(lambda: topics.describe(admin, [subscription.topic])[subscription.topic].partitions == 8)
    send(400, 8)
    came = [int(each) for each in ids(subscriber.wait_for(sent, "/grown", ONE_MINUTE))]
    assert sorted(came) == list(range(sent))
    for key in range(16):
        before, after = (
            [each for each in came if each % 16 == key and (each < 200) is early] for early in (True, False)
        )
        assert before == sorted(before)
        assert after == sorted(after)


@pytest.mark.scenario(30)
def test_no_room_for_scratch_stops_nobody(world: World, sink: MakeSink) -> None:
    """Kept promise: while Spark's disk is full what runs goes on; what is new waits, and the report says why."""
    subscriber = sink()
    first = world.subscribe(subscriber.url + "/first", gear="live")
    world.send(first.topic, ["a", "b"])
    subscriber.wait_for(2, "/first", ONE_MINUTE)
    with small_disk(world.scratch, PAGE):
        (world.scratch / "full").write_bytes(bytes(PAGE))
        world.subscribe(subscriber.url + "/second", topic=first.topic)

        def reason() -> str:
            report = world.report(first.topic)
            return report.reason if report else ""

        until(lambda: "No space left" in reason(), "the report says it")
        world.send(first.topic, ["c", "d"])
        subscriber.wait_for(4, "/first", ONE_MINUTE)
    subscriber.wait_for(4, "/second", ONE_MINUTE)
    assert sorted(ids(subscriber.at("/first"))) == sorted(ids(subscriber.at("/second"))) == ["a", "b", "c", "d"]


def test_transactions_are_delivered_and_their_gaps_only_counted(world: World, sink: MakeSink) -> None:
    """Kept promise: events that were written in transactions arrive; the offsets of their markers are counted."""
    subscriber = sink()
    trigger = world.subscribe(subscriber.url + "/")
    producer = world.kafka.producer(**{"transactional.id": str(uuid.uuid4())})
    producer.init_transactions(30)
    for number in range(60):
        event = Event({"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}, b"{}")
        record = encode_record(event)
        producer.begin_transaction()
        producer.produce(trigger.topic, record.value, headers=record.headers, partition=0)
        producer.commit_transaction(30)
    subscriber.wait_for(60)
    assert sorted(ids(subscriber.requests), key=int) == [str(number) for number in range(60)]
    # A query that was replaced meanwhile does not know of the gap before its first row, or counts some again.
    until(lambda: world.counted(lambda told: told.gaps.get(trigger.topic, 0)) >= 30, "the gaps are reported")
    assert world.counted(lambda told: told.gaps.get(trigger.topic, 0)) <= 2 * 59
