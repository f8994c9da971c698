"""When Kafka got the record at an offset: read one record there. Asked by the controller, for what waits."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.kafka.connection import KafkaConnection, close_aside


class Spot(NamedTuple):
    topic: str
    partition: int
    offset: int


class RecordTimes:
    """A consumer of its own that fetches little, made when it is first needed. For one thread."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._consumer: Consumer | None = None

    def of(self, spots: Iterable[Spot], timeout_seconds: float = 1.0) -> dict[Spot, float]:
        """Seconds since the epoch; where the record is gone, those of the next one. Without what takes too long."""
        deadline = time.monotonic() + timeout_seconds
        left, found = list(dict.fromkeys(spots)), dict[Spot, float]()
        while left and time.monotonic() < deadline:
            # A consumer reads a partition in one place at a time.
            together = {(spot.topic, spot.partition): spot for spot in reversed(left)}
            left = [spot for spot in left if spot not in together.values()]
            try:
                found |= self._read(list(together.values()), deadline)
            except KafkaException:
                break
        return found

    def close(self) -> None:
        if self._consumer is not None:
            close_aside(self._consumer)
            self._consumer = None

    def _read(self, spots: list[Spot], deadline: float) -> dict[Spot, float]:
        consumer = self._made()
        waiting = {(spot.topic, spot.partition): spot for spot in spots}
        found: dict[Spot, float] = {}
        consumer.assign([TopicPartition(*spot) for spot in spots])
        try:
            while waiting and (left := deadline - time.monotonic()) > 0:
                message = consumer.poll(left)
                if message is None or message.error() is not None:
                    continue
                spot = waiting.get((message.topic(), message.partition()))
                if spot is not None and message.offset() >= spot.offset:
                    found[spot] = message.timestamp()[1] / 1000
                    del waiting[spot.topic, spot.partition]
        finally:
            consumer.unassign()
        return found

    def _made(self) -> Consumer:
        if self._consumer is None:
            little = {"fetch.message.max.bytes": 65_536, "queued.min.messages": 1, "queued.max.messages.kbytes": 256}
            self._consumer = self._connection.consumer(**little)
        return self._consumer
