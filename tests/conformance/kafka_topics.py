"""Topics of the system's Kafka, for the kinds that read or write topics of somebody else."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]


class Topics:
    def __init__(self, bootstrap_servers: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap_servers}
        self._admin = AdminClient(self._settings)
        self._made: list[str] = []

    def create(self, name: str, partitions: int = 1) -> str:
        self._made.append(name)
        for future in self._admin.create_topics([NewTopic(name, partitions, 1)]).values():
            future.result(TIMEOUT_SECONDS)
        return name

    def partitions(self, name: str) -> int:
        """How many it has, 0 when there is no such topic."""
        found = self._admin.list_topics(name, timeout=TIMEOUT_SECONDS).topics.get(name)
        return 0 if found is None or found.error else len(found.partitions)

    def write(
        self,
        name: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        partition: int = 0,
    ) -> None:
        producer = Producer(self._settings | {"acks": "all"})
        producer.produce(name, value, key, partition, headers=list((headers or {}).items()))
        assert producer.flush(TIMEOUT_SECONDS) == 0, f"Kafka did not take a record of {name}"

    def read(self, name: str, count: int) -> list[Record]:
        """The first so many records of a topic, once it has them."""
        consumer = Consumer(self._settings | {"group.id": "conformance", "enable.auto.commit": False})
        consumer.assign([TopicPartition(name, number, 0) for number in range(self.partitions(name))])
        found: list[Record] = []
        deadline = time.monotonic() + TIMEOUT_SECONDS
        try:
            while len(found) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} records are in {name}"
                message = consumer.poll(0.2)
                if message is not None and not message.error():
                    found.append(Record(message.key(), message.value(), dict(message.headers() or [])))
        finally:
            consumer.close()
        return found

    def committed(self, group: str, name: str) -> int:
        """The position of a group in the first partition; below 0 when it has none."""
        consumer = Consumer(self._settings | {"group.id": group})
        try:
            return int(consumer.committed([TopicPartition(name, 0)], timeout=TIMEOUT_SECONDS)[0].offset)
        except KafkaException:
            return -1
        finally:
            consumer.close()

    def close(self) -> None:
        if self._made:
            for future in self._admin.delete_topics(self._made).values():
                future.exception(TIMEOUT_SECONDS)
