"""Records of topics for people who look at them: one by its place, or all from now on."""

from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection, close_aside
from penstock.kafka.ends import range_of
from penstock.kafka.latest import Found, found_in

ASK_SECONDS = 5.0


def read_one(connection: KafkaConnection, topic: str, partition: int, offset: int) -> Found | None:
    """None: it is not there, or not any more. Raises Unavailable."""
    consumer: Consumer = connection.consumer(**{"enable.partition.eof": True, "auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        deadline = monotonic() + ASK_SECONDS
        while monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is None:
                return found_in(message) if message.offset() == offset else None
            if message.error().code() in _NOT_THERE:
                return None
    except KafkaException as error:
        raise Unavailable(f"topic {topic} at {connection.label} cannot be read: {error.args[0].str()}") from error
    finally:
        close_aside(consumer)
    raise Unavailable(f"topic {topic} at {connection.label} was not read within {ASK_SECONDS:g} s")


_NOT_THERE = (
    KafkaError._PARTITION_EOF,
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
)


class Following:
    """Records of a topic from the moment at which it is made. For one thread."""

    def __init__(self, connection: KafkaConnection, topic: str, partitions: int) -> None:
        self._consumer: Consumer = connection.consumer(**{"fetch.wait.max.ms": 100})
        try:
            places = []
            for partition in range(partitions):
                _, end = range_of(self._consumer, topic, partition)
                places.append(TopicPartition(topic, partition, end))
            self._consumer.assign(places)
        except (KafkaException, Unavailable) as error:
            self.close()
            why = error.message if isinstance(error, Unavailable) else error.args[0].str()
            what = f"topic {topic} at {connection.label} cannot be read: {why}"
            raise Unavailable(what, hint="is it there? `penstock get brokers,kafkachannels`") from error

    def take(self, wait_seconds: float) -> list[Found]:
        """What has come; waits for the first."""
        first = self._consumer.poll(wait_seconds)
        messages = [] if first is None else [first, *self._consumer.consume(500, 0)]
        return [found_in(each) for each in messages if each.error() is None]

    def close(self) -> None:
        close_aside(self._consumer)
