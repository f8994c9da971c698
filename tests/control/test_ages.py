"""How old what waits is, from lags and, for what has waited long, from the records themselves."""

from collections.abc import Iterable, Mapping

import pytest

from penstock.control.ages import ROUND, Age, Ages
from penstock.control.lag import LanePosition
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.record_times import RecordTimes, Spot

KEY = "Trigger/default/audit"


class Records:
    """When records came, and which were read."""

    def __init__(self, times: Mapping[int, float] | None = None) -> None:
        self.times = times or {}
        self.asked: list[Spot] = []

    def __call__(self, place: str, spots: Iterable[Spot]) -> Mapping[Spot, float]:
        found = list(spots)
        self.asked += found
        return {spot: self.times[spot.offset] for spot in found if spot.offset in self.times}


def lane(position: int, end: int, partition: int = 0) -> LanePosition:
    return LanePosition("orders", partition, position, end, "orders")


def test_nothing_waits() -> None:
    ages = Ages(Records())
    assert ages.see(100, {KEY: [lane(5, 5)]}) == {KEY: Age(0.0, 0.0, 0.0)}


def test_what_has_just_come_is_known_without_reading_it() -> None:
    records = Records()
    ages = Ages(records)
    ages.see(100, {KEY: [lane(5, 5)]})
    assert ages.see(101, {KEY: [lane(5, 8)]})[KEY].oldest == 0
    assert ages.see(103, {KEY: [lane(5, 9)]})[KEY] == Age(oldest=2, behind=2, stalled=3)
    assert ages.see(104, {KEY: [lane(8, 9)]})[KEY] == Age(oldest=1, behind=0, stalled=0)
    assert records.asked == []


def test_what_waits_long_is_read_once() -> None:
    """Kept promise: the age of a stuck event is that of its record, and costs one read however long it is stuck."""
    records = Records({5: 41.5, 8: 61.5})
    ages = Ages(records)
    for now in (100, 101, 102):
        found = ages.see(now, {KEY: [lane(5, 9)]})[KEY]
    assert found == Age(oldest=60.5, behind=20, stalled=2)
    assert records.asked == [Spot("orders", 0, 5), Spot("orders", 0, 8)]


def test_what_cannot_be_read_is_not_known_and_not_asked_again_at_once() -> None:
    records = Records()
    ages = Ages(records)
    assert ages.see(100, {KEY: [lane(5, 9)]})[KEY] == Age(None, None, 0)
    ages.see(101, {KEY: [lane(5, 9)]})
    assert len(records.asked) == 2
    ages.see(140, {KEY: [lane(5, 9)]})
    assert len(records.asked) == 4


def test_a_round_reads_only_a_few() -> None:
    records = Records()
    Ages(records).see(100, {f"{KEY}{n}": [lane(n, 1000)] for n in range(100)})
    assert len(records.asked) == ROUND


def test_a_topic_made_anew_begins_anew() -> None:
    ages = Ages(Records({0: 109.0, 1: 109.5}))
    ages.see(100, {KEY: [lane(5, 5)]})
    ages.see(101, {KEY: [lane(5, 50)]})
    assert ages.see(110, {KEY: [lane(0, 2)]})[KEY].oldest == 1.0


def test_the_oldest_of_all_partitions_counts() -> None:
    ages = Ages(Records({1: 90.0, 2: 80.0, 3: 95.0}))
    assert ages.see(100, {KEY: [lane(1, 4, 0), lane(2, 4, 1), lane(4, 4, 2)]})[KEY].oldest == 20


def test_records_say_when_they_came(kafka: KafkaConnection) -> None:
    """The real thing: several offsets of a partition, and of several."""
    as_sent = {"message.timestamp.type": "CreateTime"}
    topics.create_missing(kafka.admin(), [topics.TopicSpec("times-of-records", 2, config=as_sent)])
    producer = kafka.producer()
    for number in range(10):
        producer.produce("times-of-records", b"x", partition=number % 2, timestamp=1_700_000_000_000 + number)
    assert producer.flush(10) == 0
    times = RecordTimes(kafka)
    spots = [Spot("times-of-records", 0, 1), Spot("times-of-records", 0, 4), Spot("times-of-records", 1, 0)]
    found = times.of(spots, timeout_seconds=10)
    assert [found[spot] - 1_700_000_000 for spot in spots] == pytest.approx([0.002, 0.008, 0.001], abs=1e-4)
    assert times.of([Spot("times-of-records", 0, 5)], timeout_seconds=0.3) == {}
    times.close()
