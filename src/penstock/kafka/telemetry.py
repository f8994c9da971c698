"""What processes tell about their work, as records that nobody waits for."""

import logging

from confluent_kafka import KafkaError, KafkaException

from penstock.contract.telemetry import (
    DELIVERIES_TOPIC,
    TELEMETRY_TOPIC,
    DeliveryLog,
    Telemetry,
    encode_log,
    encode_telemetry,
)
from penstock.kafka.connection import KafkaConnection, Producer

logger = logging.getLogger("penstock.kafka")

MOST_WAITING = 1_000  # while Kafka is away; telling is not worth more memory
KEPT_MS = 10_000


class Teller:
    """A producer of its own, made when there is something to tell: nothing else ever waits for its records."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._producer: Producer | None = None
        self._dropped = 0  # since it was last told

    def tell(self, told: Telemetry | None) -> None:
        if told is not None:
            told.dropped, self._dropped = self._dropped, 0
            self._send(TELEMETRY_TOPIC, encode_telemetry(told))

    def log(self, log: DeliveryLog | None) -> None:
        """Its key is the partition that it is about, so that a reader need not open the others'."""
        if log is not None:
            self._send(DELIVERIES_TOPIC, encode_log(log), f"{log.topic}/{log.partition}".encode())

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(1.0)

    def _send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        if self._producer is None:
            settings = {"message.timeout.ms": KEPT_MS, "message.max.bytes": 4 * 1024**2, "compression.type": "lz4"}
            self._producer = self._connection.lasting_producer(**settings)
        self._producer.poll(0)
        if len(self._producer) >= MOST_WAITING:
            self._dropped += 1
            return
        try:
            self._producer.produce(topic, value=value, key=key, partition=0, on_delivery=self._report)
        except (BufferError, KafkaException) as error:
            self._dropped += 1
            logger.warning("not told: %s", error)

    def _report(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._dropped += 1
