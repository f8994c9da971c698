"""Where a topic of one partition ends: asked by whoever wants to read it whole."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection

TIMEOUT_SECONDS = 10.0


class Ends:
    """A client of its own.

    The one that reads will not do: a broker answers the requests of a connection one after the other, and behind a
    waiting fetch the answer takes half a second. Nor will an admin client: its first request sometimes takes three.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self._consumer: Consumer = connection.consumer()

    def of(self, topic: str) -> int:
        """Raises Unavailable, also when there is no such topic."""
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_SECONDS)
        except KafkaException as error:
            raise Unavailable(f"the end of topic {topic} cannot be read: {error.args[0].str()}") from error
        return int(end)

    def close(self) -> None:
        self._consumer.close()
