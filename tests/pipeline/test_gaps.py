"""Promises about offsets for which no row came: those of transactions are counted, lost ones are reported."""

import uuid

import pytest
from confluent_kafka import TopicPartition

from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ends import first_offset
from penstock.pipeline import gaps
from penstock.pipeline.gaps import Gaps


@pytest.fixture
def lost() -> list[tuple[int, int]]:
    return []


def noted(lost: list[tuple[int, int]], first: int) -> Gaps:
    return Gaps(lambda: first, lambda begin, end: lost.append((begin, end)))


def test_what_retention_took_is_reported_exactly(lost: list[tuple[int, int]]) -> None:
    """Kept promise: a range that Kafka had deleted before it was read is reported, and gaps after it are not."""
    found = noted(lost, first=100)
    found.note(10, 99)
    found.note(120, 120)
    found.look(at_once=True)
    assert lost == [(10, 99)]
    assert found.count == 2


def test_gaps_of_transactions_are_only_counted(lost: list[tuple[int, int]], caplog: pytest.LogCaptureFixture) -> None:
    """Kept promise: sixty transactions leave sixty gaps, and not one line in the log."""
    found = noted(lost, first=0)
    for offset in range(1, 121, 2):
        found.note(offset, offset)
    found.look(at_once=True)
    assert (found.count, lost, caplog.messages) == (60, [], [])


def test_kafka_is_asked_only_now_and_then(lost: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: however many gaps there are, they cost a request every few seconds and little memory."""
    monkeypatch.setattr(gaps, "MOST_RANGES", 5)
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        return 0

    found = Gaps(ask, lambda begin, end: lost.append((begin, end)))
    for offset in range(100):
        found.note(offset, offset)
        found.look()
    found.look(at_once=True)
    assert len(asked) <= 2
    assert found.count == 100


def test_while_kafka_does_not_answer_the_worker_goes_on(lost: list[tuple[int, int]]) -> None:
    """Kept promise: no loss is reported if Kafka does not answer, and nothing fails."""

    def ask() -> int:
        raise TimeoutError

    found = Gaps(ask, lambda begin, end: lost.append((begin, end)))
    found.note(1, 2)
    found.look(at_once=True)
    assert lost == []


def test_the_first_offset_is_that_of_the_partition(kafka: KafkaConnection) -> None:
    """Kept promise: a loss is found by the first offset that Kafka still has."""
    topic = f"topic-{uuid.uuid4()}"
    admin = kafka.admin()
    topics.create_missing(admin, [topics.TopicSpec(topic, partitions=2)])
    producer = kafka.producer()
    for _ in range(5):
        producer.produce(topic, b"x", partition=1)
    assert producer.flush(20) == 0
    [deleted] = admin.delete_records([TopicPartition(topic, 1, 3)]).values()
    deleted.result(20)
    assert [first_offset(kafka, topic, partition) for partition in (0, 1)] == [0, 3]
