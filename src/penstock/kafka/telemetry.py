"""What workers tell about their work, as records that nobody waits for."""

import logging

from confluent_kafka import KafkaException

from penstock.contract.telemetry import TELEMETRY_TOPIC, Telemetry, encode_telemetry
from penstock.kafka.connection import KafkaConnection, Producer

logger = logging.getLogger("penstock.kafka")

MOST_WAITING = 1_000  # while Kafka is away; telling is not worth more memory
KEPT_MS = 10_000


class Teller:
    """A producer of its own, made when there is something to tell: nothing else ever waits for its records."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._producer: Producer | None = None

    def tell(self, told: Telemetry | None) -> None:
        if told is None:
            return
        if self._producer is None:
            self._producer = self._connection.lasting_producer(**{"message.timeout.ms": KEPT_MS})
        self._producer.poll(0)
        if len(self._producer) < MOST_WAITING:
            try:
                self._producer.produce(TELEMETRY_TOPIC, value=encode_telemetry(told), partition=0)
            except (BufferError, KafkaException) as error:
                logger.warning("not told: %s", error)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(1.0)
