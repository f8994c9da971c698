"""Promises of the reader of the log of deliveries: an event's attempts, and how far back the log reaches."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import pytest

from penstock.contract.telemetry import (
    DELIVERED,
    DELIVERIES_TOPIC,
    OFFSETS,
    RETRIED,
    SECONDS,
    SHORT_SECONDS,
    STATUSES,
    DeliveryLog,
    LaneLog,
    Odd,
    encode_log,
    packed,
)
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.delivery_log import Logged, Patience, Place, Tried, read_log
from penstock.kafka.topics import LOGGED, TopicSpec, create_missing


class Line(NamedTuple):
    offset: int
    began: float
    took: float
    status: int


def of_lane(uid: str, *lines: Line) -> LaneLog:
    offsets, began, took, statuses = zip(*lines, strict=True)
    return LaneLog(
        uid, packed(OFFSETS, offsets), packed(SECONDS, began), packed(SHORT_SECONDS, took), packed(STATUSES, statuses)
    )


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
    once = Line(7, now + 0.005, 0.02, 200)
    failed = of_lane("a", Line(6, now, 0.02, 200), Line(7, now + 0.005, 0.02, 500))
    failed = msgspec.structs.replace(failed, odd={1: Odd(RETRIED, 1, "answered 500")})
    later = [of_lane("b", Line(8, now + 0.901, 0.001, 200)), of_lane("a", Line(7, now + 0.9, 0.009, 200))]
    write(
        kafka,
        DeliveryLog("logged", 0, [failed]),
        DeliveryLog("logged", 1, [of_lane("a", once)]),
        DeliveryLog("other", 0, [of_lane("a", once)]),
        DeliveryLog("logged", 0, later),
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
    assert [each.took_ms for each in logged.attempts] == [20, 9]
    assert (logged.reaches_back, logged.is_read) == (True, True)


def test_who_knows_enough_stops_reading(kafka: KafkaConnection, began: float) -> None:
    """Kept promise: the rest of a long log is not read when everybody has a last word."""
    logged = read(kafka, Place("logged", 1, 7), began, wanted=("a",))
    assert [each.status for each in logged.attempts] == [200]


def test_an_event_that_nobody_has_tried(kafka: KafkaConnection, began: float) -> None:
    """Kept promise: no attempt is no attempt, and the reading ends."""
    logged = read(kafka, Place("logged", 0, 99), began)
    assert (logged.attempts, logged.is_read) == ([], True)


def test_a_log_of_another_version_is_no_error(kafka: KafkaConnection, began: float) -> None:
    """Kept promise: what cannot be read is said not to be known."""
    producer = kafka.producer()
    producer.produce(
        DELIVERIES_TOPIC, msgspec.msgpack.encode(["logged", 5, 0, ["a"], [[0, 7, 5, 20, 200]]]), b"logged/5"
    )
    assert producer.flush(20) == 0
    logged = read(kafka, Place("logged", 5, 7), began)
    assert (logged.attempts, logged.reaches_back) == ([], False)


def test_attempts_for_a_former_topic_of_that_name_are_not_taken(kafka: KafkaConnection, began: float) -> None:
    """Kept promise: a topic that was made again has the same offsets, and none of the earlier attempts."""
    at = Line(7, began + 1, 0.02, 500)
    before = of_lane("old", Line(7, began - 60, 0.02, 500))  # a log without an id
    write(
        kafka,
        DeliveryLog("anew", 0, [of_lane("old", at)], "former"),
        DeliveryLog("anew", 0, [before]),
        DeliveryLog("anew", 0, [of_lane("new", at)], "present"),
    )
    logged = read(kafka, Place("anew", 0, 7, "present"), began)
    assert [each.uid for each in logged.attempts] == ["new"]
