"""The embedded cluster: starts, stops, keeps what it has, and refuses with words."""

import json
import random
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from penstock.errors import Misconfigured, Unavailable
from penstock.kafka import data_directory, embedded, login
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.server_files import ClusterSpec
from penstock.kafka.topics import TopicSpec, create_missing
from penstock.ports import free_port, require_free


def cluster_in(folder: Path) -> EmbeddedKafka:
    return EmbeddedKafka(ClusterSpec(folder, port=free_port()))


def write(connection: KafkaConnection, topic: str, values: list[bytes]) -> None:
    producer = connection.producer()
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(20) == 0


def read(connection: KafkaConnection, topic: str, count: int) -> list[bytes | None]:
    consumer = connection.consumer()
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + 20
    values: list[bytes | None] = []
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(count, 0.2) if message.error() is None]
    consumer.close()
    return values


def test_all_it_had_is_there_after_kill_9_and_after_a_clean_stop(tmp_path: Path) -> None:
    first = cluster_in(tmp_path).start()
    create_missing(first.connection.admin(), [TopicSpec("kept")])
    write(first.connection, "kept", [b"1", b"2"])
    first.processes[1].kill()
    first.stop()

    second = cluster_in(tmp_path).start()
    write(second.connection, "kept", [b"3"])
    process = second.processes[1]
    second.stop()
    assert process.returncode == 143, "a clean end after SIGTERM"

    third = cluster_in(tmp_path).start()
    try:
        assert read(third.connection, "kept", 3) == [b"1", b"2", b"3"]
    finally:
        third.stop()


def test_a_cluster_that_asked_for_no_login_asks_for_one_later(tmp_path: Path) -> None:
    """Kept promise: --kafka-auth may change, also for a cluster of a version without logins; all data stays."""
    first = cluster_in(tmp_path).start()
    try:
        create_missing(first.connection.admin(), [TopicSpec("kept")])
        write(first.connection, "kept", [b"1"])
    finally:
        first.stop()
    login.secret_file(tmp_path).unlink()
    second = EmbeddedKafka(ClusterSpec(tmp_path, port=free_port(), auth="scram")).start()
    try:
        with pytest.raises(Unavailable):
            KafkaConnection(second.spec.bootstrap_servers).check(2.0)
        assert read(second.connection, "kept", 1) == [b"1"]
    finally:
        second.stop()


def test_three_brokers_with_a_login_form_a_cluster(tmp_path: Path) -> None:
    """Kept promise: nodes log in to each other, as brokers and as controllers."""
    cluster = EmbeddedKafka(ClusterSpec(tmp_path, port=_three_free_ports(), brokers=3, auth="scram")).start()
    try:
        create_missing(cluster.connection.admin(), [TopicSpec("spread")])
        write(cluster.connection, "spread", [b"1"])
        assert read(cluster.connection, "spread", 1) == [b"1"]
    finally:
        cluster.stop()


def _three_free_ports() -> int:
    """The first of three in a row, below those that the kernel takes for outgoing connections."""
    for first in random.sample(range(12_000, 32_000), 100):
        try:
            for port in range(first, first + 3):
                require_free("127.0.0.1", port, "")
        except Misconfigured:
            continue
        return first
    pytest.skip("no three free ports in a row were found")


def test_topics_are_never_made_by_a_typing_error(kafka: KafkaConnection) -> None:
    consumer = kafka.consumer()
    consumer.assign([TopicPartition("never-created", 0, 0)])
    consumer.poll(1.0)
    consumer.close()
    assert "never-created" not in kafka.admin().list_topics(timeout=10).topics


def test_a_taken_port_is_named_with_its_owner_and_the_flag(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Misconfigured, match=f"port {port} on 127.0.0.1 is taken by .*pid") as failure:
            EmbeddedKafka(ClusterSpec(tmp_path, port=port)).start()
    assert "--kafka-port" in (failure.value.hint or "")
    assert not (tmp_path / "kafka").exists()


def someone_elses_files(folder: Path) -> None:
    (folder / "kafka").mkdir()
    (folder / "kafka" / "thesis.txt").write_text("keep me")


def another_cluster(folder: Path) -> None:
    data_directory.claim(ClusterSpec(folder))
    data = folder / "kafka/node-1/data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\ncluster.id=someoneelses\nnode.id=1\n")


def a_newer_version(folder: Path) -> None:
    data_directory.claim(ClusterSpec(folder))
    description = folder / "kafka/cluster.json"
    description.write_text(json.dumps({**json.loads(description.read_text()), "kafka_version": "99.0.0"}))


def more_brokers(folder: Path) -> None:
    data_directory.claim(ClusterSpec(folder, brokers=3))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (someone_elses_files, "did not put there"),
        (another_cluster, "belongs to another Kafka cluster"),
        (a_newer_version, "written by Kafka 99.0.0"),
        (more_brokers, "a cluster of 3 broker"),
    ],
)
def test_a_foreign_data_directory_is_refused_untouched(
    spoil: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    spoil(tmp_path)
    before = sorted((path, path.stat().st_size) for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(Misconfigured, match=said) as failure:
        cluster_in(tmp_path).start()
    assert failure.value.hint
    assert sorted((path, path.stat().st_size) for path in tmp_path.rglob("*") if path.is_file()) == before


def test_a_full_disk_is_refused_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 10**6))
    with pytest.raises(Misconfigured, match="is full: 1 MB free"):
        cluster_in(tmp_path).start()


def test_a_node_that_dies_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_in(tmp_path)
    cluster.prepare()
    settings = tmp_path / "kafka/node-1/server.properties"
    settings.write_text(settings.read_text() + "num.io.threads=0\n")
    monkeypatch.setattr(cluster, "prepare", lambda: None)
    with pytest.raises(Unavailable, match=r"Kafka ended \(exit code 1\): .*num\.io\.threads"):
        cluster.start()


def test_too_many_brokers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="--kafka-brokers 4 is out of range"):
        EmbeddedKafka(ClusterSpec(tmp_path, brokers=embedded.MOST_BROKERS + 1))


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    assert not any(data_directory._new_cluster_id().startswith("-") for _ in range(1000))
