"""Promises before retention takes something: it is said, in time, and of whom."""

import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.contract.model import LEDGER_TOPIC, Subscription
from penstock.kafka import ledger, topics
from penstock.kafka.clients import Clients
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ledger import FollowedLedger
from penstock.pipeline import retention
from penstock.pipeline.retention import RetentionWatch, threatened

KEPT_SECONDS = 3600  # so much that the test itself takes none of it


def test_only_what_is_old_and_not_finished_counts() -> None:
    """Kept promise: neither young events nor finished ones are warned of."""
    positions = {("a", 0): 5, ("a", 1): 9, ("b", 0): 30}
    assert threatened(positions, {0: 10, 1: 9}, {0: 30, 1: 9}) == {"a": 5}
    assert threatened(positions, {0: 40, 1: 9}, {0: 30, 1: 9}) == {"a": 25}


@pytest.mark.scenario(23)
def test_a_trigger_that_stands_still_is_warned_of(
    kafka: KafkaConnection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kept promise: once its oldest event is older than half of the retention, everybody can see it."""
    passed = 0.0  # time, for the watch only
    clock = SimpleNamespace(monotonic=time.monotonic, time=lambda: time.time() + passed)
    monkeypatch.setattr(retention, "time", clock)
    monkeypatch.setattr(retention, "LOOK_SECONDS", 0.0)
    topic, uid = f"kept-{uuid.uuid4()}", str(uuid.uuid4())
    clients = Clients(kafka)
    specs = [topics.TopicSpec(LEDGER_TOPIC, config=topics.COMPACTED)]
    specs.append(topics.TopicSpec(topic, config={"retention.ms": str(KEPT_SECONDS * 1000)}))
    topics.create_missing(clients.admin, specs)
    topic_id = topics.describe(clients.admin, [topic])[topic].topic_id
    ledger.StartPositions(kafka).write(uid, topic, topic_id, {0: 0})
    producer = kafka.producer()
    for _ in range(3):
        producer.produce(topic, b"x")
    assert producer.flush(10) == 0
    followed = FollowedLedger(kafka)
    followed.read_to_end()
    watch = RetentionWatch(Clusters(kafka, Path("nowhere")), followed)
    wanted = {(topic, topic_id): [Subscription(uid, "Trigger", "shop", "slow", topic, "g", "http://a/")]}
    assert list(watch.look(wanted)) == [(topic, [])]
    passed = 0.3 * KEPT_SECONDS
    assert list(watch.look(wanted)) == [(topic, [])]
    passed = 0.5 * KEPT_SECONDS + 1
    ((_, (warning,)),) = watch.look(wanted)
    assert warning.startswith("3 events for trigger shop/slow have waited for 50%")
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
    passed = 0.8 * KEPT_SECONDS + 1
    list(watch.look(wanted))
    assert [each for each in caplog.records if each.levelname == "ERROR" and "80%" in each.message]
