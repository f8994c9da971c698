"""What workers tell about their work, as records that nobody waits for."""

from penstock.contract.model import TELEMETRY_TOPIC, Telemetry, encode
from penstock.kafka.connection import Producer

MOST_WAITING = 10_000  # while Kafka is away; telling is not worth more memory


def tell(producer: Producer, told: Telemetry | None) -> None:
    if told is not None and len(producer) < MOST_WAITING:
        producer.produce(TELEMETRY_TOPIC, value=encode(told), partition=0)
