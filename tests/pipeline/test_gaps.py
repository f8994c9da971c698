"""Promises about offsets for which no row came: those of transactions are counted, lost ones are reported."""

import threading
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ends import first_offset
from penstock.pipeline import gaps
from penstock.pipeline.gaps import Gaps

PATIENCE_SECONDS = 60.0


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


def test_a_loss_is_reported_when_kafka_answers_again(
    lost: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: a range is kept for the next look if Kafka does not answer, for a limited number of looks."""
    monkeypatch.setattr(gaps, "LAST_SECONDS", PATIENCE_SECONDS)
    answers: list[int] = []

    def ask() -> int:
        if not answers:
            raise TimeoutError
        return answers.pop()

    found = Gaps(ask, lambda begin, end: lost.append((begin, end)))
    found.note(10, 99)
    found.look(at_once=True)
    found.note(120, 120)
    answers.append(100)
    found.look(at_once=True)
    assert lost == [(10, 99)]
    found.note(200, 299)
    for _ in range(gaps.MOST_FAILURES):
        found.look(at_once=True)
    answers.append(300)
    found.look(at_once=True)
    assert lost == [(10, 99)]


def test_a_look_without_an_answer_keeps_few_ranges(
    lost: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: while Kafka does not answer, gaps take little memory."""
    monkeypatch.setattr(gaps, "LAST_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(gaps, "MOST_RANGES", 5)
    answers = [100]

    def ask() -> int:
        if found.count < 40:
            raise TimeoutError
        return answers.pop()

    found = Gaps(ask, lambda begin, end: lost.append((begin, end)))
    for offset in range(40):
        found.note(offset, offset)
        if offset % 10 == 0:
            found.look(at_once=True)
    found.look(at_once=True)
    assert len(lost) == 5


def test_a_worker_that_ends_waits_for_the_look_under_way(
    lost: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: the last ranges of a worker are reported, also if a look is under way when it ends."""
    monkeypatch.setattr(gaps, "LAST_SECONDS", PATIENCE_SECONDS)
    found = noted(lost, first=100)
    waited: list[float] = []
    look: Any = SimpleNamespace(is_alive=lambda: not waited, join=waited.append)  # ends when somebody waits for it
    found._thread = look
    found.note(10, 99)
    found.look()
    assert lost == []
    found.look(at_once=True)
    assert lost == [(10, 99)]
    assert 0 < waited[0] <= PATIENCE_SECONDS


def test_a_worker_that_ends_waits_for_a_limited_time(
    lost: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: a Kafka that never answers does not keep a worker from ending."""
    monkeypatch.setattr(gaps, "LAST_SECONDS", 0.05)
    answered = threading.Event()

    def ask() -> int:
        answered.wait()
        return 0

    found = Gaps(ask, lambda begin, end: lost.append((begin, end)))
    for offset in (1, 2):  # the second time, a look is under way
        found.note(offset, offset)
        found.look(at_once=True)
    answered.set()
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
