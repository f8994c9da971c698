"""Where a topic of one partition ends: asked by whoever wants to read it whole."""

import logging
import threading
from queue import Empty, SimpleQueue

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection, close_aside, unanswered

logger = logging.getLogger("penstock.kafka")

AGAIN_SECONDS = 0.2
TIMEOUT_SECONDS = 10.0
PATIENCE_SECONDS = 12.0


def offset_behind(message: Message) -> int:
    """How far a reader with ``enable.partition.eof`` has come with this message; 0: not known.

    The last offsets of a topic may hold no records: markers of transactions, and what compaction has removed. Only
    the end of the partition shows that they have been passed.
    """
    error = message.error()
    if error is None:
        return int(message.offset()) + 1
    return int(message.offset()) if error.code() == KafkaError._PARTITION_EOF else 0


def await_range(connection: KafkaConnection, topic: str, stopping: threading.Event) -> tuple[int, int]:
    """The first offset that the topic has now, and its end; waits until Kafka and the topic are there. Zeros when it
    is stopped first."""
    ends = Ends(connection)
    try:
        while not stopping.is_set():
            try:
                return ends.range_of(topic)
            except Unavailable as error:
                logger.debug("%s", error.message)
                stopping.wait(AGAIN_SECONDS)
    finally:
        ends.close()
    return 0, 0


def range_of(
    consumer: Consumer, topic: str, partition: int = 0, patience_seconds: float = PATIENCE_SECONDS
) -> tuple[int, int]:
    """The first offset that a partition has, and its end; equal when retention has emptied it. Raises Unavailable.

    If the broker dies during the request, librdkafka may wait for ever. So a thread asks, and the caller waits for a
    limited time.
    """
    answer: SimpleQueue[tuple[int, int] | KafkaException] = SimpleQueue()
    place = TopicPartition(topic, partition)
    request = threading.Thread(target=_ask, args=(consumer, place, answer), name="end-of-topic", daemon=True)
    request.start()
    try:
        found = answer.get(timeout=patience_seconds)
    except Empty:
        unanswered[id(consumer)] = request
        raise Unavailable(f"the end of topic {topic} cannot be read: there was no answer") from None
    if isinstance(found, KafkaException):
        raise Unavailable(f"the end of topic {topic} cannot be read: {found.args[0].str()}") from found
    return found


def _ask(consumer: Consumer, place: TopicPartition, answer: "SimpleQueue[tuple[int, int] | KafkaException]") -> None:
    try:
        first, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_SECONDS)
        answer.put((int(first), int(end)))
    except KafkaException as error:
        answer.put(error)


def first_offset(connection: KafkaConnection, topic: str, partition: int) -> int:
    """The first offset that Kafka still has. Raises KafkaException. May block for long: call it in a thread."""
    consumer = connection.consumer()
    try:
        first, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_SECONDS)
        return int(first)
    finally:
        close_aside(consumer)


class Ends:
    """A client of its own.

    The one that reads will not do: a broker answers the requests of a connection one after the other, and behind a
    waiting fetch the answer takes half a second. Nor will an admin client: its first request sometimes takes three.

    The end is where committed records end. ``with_open``: where all end, also those of transactions that are open.
    """

    def __init__(self, connection: KafkaConnection, *, with_open: bool = False) -> None:
        self._consumer: Consumer = connection.consumer(
            **{"isolation.level": "read_uncommitted" if with_open else "read_committed"}
        )

    def of(self, topic: str) -> int:
        """Where it ends. Raises Unavailable, also when there is no such topic."""
        return self.range_of(topic)[1]

    def range_of(self, topic: str) -> tuple[int, int]:
        """The first offset that it has, and its end; equal when retention has emptied it. Raises Unavailable."""
        return range_of(self._consumer, topic)

    def close(self) -> None:
        close_aside(self._consumer)
