"""Stretches of partitions, read once from end to end, as fast as it goes. Called by the search's workers."""

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection, close_aside

AT_ONCE = 1000  # messages
SILENT_SECONDS = 15.0
POLL_SECONDS = 0.1
SETTINGS = {
    "enable.partition.eof": True,  # the last records of a stretch may be none that anybody sees
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 2,  # as long as it rests when there is enough in the queue; a second, otherwise
    "isolation.level": "read_uncommitted",  # as those who deliver read
}
_GONE = (KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)


class Stretch(NamedTuple):
    topic: str
    partition: int
    begin: int
    end: int  # the first offset behind it


def read_stretches(connection: KafkaConnection, stretches: Sequence[Stretch]) -> Iterator[list[Any]]:
    """Their messages, some at a time; none is empty, and of a partition there is one at most.

    What retention has taken is not there.

    Raises Unavailable when Kafka is silent.
    """
    consumer: Consumer = connection.consumer(**SETTINGS)
    left = {(each.topic, each.partition): each.end for each in stretches}
    try:
        consumer.assign([TopicPartition(each.topic, each.partition, each.begin) for each in stretches])
        silent_at = monotonic() + SILENT_SECONDS
        while left:
            first = consumer.poll(POLL_SECONDS)
            before = len(left)
            found = [] if first is None else _within([first, *consumer.consume(AT_ONCE, 0)], left, consumer)
            if found or len(left) < before:
                silent_at = monotonic() + SILENT_SECONDS
                yield found
            elif monotonic() > silent_at:
                raise Unavailable(f"nothing was read from {connection.label} for {SILENT_SECONDS:g} s")
    except KafkaException as error:
        raise Unavailable(f"{connection.label} cannot be read: {error.args[0].str()}") from error
    finally:
        close_aside(consumer)


def _within(messages: list[Any], left: dict[tuple[str, int], int], consumer: Consumer) -> list[Any]:
    """Those that belong to a stretch; a stretch of which this was the last is ``left`` no more."""
    found = []
    for message in messages:
        where = message.topic(), message.partition()
        end = left.get(where)
        if end is None:
            continue
        error = message.error()
        offset = message.offset()
        if error is None and offset < end:
            found.append(message)
        if (error is None and offset >= end - 1) or (error is not None and error.code() in _GONE):
            del left[where]
            consumer.pause([TopicPartition(*where)])
    return found
