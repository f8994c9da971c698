"""The latest records of a topic, for whoever wants to look at a few: the filter playground."""

from dataclasses import dataclass
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection, close_aside
from penstock.kafka.ends import range_of

READ_SECONDS = 10.0
LARGEST_BYTES = 32 * 1024 * 1024  # of all that is read; with large records there are fewer


@dataclass(frozen=True)
class Found:
    partition: int
    offset: int
    time_ms: int  # as Kafka has it
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def latest(connection: KafkaConnection, topic: str, partitions: int, most: int) -> list[Found]:
    """The last so many of each partition, in no order. Raises Unavailable."""
    consumer: Consumer = connection.consumer(**{"enable.partition.eof": True})
    found: list[Found] = []
    try:
        open_ones = _begin(consumer, topic, partitions, most)
        deadline = monotonic() + READ_SECONDS
        while open_ones and sum(len(each.value or b"") for each in found) < LARGEST_BYTES:
            if monotonic() > deadline:
                raise Unavailable(f"topic {topic} at {connection.label} could not be read within {READ_SECONDS:g} s")
            for message in consumer.consume(500, 0.05):
                if message.error() is None:
                    found.append(found_in(message))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    open_ones.discard(message.partition())
    except KafkaException as error:
        raise Unavailable(f"topic {topic} at {connection.label} cannot be read: {error.args[0].str()}") from error
    finally:
        close_aside(consumer)
    return found


def _begin(consumer: Consumer, topic: str, partitions: int, most: int) -> set[int]:
    """Where the last so many of each partition begin: any of them may hold all that are wanted."""
    places = []
    for partition in range(partitions):
        begin, end = range_of(consumer, topic, partition)
        if end > begin:
            places.append(TopicPartition(topic, partition, max(begin, end - most)))
    consumer.assign(places)
    return {each.partition for each in places}


def found_in(message: Any) -> Found:
    _, time_ms = message.timestamp()
    headers = headers_of(message)
    return Found(message.partition(), message.offset(), int(time_ms), message.value(), headers)


def headers_of(message: Any) -> tuple[tuple[str, Any], ...]:
    """Empty if the name of a header is not text. Such a record is not a CloudEvent."""
    try:
        return tuple(message.headers() or ())
    except UnicodeDecodeError:
        return ()
