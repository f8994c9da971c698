"""Promises of the doorbell: it rings for what comes, once, and for nothing else."""

import uuid

from tests.waiting import until

from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.doorbell import Doorbell


def test_it_rings_once_for_each_watch(kafka: KafkaConnection) -> None:
    """Kept promise: a record that comes, or is there already, rings; a topic that is forgotten does not."""
    names = [f"bell-{uuid.uuid4()}" for _ in range(3)]
    topics.create_missing(kafka.admin(), [topics.TopicSpec(name, partitions=2) for name in names])
    rung: list[str] = []
    doorbell = Doorbell(kafka, lambda topic, _: rung.append(topic))
    producer = kafka.producer()
    try:
        for name in names:
            doorbell.watch(name, {0: 0, 1: 0})
        producer.produce(names[0], b"x", partition=1)
        producer.flush(10)
        until(lambda: rung == names[:1], "the ring")
        producer.produce(names[0], b"x", partition=0)
        doorbell.forget(names[1])
        producer.produce(names[1], b"x", partition=0)
        producer.flush(10)
        doorbell.watch(names[0], {0: 1, 1: 1})  # behind what has come
        producer.produce(names[2], b"x", partition=0)
        producer.flush(10)
        until(lambda: names[2] in rung, "the second ring")
        assert rung == [names[0], names[2]]
        doorbell.watch(names[1], {0: 0, 1: 0})
        until(lambda: names[1] in rung, "what was there already")
    finally:
        doorbell.close()
