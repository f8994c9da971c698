"""A table goes on whatever is in its topic and whatever its client reports; it is current only while it follows."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.waiting import until

from penstock.errors import Unavailable
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection, close_aside
from penstock.kafka.ends import range_of
from penstock.kafka.table import Table, put
from penstock.kafka.topics import COMPACTED, TopicSpec


class Silent:
    """A client whose broker died in the moment of the request: librdkafka never returns."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        self.ended.wait(60)
        return 0, 0


def test_who_asks_for_the_ends_of_a_topic_waits_for_a_limited_time() -> None:
    """Kept promise: a follower, a tail and a trial go on when Kafka never answers."""
    silent = Silent()
    try:
        with pytest.raises(Unavailable, match="no answer"):
            range_of(silent, "orders", patience_seconds=0.05)
        close_aside(silent)
        assert not silent.is_closed, "librdkafka must not be closed during a request"
    finally:
        silent.ended.set()
    until(lambda: silent.is_closed, "it is closed once the request has ended")


@pytest.fixture
def topic(kafka: KafkaConnection, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"table-{request.node.name[5:]}"
    topics.create_missing(kafka.admin(), [TopicSpec(name, 1, 1, COMPACTED)])
    yield name
    topics.delete(kafka.admin(), [name])


def test_a_table_whose_topic_was_emptied_is_current(kafka: KafkaConnection, topic: str) -> None:
    producer = kafka.producer()
    for number in range(3):
        put(producer, topic, f"key-{number}", b"old")
    _empty(kafka, topic)
    table = Table(kafka, topic).start()
    try:
        table.wait_until_current(60)
        assert table.values == {}
        put(producer, topic, "key", b"new")
        until(lambda: table.values.get("key") == b"new", "the record that came later")
    finally:
        table.stop()


def test_a_table_is_current_when_the_last_record_is_the_end_of_a_transaction(
    kafka: KafkaConnection, topic: str
) -> None:
    producer = kafka.producer(**{"transactional.id": "table-test"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"value", b"key", partition=0)
    producer.commit_transaction(20)
    table = Table(kafka, topic).start()
    try:
        table.wait_until_current(60)
        until(lambda: table.values == {"key": b"value"}, "the record of the transaction")
    finally:
        table.stop()


def test_a_record_that_is_not_understood_is_skipped_and_counted(kafka: KafkaConnection, topic: str) -> None:
    producer = kafka.producer()
    put(producer, topic, "good", b"1")
    producer.produce(topic, b"junk", b"\xff\xfe", partition=0)
    put(producer, topic, "refused", b"junk")
    put(producer, topic, "last", b"2")
    seen: list[str] = []

    def taken(key: str, _value: bytes | None) -> None:
        if key == "refused":
            raise ValueError("junk")
        seen.append(key)

    table = Table(kafka, topic, taken).start()
    try:
        table.wait_until_current(60)
        until(lambda: seen == ["good", "last"], "the records that are understood")
        assert table.follower.bad_records == 2
        assert table.follower.last_bad.startswith("offset 2: ValueError")
        put(producer, topic, "later", b"3")
        until(lambda: seen == ["good", "last", "later"], "the record that came later")
    finally:
        table.stop()


class Failing:
    """A consumer whose first polls after a record fail."""

    def __init__(self, real: Any, connection: "Flaky") -> None:
        self._real, self._connection = real, connection

    def poll(self, timeout: float) -> Any:
        if self._connection.fails:
            raise KafkaException(KafkaError(KafkaError._FAIL, "the client has failed"))
        return self._real.poll(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@dataclass(frozen=True)
class Flaky(KafkaConnection):
    """Its consumers fail while ``switch`` holds something."""

    switch: tuple[list[str], ...] = ()

    @property
    def fails(self) -> bool:
        return bool(self.switch[0])

    def consumer(self, **overrides: Any) -> Any:
        return Failing(super().consumer(**overrides), self)


def test_after_a_poll_error_a_table_is_not_current_until_it_follows_again(kafka: KafkaConnection, topic: str) -> None:
    switch: list[str] = []
    connection = Flaky(kafka.bootstrap_servers, switch=(switch,))
    producer = kafka.producer()
    put(producer, topic, "first", b"1")
    seen: list[str] = []
    table = Table(connection, topic, lambda key, _: seen.append(key)).start()
    try:
        table.wait_until_current(60)
        switch.append("fails")
        until(lambda: not table.is_current, "that the table is not current")
        put(producer, topic, "second", b"2")
        switch.clear()
        until(lambda: table.is_current and "second" in table.values, "that the table follows again")
        until(lambda: len(seen) >= 2, "the second record was reported")
        assert seen == ["first", "second"]  # it goes on where it was
    finally:
        table.stop()


def test_of_a_topic_that_was_made_anew_only_the_new_records_are_kept(kafka: KafkaConnection, topic: str) -> None:
    producer = kafka.producer()
    for key in ("old", "both", "gone"):
        put(producer, topic, key, b"1")
    seen: list[tuple[str, bytes | None]] = []
    table = Table(kafka, topic, lambda key, value: seen.append((key, value))).start()
    try:
        table.wait_until_current(60)
        topics.delete(kafka.admin(), [topic])
        topics.create_missing(kafka.admin(), [TopicSpec(topic, 1, 1, COMPACTED)])
        put(kafka.producer(), topic, "both", b"2")
        until(lambda: table.values == {"both": b"2"}, "the new records alone")
        until(lambda: len(seen) >= 6, "the records of before, the new one, and the two that are gone")
        assert {("old", None), ("gone", None)} <= set(seen[3:])
        if ("both", None) in seen:  # it followed the new topic before that had a record
            assert seen.index(("both", None)) < seen.index(("both", b"2"))
    finally:
        table.stop()


def _empty(kafka: KafkaConnection, topic: str) -> None:
    """As retention does it; a topic that is compacted alone does not allow it."""
    admin = kafka.admin()
    entry = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([changed]).values():
        altered.result(60)
    for deleted in admin.delete_records([TopicPartition(topic, 0, -1)]).values():
        deleted.result(60)
