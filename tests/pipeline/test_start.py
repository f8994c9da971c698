"""Where a query begins, on a real Kafka: never beyond the end of the log, never ignoring a reset."""

import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.contract.model import CLAIMS_TOPIC, LEDGER_TOPIC, Subscription
from penstock.kafka import ledger, topics
from penstock.kafka.clients import Clients
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.group_image import MARK
from penstock.kafka.groups import Groups
from penstock.kafka.ledger import LaneKey, LaneRecord
from penstock.pipeline.start import Wanted, find_beginning, lost_ranges


@pytest.fixture
def subscription(kafka: KafkaConnection) -> Subscription:
    """A subscription to a topic of one partition with ten records, standing at offset 4."""
    name = f"start-{uuid.uuid4()}"
    core = [topics.TopicSpec(topic, config=topics.COMPACTED) for topic in (LEDGER_TOPIC, CLAIMS_TOPIC)]
    topics.create_missing(kafka.admin(), [topics.TopicSpec(name), *core])
    producer = kafka.producer()
    for n in range(10):
        producer.produce(name, str(n), partition=0)
    producer.flush(10)
    made = Subscription(name, "Trigger", "default", name, name, f"group-of-{name}", "http://localhost/")
    ledger.StartPositions(kafka).write(made.uid, name, topic_id(kafka, made), {0: 4})
    return made


def topic_id(kafka: KafkaConnection, subscription: Subscription) -> str:
    return topics.describe(kafka.admin(), [subscription.topic])[subscription.topic].topic_id


def position(kafka: KafkaConnection, subscription: Subscription) -> int:
    entry = ledger.read_ledger(kafka).entry(LaneKey(subscription.uid, topic_id(kafka, subscription), 0))
    assert entry is not None
    return entry.record.position


def delete_below(kafka: KafkaConnection, subscription: Subscription, offset: int) -> None:
    """What retention does when its time has come."""
    admin = kafka.admin()
    [deleted] = admin.delete_records([TopicPartition(subscription.topic, 0, offset)]).values()
    deleted.result(timeout=15)


def test_it_begins_where_the_ledger_says(kafka: KafkaConnection, subscription: Subscription) -> None:
    assert find_beginning(
        Clients(kafka), ledger.FollowedLedger(kafka), Wanted(subscription.topic, [subscription])
    ).offsets == {0: 4}


def test_a_lane_beyond_the_end_of_the_log_comes_back(kafka: KafkaConnection, subscription: Subscription) -> None:
    """Kept promise: after Kafka lost records, what is acknowledged from then on is delivered."""
    writer = ledger.LedgerWriter(kafka.producer())
    writer.write(LaneKey(subscription.uid, topic_id(kafka, subscription), 0), 1, LaneRecord(1000, ((1001, 1005),)))
    writer.flush("a test")
    assert find_beginning(
        Clients(kafka), ledger.FollowedLedger(kafka), Wanted(subscription.topic, [subscription])
    ).offsets == {0: 10}
    assert position(kafka, subscription) == 10


@pytest.mark.scenario(27)
def test_a_reset_from_outside_is_obeyed_once(kafka: KafkaConnection, subscription: Subscription) -> None:
    """Kept promise: offsets set with any Kafka tool move the trigger, and our own commits do not."""
    groups = Groups(kafka)
    groups.commit(subscription.group, subscription.topic, {0: 2}, "")
    assert find_beginning(
        Clients(kafka), ledger.FollowedLedger(kafka), Wanted(subscription.topic, [subscription])
    ).offsets == {0: 2}
    assert position(kafka, subscription) == 2
    assert groups.offsets([subscription.group])[subscription.group][subscription.topic, 0] == (2, MARK)
    groups.commit(subscription.group, subscription.topic, {0: 9}, MARK)
    assert find_beginning(
        Clients(kafka), ledger.FollowedLedger(kafka), Wanted(subscription.topic, [subscription])
    ).offsets == {0: 2}
    groups.close()


def test_a_consumer_in_the_group_of_a_trigger_stops_nothing(
    kafka: KafkaConnection, subscription: Subscription
) -> None:
    """Kept promise: somebody else's commits in our group are refused, and the trigger goes on from the ledger."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": subscription.group}
    member = Consumer({**config, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    member.subscribe([subscription.topic])
    try:
        message = member.poll(30.0)
        assert message is not None
        member.commit(message, asynchronous=False)
        assert find_beginning(
            Clients(kafka), ledger.FollowedLedger(kafka), Wanted(subscription.topic, [subscription])
        ).offsets == {0: 4}
    finally:
        member.close()


@pytest.mark.scenario(23)
@pytest.mark.parametrize("earliest", [5, 7, 10])
def test_what_retention_took_is_reported_exactly(
    kafka: KafkaConnection, subscription: Subscription, earliest: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Kept promise: a lane that stood still for too long is told what it lost, and begins with what is left."""
    delete_below(kafka, subscription, earliest)
    beginning = find_beginning(
        Clients(kafka), ledger.FollowedLedger(kafka), Wanted(subscription.topic, [subscription])
    )
    assert (beginning.offsets, beginning.ends) == ({0: earliest}, {0: 10})
    assert [each for each in caplog.messages if each.startswith("lost: ")] == [
        f"lost: {subscription.topic}/0 offsets 4 to {earliest - 1} were deleted by retention "
        f"before they were delivered to trigger {subscription.namespace}/{subscription.name}"
    ]


@pytest.mark.scenario(23)
def test_what_was_delivered_before_retention_took_it_is_not_lost(
    kafka: KafkaConnection, subscription: Subscription, caplog: pytest.LogCaptureFixture
) -> None:
    """Kept promise: nobody is alarmed when Kafka deletes what has arrived."""
    delete_below(kafka, subscription, 4)
    assert find_beginning(
        Clients(kafka), ledger.FollowedLedger(kafka), Wanted(subscription.topic, [subscription])
    ).offsets == {0: 4}
    assert not [each for each in caplog.messages if each.startswith("lost: ")]


@pytest.mark.scenario(23)
def test_the_very_first_events_are_reported_too(
    kafka: KafkaConnection, subscription: Subscription, caplog: pytest.LogCaptureFixture
) -> None:
    """Kept promise: a lane that has not delivered anything yet is told as well."""
    writer = ledger.LedgerWriter(kafka.producer())
    writer.write(LaneKey(subscription.uid, topic_id(kafka, subscription), 0), 1, LaneRecord(0))
    writer.flush("a test")
    delete_below(kafka, subscription, 7)
    find_beginning(Clients(kafka), ledger.FollowedLedger(kafka), Wanted(subscription.topic, [subscription]))
    assert [each for each in caplog.messages if "/0 offsets 0 to 6 were deleted" in each]


@pytest.mark.scenario(23)
def test_what_was_finished_beyond_a_gap_is_not_lost() -> None:
    """Kept promise: of an unordered lane only the gaps are named."""
    record = LaneRecord(3, ((5, 6), (9, 9)))
    assert lost_ranges(record, 12) == [(3, 4), (7, 8), (10, 11)]
    assert lost_ranges(record, 8) == [(3, 4), (7, 7)]
    assert lost_ranges(record, 3) == []
