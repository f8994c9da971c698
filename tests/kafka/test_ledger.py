"""Promises of the ledger and the claims, on a real Kafka: the latest generation wins, and a zombie moves nothing."""

import uuid
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import running_kafka
from tests.waiting import until

from penstock.contract.model import CLAIMS_TOPIC, LEDGER_TOPIC
from penstock.errors import Misconfigured, Unavailable
from penstock.kafka import claims, ledger
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ends import Ends
from penstock.kafka.ledger import LaneKey, LaneRecord, Ledger, LedgerPart
from penstock.kafka.topics import COMPACTED, TopicSpec, create_missing
from penstock.kafka.unreadable import Unreadable, UnreadableRecord


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    """A Kafka for these tests alone: the invalid records that they write stay in its topics."""
    with running_kafka(tmp_path_factory.mktemp("ledger")) as cluster:
        yield cluster.connection


@pytest.fixture
def lane(kafka: KafkaConnection) -> LaneKey:
    """A lane of a subscription that nobody else knows."""
    create_missing(kafka.admin(), [TopicSpec(topic, config=COMPACTED) for topic in (LEDGER_TOPIC, CLAIMS_TOPIC)])
    return LaneKey(f"uid-{uuid.uuid4()}", "topic-id", 0)


def test_start_positions_are_written_once(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: a controller that repeats its work does not move a lane that has begun."""
    ledger.StartPositions(kafka).write(lane.subscription_uid, "orders", lane.topic_id, {0: 7, 1: 9})
    ledger.StartPositions(kafka).write(lane.subscription_uid, "orders", lane.topic_id, {0: 100, 1: 100})
    known = ledger.read_ledger(kafka)
    assert known.entry(lane) == (0, LaneRecord(7))
    assert known.entry(lane._replace(partition=1)) == (0, LaneRecord(9))


def test_who_reads_the_ledger_now_and_then_fetches_nothing_meanwhile(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: a controller with nothing to do costs Kafka nothing, however much workers write; nor does it
    miss any of it."""
    writer = ledger.LedgerWriter(kafka.producer())
    now_and_then = ledger.FollowedLedger(kafka, rests=True)
    for position in (5, 6, 7):
        lanes = [lane._replace(partition=position * 10 + n) for n in range(3)]  # others than before
        for each in lanes:
            writer.write(each, 1, LaneRecord(position))
        writer.flush("a test")
        now_and_then.read_to_end()
        assert [now_and_then.entry(each) for each in lanes] == [(1, LaneRecord(position))] * 3
        assert now_and_then._consumer is not None
        assert now_and_then._consumer.assignment() == []
    now_and_then.close()


@pytest.mark.scenario(28)
def test_a_late_write_of_an_old_generation_is_not_read(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: what a worker writes after it was replaced changes nothing."""
    writer = ledger.LedgerWriter(kafka.producer())
    writer.write(lane, 5, LaneRecord(50, ((52, 53),)))
    writer.write(lane, 3, LaneRecord(999))
    writer.flush("a test")
    entry = ledger.read_ledger(kafka).entry(lane)
    assert entry == (5, LaneRecord(50, ((52, 53),)))


LANE = LaneKey("uid", "topic-id", 0)
GENERATIONS = st.integers(1, 4)


class Writes:
    """Stands for Kafka: takes what a writer produces, in order."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []

    def produce(self, _topic: str, *, key: bytes, value: bytes | None, **_: object) -> None:
        self.records.append((key, value))

    def compacted(self, count: int, keeps_tombstones: bool) -> list[tuple[bytes, bytes | None]]:
        """As the cleaner leaves the log: of the first records the last one of each key, the rest as it is."""
        cleaned = self.records[:count]
        last = {key: place for place, (key, _) in enumerate(cleaned)}
        kept = [
            (key, value)
            for place, (key, value) in enumerate(cleaned)
            if last[key] == place and (keeps_tombstones or value is not None)
        ]
        return kept + self.records[count:]


@pytest.mark.scenario(28)
@given(
    steps=st.lists(st.tuples(GENERATIONS, st.sampled_from(["lane", "open lane", "floor"]), st.integers(0, 99))),
    share=st.floats(0, 1),
    keeps_tombstones=st.booleans(),
)
def test_a_zombie_outranks_nobody_however_the_ledger_is_compacted(
    steps: list[tuple[int, str, int]], share: float, keeps_tombstones: bool
) -> None:
    """Kept promise: of all that generations write in any order only the newest counts, also after compaction.

    Whoever comes as the highest so far erases what it knows of the others, who may write on all the same.
    """
    log, told, floors = Writes(), dict[int, LaneRecord](), dict[int, int]()
    writer = ledger.LedgerWriter(log)
    for generation, what, position in steps:
        if what == "floor":
            writer.write(ledger.floor_key(LANE), generation, LaneRecord(position))
            floors[generation] = position
            continue
        is_successor = generation > max(told, default=0)
        record = LaneRecord(position, is_open=what == "open lane")
        writer.write(LANE, generation, record)
        if is_successor:
            writer.erase(LANE, told)
            writer.erase(ledger.floor_key(LANE), [each for each in floors if each < generation])
        told[generation] = record
    known = Ledger()
    for key, value in log.compacted(round(share * len(log.records)), keeps_tombstones):
        known.take(key, value)
    entry = known.entry(LANE)
    if not told:
        assert entry is None
        return
    newest = max(told)
    floor = 0 if told[newest].is_open else floors.get(newest, 0)
    assert entry is not None
    assert (entry.generation, entry.record.position) == (newest, max(told[newest].position, floor))


def test_an_erased_generation_is_gone_and_the_rest_stays(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: clearing up after a predecessor removes its record and no other."""
    writer = ledger.LedgerWriter(kafka.producer())
    writer.write(lane, 3, LaneRecord(1))
    writer.write(lane, 5, LaneRecord(2))
    writer.erase(lane, [3])
    writer.flush("a test")
    known = ledger.read_ledger(kafka)
    assert known.generations(lane) == [5]


def test_forgetting_a_subscription_removes_all_its_lanes(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: a trigger made anew does not begin where its namesake ended."""
    ledger.StartPositions(kafka).write(lane.subscription_uid, "orders", lane.topic_id, {0: 7, 1: 9})
    ledger.StartPositions(kafka).forget(lane.subscription_uid)
    assert ledger.read_ledger(kafka).entry(lane) is None


@pytest.mark.scenario(24)
def test_a_topic_made_anew_does_not_use_the_old_position(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: positions belong to a topic's id, not to its name."""
    ledger.StartPositions(kafka).write(lane.subscription_uid, "orders", lane.topic_id, {0: 7})
    assert ledger.read_ledger(kafka).entry(lane._replace(topic_id="another")) is None


@pytest.mark.scenario(29)
def test_an_unknown_format_is_refused() -> None:
    """Kept promise: a ledger written by a newer version stops the start instead of being misread."""
    with pytest.raises(Misconfigured, match="format 99"):
        Ledger().take(ledger.encode_key(LaneKey("u", "t", 0), 1), b'{"position":1,"format":99}')


def test_a_later_query_outranks_an_earlier_one_that_claims_last(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: a worker of an old query that wakes up late does not win the partition back."""
    producer, topic_id = kafka.producer(), str(uuid.uuid4())
    old, new = (claims.next_query_number(producer, topic_id) for _ in range(2))
    newer = claims.claim(producer, topic_id, 0, new)
    older = claims.claim(producer, topic_id, 0, old)
    watch = claims.Watch(kafka, LedgerPart(Ledger(), 0))
    watch.read_to_end(60.0)
    assert watch.holder(topic_id, 0) == newer > older
    assert watch.holder(topic_id, 1) == 0
    watch.close()


def test_the_closing_word_lets_the_successor_begin(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: a successor sees whether its predecessor is still at work."""
    producer, topic_id = kafka.producer(), str(uuid.uuid4())
    first = claims.claim(producer, topic_id, 0, claims.next_query_number(producer, topic_id))
    second = claims.claim(producer, topic_id, 0, claims.next_query_number(producer, topic_id))
    watch = claims.Watch(kafka, LedgerPart(Ledger(), 0))
    watch.read_to_end(60.0)
    assert watch.has_unclosed(topic_id, 0, below=second)
    claims.close(producer, topic_id, 0, first)
    watch.read_to_end(60.0)
    assert not watch.has_unclosed(topic_id, 0, below=second)
    watch.close()


def test_a_release_fences_old_workers_but_not_the_next_query(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: letting go of the old query can never stop the new one."""
    producer, topic_id = kafka.producer(), str(uuid.uuid4())
    old = claims.claim(producer, topic_id, 0, claims.next_query_number(producer, topic_id))
    release = claims.next_query_number(producer, topic_id)
    new = claims.claim(producer, topic_id, 0, claims.next_query_number(producer, topic_id))
    claims.release(producer, topic_id, 0, release)
    watch = claims.Watch(kafka, LedgerPart(Ledger(), 0))
    watch.read_to_end(60.0)
    assert watch.holder(topic_id, 0) == new
    assert watch.has_unclosed(topic_id, 0, below=release << claims.QUERY_SHIFT)
    assert old < release << claims.QUERY_SHIFT < new
    watch.close()


def test_a_record_that_kafka_refuses_is_not_taken_for_written(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: nobody goes on as if the ledger held what it does not."""
    writer = ledger.LedgerWriter(kafka.producer(**{"message.timeout.ms": 1, "bootstrap.servers": "127.0.0.1:1"}))
    writer.write(lane, 5, LaneRecord(2))
    with pytest.raises(Unavailable, match="a test could not be written"):
        writer.flush("a test", 5.0)


def test_nobody_waits_for_a_worker_that_was_fenced_before_it_claimed(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: a worker whose first row comes after its query was replaced delivers nothing."""
    producer, topic_id = kafka.producer(), str(uuid.uuid4())
    old, release, new = (claims.next_query_number(producer, topic_id) for _ in range(3))
    claims.release(producer, topic_id, 0, release)
    late = claims.claim(producer, topic_id, 0, old)
    successor = claims.claim(producer, topic_id, 0, new)
    watch = claims.Watch(kafka, LedgerPart(Ledger(), 0))
    watch.read_to_end(60.0)
    assert late < successor == watch.holder(topic_id, 0)
    assert not watch.has_unclosed(topic_id, 0, successor)
    watch.close()


def test_a_closing_word_covers_those_who_died_before(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: a worker that was killed is waited for once, not at every later change."""
    producer, topic_id = kafka.producer(), str(uuid.uuid4())
    number = claims.next_query_number(producer, topic_id)
    killed = claims.claim(producer, topic_id, 0, number)
    successor = claims.claim(producer, topic_id, 0, claims.next_query_number(producer, topic_id))
    watch = claims.Watch(kafka, LedgerPart(Ledger(), 0))
    watch.read_to_end(60.0)
    assert watch.has_unclosed(topic_id, 0, successor)
    claims.close(producer, topic_id, 0, successor)
    watch.read_to_end(60.0)
    assert killed < successor
    assert not watch.has_unclosed(topic_id, 0, successor + 1)
    watch.close()


JUNK_KEYS = [
    b"",
    b"junk",
    b"\xff\xfe",
    b"a/b/c",
    b"uid/topic/x/1",
    b"uid/topic/1/-1",
    b"u/t/\xd9\xa1/1",
    b"9" * 70_000,
]
JUNK_VALUES = [
    b"",
    b"junk",
    b"\xff\xfe\x00",
    b"null",
    b"[]",
    b"{}",
    b'{"position":"five"}',
    b'{"position":-1}',
    b'{"position":1,"beyond":"0xff"}',
    b'{"position":1,"format":0}',
    b'{"position":1,"deep":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b"x" * 900_000,
]


@pytest.mark.parametrize("key", JUNK_KEYS, ids=lambda key: repr(key[:20]))
def test_a_key_of_the_ledger_that_is_not_ours_is_skipped(key: bytes) -> None:
    """Kept promise: a record with an invalid key is reported, and stops nothing."""
    with pytest.raises(UnreadableRecord):
        Ledger().take(key, b'{"position":5}')


@pytest.mark.parametrize("value", JUNK_VALUES, ids=lambda value: repr(value[:20]))
def test_a_record_of_a_lane_that_cannot_be_read_leaves_what_was_known_in_force(value: bytes) -> None:
    """Kept promise: the lane goes on from its last good record."""
    known = Ledger()
    known.put(LANE, 1, LaneRecord(3))
    known.put(LANE, 2, LaneRecord(7))
    with pytest.raises(UnreadableRecord):
        known.take(ledger.encode_key(LANE, 2), value)
    assert known.entry(LANE) == (2, LaneRecord(7))


def test_junk_in_the_ledger_stops_nobody_and_is_counted_once(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: what cannot be read is skipped and counted once, however often the ledger is read; a lane of
    which nothing else is known starts from its beginning."""
    other = lane._replace(partition=1)
    writer, producer = ledger.LedgerWriter(kafka.producer()), kafka.producer()
    writer.write(lane, 2, LaneRecord(7))
    writer.flush("a test")
    for value in JUNK_VALUES:
        for each in (lane, other):
            producer.produce(LEDGER_TOPIC, key=ledger.encode_key(each, 2), value=value, partition=0)
    for key in JUNK_KEYS:
        producer.produce(LEDGER_TOPIC, key=key, value=b"junk", partition=0)
    assert producer.flush(60) == 0
    followed = ledger.FollowedLedger(kafka)
    followed.read_to_end()
    assert followed.entry(lane) == (2, LaneRecord(7))
    assert followed.entry(other) is None
    count = followed.unreadable.counts()[LEDGER_TOPIC]
    assert count >= 2 * len(JUNK_VALUES) + len(JUNK_KEYS)
    assert LEDGER_TOPIC in followed.unreadable.summary()
    writer.write(other, 3, LaneRecord(1))
    writer.flush("a test")
    followed.read_to_end()
    assert followed.entry(other) == (3, LaneRecord(1))
    followed.close()
    followed.read_to_end()
    assert followed.unreadable.counts()[LEDGER_TOPIC] == count
    followed.close()


@pytest.mark.scenario(29)
@pytest.mark.parametrize("value", [b'{"format":2,"position":1,"beyond":"AAEC"}', b'{"format":2,"at":1}'])
def test_what_a_newer_version_wrote_is_refused_whatever_its_shape(value: bytes) -> None:
    """Kept promise: finished ranges in an encoding of a newer version are never skipped as invalid."""
    with pytest.raises(Misconfigured, match="format 2"):
        Ledger().take(ledger.encode_key(LANE, 1), value)


@pytest.mark.parametrize("key", [None, b"", b"\xff", b"junk"], ids=repr)
@pytest.mark.parametrize(
    "value", [b"", b"junk", b"\xff\xfe", b"[]", b"7", b'{"query":"x"}', b'{"query":-1}', b'{"closed":1.5}'], ids=repr
)
def test_a_claim_that_cannot_be_read_is_skipped(key: bytes | None, value: bytes) -> None:
    """Kept promise: invalid records among the claims are reported, and stop nothing."""
    with pytest.raises(UnreadableRecord):
        claims.decode_claim(key, value)


def test_junk_among_the_claims_hides_no_claim(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: the holder of a partition is known despite invalid records before and after its claim."""
    producer, topic_id = kafka.producer(), str(uuid.uuid4())
    junk = [
        (b"junk", b"junk"),
        (b"\xff", b"\xff"),
        (f"{topic_id}/0".encode(), b"{"),
        (f"{topic_id}/0".encode(), b"7"),
    ]

    def write_junk() -> None:
        for key, value in junk:
            producer.produce(CLAIMS_TOPIC, key=key, value=value, partition=0)
        assert producer.flush(60) == 0

    write_junk()
    generation = claims.claim(producer, topic_id, 0, claims.next_query_number(producer, topic_id))
    write_junk()
    unreadable = Unreadable()
    watch = claims.Watch(kafka, LedgerPart(Ledger(), 0), unreadable)
    watch.read_to_end(60.0)
    assert watch.holder(topic_id, 0) == generation
    assert unreadable.counts()[CLAIMS_TOPIC] >= 8
    watch.close()


def test_a_ledger_that_ends_in_a_transaction_can_be_read(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: offsets without records at the end of the ledger or the claims make no reader wait."""
    producer = kafka.producer(**{"transactional.id": str(uuid.uuid4())})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(LEDGER_TOPIC, key=ledger.encode_key(lane, 1), value=b'{"position":5}', partition=0)
    producer.produce(CLAIMS_TOPIC, key=b"junk", value=b"junk", partition=0)
    producer.commit_transaction(20)
    followed = ledger.FollowedLedger(kafka)

    def has_read() -> bool:
        followed.read_to_end(60.0)
        return followed.entry(lane) == (1, LaneRecord(5))

    until(has_read, "the broker has ended the transaction")  # it answers a moment before
    followed.close()
    watch = claims.Watch(kafka, LedgerPart(Ledger(), 0))
    watch.read_to_end(60.0)
    watch.read_to_end(60.0)
    assert watch.ledger.entry(lane) == (1, LaneRecord(5))
    watch.close()


def test_no_impossible_claim_fences_the_real_ones(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: a record for a query whose number was not drawn yet is skipped and counted, whatever it says."""
    producer, topic_id = kafka.producer(), str(uuid.uuid4())
    first = claims.claim(producer, topic_id, 0, claims.next_query_number(producer, topic_id))
    impossible = [
        (f"{topic_id}/0", b'{"query":999999999}'),
        (f"{topic_id}/0", b'{"query":999999999,"is_release":true}'),
        (f"{topic_id}/0/closed", b'{"closed":9000000000000000000}'),
        (f"{topic_id}/0/closed", b'{"closed":100000000000000000000}'),
        (f"{topic_id}/up/0", b'{"up":999999999}'),
        (f"{topic_id}/0/lane/uid", b'{"query":999999999,"stopped":"uid"}'),
    ]
    for key, value in impossible:
        producer.produce(CLAIMS_TOPIC, key=key.encode(), value=value, partition=0)
    assert producer.flush(20) == 0
    unreadable = Unreadable()
    watch = claims.Watch(kafka, LedgerPart(Ledger(), 0), unreadable)
    watch.read_to_end(60.0)
    assert watch.holder(topic_id, 0) == first
    assert watch.has_unclosed(topic_id, 0, below=first + 1)
    assert not watch.is_up(topic_id, 1, 999999999)
    assert watch.stopped(topic_id, 0) == {}
    assert unreadable.counts()[CLAIMS_TOPIC] >= len(impossible)
    second = claims.claim(producer, topic_id, 0, claims.next_query_number(producer, topic_id))
    watch.read_to_end(60.0)
    assert watch.holder(topic_id, 0) == second > first
    watch.close()


def test_a_number_that_was_just_drawn_is_possible(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: the claim right behind the record that drew its number is real, the next higher number is not."""
    for offset in (0, 41):
        claims.check_drawn("key", claims.Claim(query=offset + 1), offset + 1)
        with pytest.raises(UnreadableRecord, match="no number beyond"):
            claims.check_drawn("key", claims.Claim(query=offset + 2), offset + 1)


def test_a_worker_sees_its_own_claim_after_the_claims_topic_was_created_again(
    kafka: KafkaConnection, lane: LaneKey
) -> None:
    """Kept promise: the number of a query that runs stays valid when offsets begin anew."""
    producer, topic_id = kafka.producer(), str(uuid.uuid4())
    drawn_before = 900_000_000
    generation = claims.claim(producer, topic_id, 0, drawn_before)
    watch = claims.Watch(kafka, drawn=drawn_before)
    watch.read_to_end(60.0)
    assert watch.holder(topic_id, 0) == generation
    watch.close()


IMPOSSIBLE = 2**62  # a generation far beyond every query


def test_a_ledger_record_of_a_query_that_was_never_drawn_is_skipped(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: it hides no real record, also none of a later query, for whoever reads the whole ledger."""
    producer = kafka.producer()
    writer = ledger.LedgerWriter(producer)
    first = claims.next_query_number(producer, lane.topic_id) << claims.QUERY_SHIFT
    writer.write(lane, first, LaneRecord(7))
    writer.write(lane, IMPOSSIBLE, LaneRecord(10**12))
    writer.write(ledger.floor_key(lane), IMPOSSIBLE, LaneRecord(10**12))
    producer.produce(
        LEDGER_TOPIC, key=ledger.encode_key(lane, IMPOSSIBLE + 1), value=b'{"position":1,"format":99}', partition=0
    )
    writer.flush("a test")
    followed = ledger.FollowedLedger(kafka)
    followed.read_to_end()
    assert followed.entry(lane) == (first, LaneRecord(7))
    assert followed.generation([lane]) == first
    assert followed.unreadable.counts()[LEDGER_TOPIC] >= 3
    later = claims.next_query_number(producer, lane.topic_id) << claims.QUERY_SHIFT
    writer.write(lane, later, LaneRecord(9))
    writer.flush("a test")

    def counts() -> bool:
        followed.poll()
        return followed.entry(lane) == (later, LaneRecord(9))

    until(counts, "the later record counts")
    followed.close()


def test_a_worker_skips_ledger_records_of_queries_that_were_never_drawn(
    kafka: KafkaConnection, lane: LaneKey
) -> None:
    """Kept promise: a worker that follows the ledger continues each lane from a real record."""
    producer = kafka.producer()
    writer = ledger.LedgerWriter(producer)
    watch = claims.Watch(kafka, LedgerPart(Ledger(), 0))
    writer.write(lane, IMPOSSIBLE, LaneRecord(10**12))
    first = claims.next_query_number(producer, lane.topic_id) << claims.QUERY_SHIFT
    writer.write(lane, first, LaneRecord(7))
    writer.flush("a test")
    watch.read_to_end(60.0)
    assert watch.ledger.entry(lane) == (first, LaneRecord(7))
    later = claims.next_query_number(producer, lane.topic_id) << claims.QUERY_SHIFT
    writer.write(lane, later, LaneRecord(9))
    writer.flush("a test")
    watch.read_to_end(60.0)
    assert watch.ledger.entry(lane) == (later, LaneRecord(9))
    watch.close()


def test_the_ledger_is_not_read_past_what_cannot_be_judged(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: while the end of the claims is not known, no record of a new query is skipped."""
    producer = kafka.producer()
    writer = ledger.LedgerWriter(producer)
    generation = claims.next_query_number(producer, lane.topic_id) << claims.QUERY_SHIFT
    writer.write(lane, generation, LaneRecord(7))
    writer.flush("a test")
    followed = ledger.FollowedLedger(kafka)
    followed._claims_ends = NoEnds(kafka)
    with pytest.raises(Unavailable):
        followed.read_to_end(1.0)
    assert followed.entry(lane) is None
    followed._claims_ends = None
    followed.read_to_end()
    assert followed.entry(lane) == (generation, LaneRecord(7))
    followed.close()


def test_an_open_transaction_among_the_claims_hides_no_lane(kafka: KafkaConnection, lane: LaneKey) -> None:
    """Kept promise: a number that was drawn behind a transaction without end counts as drawn."""
    stranger, producer = kafka.producer(**{"transactional.id": str(uuid.uuid4())}), kafka.producer()
    stranger.init_transactions(20)
    stranger.begin_transaction()
    stranger.produce(CLAIMS_TOPIC, key=b"junk", value=b"junk", partition=0)
    assert stranger.flush(20) == 0
    writer = ledger.LedgerWriter(producer)
    generation = claims.next_query_number(producer, lane.topic_id) << claims.QUERY_SHIFT
    writer.write(lane, generation, LaneRecord(7))
    writer.flush("a test")
    try:
        assert ledger.read_ledger(kafka).entry(lane) == (generation, LaneRecord(7))
    finally:
        stranger.abort_transaction(20)


class NoEnds(Ends):
    """A Kafka that does not answer for the claims."""

    def of(self, topic: str) -> int:
        raise Unavailable(f"the end of topic {topic} cannot be read")
