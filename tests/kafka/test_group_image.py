"""The public image of the ledger: shown in groups, and watched for what others set there."""

import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.waiting import until

from penstock.contract.model import LEDGER_TOPIC, Subscription
from penstock.kafka import ledger, topics
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.group_image import MARK, GroupImages
from penstock.kafka.groups import Committed, Groups


def test_a_consumer_in_the_group_of_a_trigger_is_no_reset(kafka: KafkaConnection) -> None:
    """Kept promise: whoever consumes with a trigger's group does not make its query start over and over."""
    name = f"joined-{uuid.uuid4()}"
    core = topics.TopicSpec(LEDGER_TOPIC, config=topics.COMPACTED)
    topics.create_missing(kafka.admin(), [topics.TopicSpec(name), core])
    producer = kafka.producer()
    producer.produce(name, "x", partition=0)
    producer.flush(10)
    shown = Subscription(name, "Trigger", "default", name, name, f"group-of-{name}", "http://localhost/")
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": shown.group, "auto.offset.reset": "earliest"}
    member = Consumer({**config, "enable.auto.commit": False})
    member.subscribe([name])
    resets: list[Subscription] = []
    clusters = Clusters(kafka, Path("nowhere"))
    images, groups = GroupImages(clusters, ledger.FollowedLedger(kafka), resets.append), Groups(kafka)
    images.start()
    try:
        message = member.poll(30.0)
        assert message is not None
        member.commit(message, asynchronous=False)
        images.show({(name, "topic-id"): shown})
        looked = images.rounds
        until(lambda: images.rounds >= looked + 6, "it has looked for resets")
        assert resets == []
        member.close()
        until(lambda: resets, "the member has left, and what it committed counts")
    finally:
        images.stop()
        groups.close()


def test_a_position_is_shown_and_a_reset_of_an_idle_trigger_is_noticed(kafka: KafkaConnection) -> None:
    """Kept promise: any Kafka tool shows the progress, and can set it, also while nothing happens."""
    name = f"image-{uuid.uuid4()}"
    core = topics.TopicSpec(LEDGER_TOPIC, config=topics.COMPACTED)
    topics.create_missing(kafka.admin(), [topics.TopicSpec(name), core])
    shown = Subscription(name, "Trigger", "default", name, name, f"group-of-{name}", "http://localhost/")
    ledger.StartPositions(kafka).write(name, name, "topic-id", {0: 4})
    resets: list[Subscription] = []
    clusters = Clusters(kafka, Path("nowhere"))
    images, groups = GroupImages(clusters, ledger.FollowedLedger(kafka), resets.append), Groups(kafka)
    images.start()
    try:
        images.show({(name, "topic-id"): shown})
        until(lambda: groups.offsets([shown.group])[shown.group] == {(name, 0): Committed(4, MARK)}, "the image")
        assert resets == []
        groups.commit(shown.group, name, {0: 1}, "")
        until(lambda: resets, "the reset is noticed")
        assert resets[0] == shown
    finally:
        images.stop()
        groups.close()


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_group_that_is_deleted_during_a_round_stays_deleted(
    kafka: KafkaConnection, monkeypatch: pytest.MonkeyPatch, is_reset: bool
) -> None:
    """Kept promise: once a subscription is no longer shown, nothing is committed to its group, also by a round that
    began before."""
    name = f"deleted-{uuid.uuid4()}"
    core = topics.TopicSpec(LEDGER_TOPIC, config=topics.COMPACTED)
    topics.create_missing(kafka.admin(), [topics.TopicSpec(name), core])
    shown = Subscription(name, "Trigger", "default", name, name, f"group-of-{name}", "http://localhost/")
    ledger.StartPositions(kafka).write(name, name, "topic-id", {0: 4})
    resets: list[Subscription] = []
    images = GroupImages(Clusters(kafka, Path("nowhere")), ledger.FollowedLedger(kafka), resets.append)
    groups, ask = Groups(kafka), Groups.offsets
    groups.commit(shown.group, name, {0: 1}, "" if is_reset else MARK)
    deleted_in: list[int] = []

    def ask_and_delete(these: Groups, wanted: Iterable[str]) -> Any:
        """As the controller does when somebody deletes the trigger at this moment."""
        found = ask(these, wanted)
        if not deleted_in:
            deleted_in.append(images.rounds)
            images.show({})
            groups.delete(shown.group)
        return found

    monkeypatch.setattr(Groups, "offsets", ask_and_delete)
    images.show({(name, "topic-id"): shown})
    images.start()
    try:
        until(lambda: deleted_in and images.rounds > deleted_in[0], "the round is over")
        assert ask(groups, [shown.group]).get(shown.group, {}) == {}
        assert resets == []
    finally:
        images.stop()
        groups.close()
