"""Promises of reading stretches, with a real Kafka: all of their records and nothing else, whatever is missing."""

import pytest
from confluent_kafka import TopicPartition
from tests.waiting import until

from penstock.errors import Unavailable
from penstock.kafka import stretches
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.stretches import Stretch, read_stretches
from penstock.kafka.topics import TopicSpec, create_missing


def fill(kafka: KafkaConnection, topic: str, partitions: int, records: int, **settings: str) -> None:
    create_missing(kafka.admin(), [TopicSpec(topic, partitions)])
    producer = kafka.producer(**settings)
    if settings:
        producer.init_transactions()
        producer.begin_transaction()
    for number in range(records):
        for partition in range(partitions):
            producer.produce(topic, b"%d" % number, partition=partition)
    if settings:
        producer.commit_transaction()
    assert producer.flush(20) == 0


def read(kafka: KafkaConnection, *wanted: Stretch) -> list[tuple[int, int]]:
    return sorted((each.partition(), each.offset()) for some in read_stretches(kafka, wanted) for each in some)


def test_a_stretch_has_its_records_and_no_other(kafka: KafkaConnection) -> None:
    """Kept promise: from its first offset up to its end, though the partition goes on; also of several partitions."""
    fill(kafka, "stretches", 2, 3000)
    assert read(kafka, Stretch("stretches", 0, 1000, 2500)) == [(0, offset) for offset in range(1000, 2500)]
    both = read(kafka, Stretch("stretches", 0, 2999, 3000), Stretch("stretches", 1, 0, 2))
    assert both == [(0, 2999), (1, 0), (1, 1)]


def test_what_stands_at_the_end_of_a_transaction_is_no_record(kafka: KafkaConnection) -> None:
    """Kept promise: a stretch ends also where its last offset is one that nobody gets to see."""
    fill(kafka, "transacted", 1, 5, **{"transactional.id": "stretches"})
    consumer = kafka.consumer()
    place = TopicPartition("transacted", 0)
    until(lambda: consumer.get_watermark_offsets(place, timeout=10) == (0, 6), "the end of the transaction")
    assert read(kafka, Stretch("transacted", 0, 0, 6)) == [(0, offset) for offset in range(5)]
    consumer.close()


def test_what_retention_took_is_left_out(kafka: KafkaConnection) -> None:
    fill(kafka, "cut", 1, 100)
    admin = kafka.admin()
    [deleted] = admin.delete_records([TopicPartition("cut", 0, 60)]).values()
    deleted.result(timeout=20)
    assert read(kafka, Stretch("cut", 0, 0, 100)) == [(0, offset) for offset in range(60, 100)]
    assert read(kafka, Stretch("cut", 0, 0, 50)) == []


def test_a_kafka_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "SILENT_SECONDS", 0.5)
    with pytest.raises(Unavailable, match=r"nothing was read from .*127\.0\.0\.1:1 "):
        read(KafkaConnection("127.0.0.1:1"), Stretch("stretches", 0, 0, 1))
