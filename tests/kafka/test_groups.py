"""Consumer groups on a real Kafka, also while it goes away and comes back."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from penstock.errors import Misconfigured, Unavailable
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.groups import Committed, Groups
from penstock.kafka.server_files import ClusterSpec
from penstock.ports import free_port


@pytest.fixture
def groups(kafka: KafkaConnection) -> Iterator[Groups]:
    topics.create_missing(kafka.admin(), [topics.TopicSpec("groups-of", 2)])
    groups = Groups(kafka)
    yield groups
    groups.close()


def test_what_was_committed_is_read_back_with_its_metadata(groups: Groups) -> None:
    groups.commit("readers", "groups-of", {0: 7, 1: 0}, "mark")
    found = groups.offsets(["readers", "nobody"])
    assert found == {"readers": {("groups-of", 0): Committed(7, "mark"), ("groups-of", 1): Committed(0, "mark")},
                     "nobody": {}}  # fmt: skip


def test_a_deleted_group_has_committed_nothing_and_can_be_deleted_again(groups: Groups) -> None:
    groups.commit("leavers", "groups-of", {0: 1}, "")
    groups.delete("leavers")
    groups.delete("leavers")
    assert groups.offsets(["leavers"]) == {"leavers": {}}


def test_a_group_in_use_is_neither_set_nor_deleted(groups: Groups, kafka: KafkaConnection) -> None:
    joined = threading.Event()
    member = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "members"})
    member.subscribe(["groups-of"], on_assign=lambda *_: joined.set())
    try:
        for _ in range(300):
            member.poll(0.1)
            if joined.is_set():
                break
        assert joined.is_set()
        with pytest.raises(Misconfigured, match="somebody consumes with it"):
            groups.commit("members", "groups-of", {0: 1}, "")
        with pytest.raises(Misconfigured, match="somebody consumes with it"):
            groups.delete("members")
    finally:
        member.close()


def test_groups_can_be_asked_while_kafka_is_killed_and_comes_back(tmp_path: Path) -> None:
    """librdkafka's admin client would end this process here."""
    cluster = EmbeddedKafka(ClusterSpec(tmp_path, port=free_port())).start()
    groups = Groups(cluster.connection, timeout_seconds=2.0)
    patient = Groups(cluster.connection, timeout_seconds=60.0)
    try:
        topics.create_missing(cluster.connection.admin(), [topics.TopicSpec("kept", 1)])
        patient.commit("readers", "kept", {0: 3}, "")
        asked = threading.Thread(target=_ask_often, args=(groups,), daemon=True)
        asked.start()
        cluster.processes[1].kill()
        cluster.processes[1].wait()
        with pytest.raises(Unavailable, match="cannot be read"):
            groups.offsets(["readers"])
        cluster.start_node(1)
        assert patient.offsets(["readers"]) == {"readers": {("kept", 0): Committed(3, "")}}
        asked.join(60)
        assert not asked.is_alive()
    finally:
        groups.close()
        patient.close()
        cluster.stop()


def _ask_often(groups: Groups) -> None:
    for _ in range(20):
        with contextlib.suppress(Unavailable):
            groups.offsets(["readers"])
