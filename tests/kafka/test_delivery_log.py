"""Promises of the reader of the log of deliveries: an event's attempts, and how far back the log reaches."""

import time
from collections.abc import Sequence

import pytest

from penstock.contract.telemetry import DELIVERED, DELIVERIES_TOPIC, RETRIED, DeliveryLog, LoggedAttempt, encode_log
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.delivery_log import Logged, Patience, Place, Tried, read_log
from penstock.kafka.topics import LOGGED, TopicSpec, create_missing


def write(kafka: KafkaConnection, *logs: DeliveryLog) -> None:
    create_missing(kafka.admin(), [TopicSpec(DELIVERIES_TOPIC, 1, 1, LOGGED)])
    producer = kafka.producer()
    for log in logs:
        producer.produce(DELIVERIES_TOPIC, encode_log(log), f"{log.topic}/{log.partition}".encode())
    assert producer.flush(20) == 0


def read(kafka: KafkaConnection, place: Place, since: float, *, wanted: Sequence[str] = ()) -> Logged:
    def is_enough(attempts: Sequence[Tried]) -> bool:
        return bool(wanted) and {each.uid for each in attempts if each.ended == DELIVERED} >= set(wanted)

    return read_log(kafka, place, since, Patience(is_enough, lambda _: False))


@pytest.fixture(scope="module")
def began(kafka: KafkaConnection) -> float:
    now = time.time()
    base = int(now * 1000)
    later = [LoggedAttempt(1, 7, 0, 9, 200), LoggedAttempt(0, 8, 1, 1, 200)]
    write(
        kafka,
        DeliveryLog("logged", 0, base, ("a", "b"), [LoggedAttempt(0, 7, 5, 20, 500, RETRIED, 1, "answered 500")]),
        DeliveryLog("logged", 1, base, ("a", "b"), [LoggedAttempt(0, 7, 5, 20, 200)]),
        DeliveryLog("other", 0, base, ("a", "b"), [LoggedAttempt(0, 7, 5, 20, 200)]),
        DeliveryLog("logged", 0, base + 900, ("b", "a"), later, 3),
    )
    return now


def test_the_attempts_of_one_event(kafka: KafkaConnection, began: float) -> None:
    """Kept promise: those of its topic, partition and offset, in order, with the time at which each began."""
    logged = read(kafka, Place("logged", 0, 7), began)
    assert [(each.uid, each.status, each.why) for each in logged.attempts] == [
        ("a", 500, "answered 500"),
        ("a", 200, ""),
    ]
    gap = logged.attempts[1].began - logged.attempts[0].began
    assert gap == pytest.approx(0.895)
    assert (logged.reaches_back, logged.is_read, logged.skipped) == (True, True, 3)


def test_who_knows_enough_stops_reading(kafka: KafkaConnection, began: float) -> None:
    """Kept promise: the rest of a long log is not read when everybody has a last word."""
    logged = read(kafka, Place("logged", 1, 7), began, wanted=("a",))
    assert [each.status for each in logged.attempts] == [200]


def test_an_event_that_nobody_has_tried(kafka: KafkaConnection, began: float) -> None:
    """Kept promise: no attempt is no attempt, and the reading ends."""
    logged = read(kafka, Place("logged", 0, 99), began)
    assert (logged.attempts, logged.is_read) == ([], True)
