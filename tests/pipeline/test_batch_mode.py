"""Promises of batch mode: the same code in micro-batches delivers the same events."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.contract.model import (
    CLAIMS_TOPIC,
    CONTRACT_TOPIC,
    LEDGER_TOPIC,
    REPORT_TOPIC,
    Agreement,
    Subscription,
    encode,
)
from penstock.event.kafka import encode_record
from penstock.event.model import Event
from penstock.kafka import ledger, topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import put
from tests.sink import Sink


@pytest.fixture
def batch_dispatcher(kafka: KafkaConnection, tmp_path: Path) -> Iterator[None]:
    tables = (CONTRACT_TOPIC, LEDGER_TOPIC, CLAIMS_TOPIC, REPORT_TOPIC)
    topics.create_missing(kafka.admin(), [topics.TopicSpec(name, config=topics.COMPACTED) for name in tables])
    command = [sys.executable, "-m", "penstock.cli.main", "dispatcher", "--gear", "bulk"]
    command += ["--bootstrap-servers", kafka.bootstrap_servers, "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, env={**os.environ}) as process:
        yield
        process.terminate()
        assert process.wait(60) == 0


def test_batch_mode_delivers_everything_once(
    kafka: KafkaConnection, batch_dispatcher: None, sink: Callable[[], Sink]
) -> None:
    """Kept promise: 2,000 events come to a batch subscriber once each, through several micro-batches."""
    subscriber = sink()
    topic, uid = f"batch-{uuid.uuid4()}", str(uuid.uuid4())
    admin, producer = kafka.admin(), kafka.producer()
    topics.create_missing(admin, [topics.TopicSpec(topic, partitions=2)])
    topic_id = topics.describe(kafka.admin(), [topic])[topic].topic_id
    ledger.StartPositions(kafka).write(uid, topic, topic_id, {0: 0, 1: 0})
    subscription = Subscription(uid, "Trigger", "default", "batch", topic, f"group-{uid}", subscriber.url + "/b")
    put(
        producer,
        CONTRACT_TOPIC,
        f"Trigger/default/{topic}",
        encode(Agreement(uid, 1, (), (subscription,))),
    )
    for number in range(2000):
        event = Event({"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}, b"{}")
        record = encode_record(event)
        producer.produce(topic, record.value, headers=record.headers, partition=number % 2)
        if number == 1000:
            producer.flush(10)
            subscriber.wait_for(500, "/b", 90)  # the rest comes in a later micro-batch
    producer.flush(10)
    subscriber.wait_for(2000, "/b", 60)
    put(producer, CONTRACT_TOPIC, f"Trigger/default/{topic}", None)
    assert sorted(int(each.headers["ce-id"]) for each in subscriber.at("/b")) == list(range(2000))
