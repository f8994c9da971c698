"""The settings that a resource may choose, against the clients that get them."""

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from penstock.kafka import tuning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("place", [0, 1])
def test_librdkafka_takes_the_ends_of_every_range(place: int) -> None:
    """A producer can be made with the smallest and with the largest values."""
    chosen = {name: str(tuning.NUMBERS[name][place]) for name in tuning.PRODUCER if name in tuning.NUMBERS}
    Producer({"message.timeout.ms": 2500, **tuning.producer_settings(chosen)})


def _ends(place: int) -> dict[str, str]:
    return {name: str(tuning.NUMBERS[name][place]) for name in tuning.CONSUMER if name in tuning.NUMBERS}


@pytest.mark.parametrize("place", [0, 1])
def test_java_takes_the_ends_of_every_range(spark: "SparkSession", place: int) -> None:
    """Kafka's own consumer can be made with the smallest and with the largest values."""
    jvm: Any = spark._jvm
    reader = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    fixed = {"bootstrap.servers": "127.0.0.1:9", "key.deserializer": reader, "value.deserializer": reader}
    settings = jvm.java.util.HashMap()
    for name, value in {**tuning.consumer_settings(_ends(place)), **fixed}.items():
        settings.put(name, value)
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    consumer.close()
