"""Promises of several clusters: each is reached with its own credentials, and one that is away holds up nobody."""

import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.certificates import needs_openssl
from tests.kafka.secure import SecureKafka, running
from tests.waiting import until

from penstock.contract.model import HOME, Cluster, Subscription, place_of, topic_of
from penstock.errors import Misconfigured, PenstockError
from penstock.kafka import secret_files, topics
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.doorbell import Doorbells
from penstock.ports import free_port

SECRET = "shop/kafka"
MECHANISM = "SCRAM-SHA-256"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with running(tmp_path_factory.mktemp("secure")) as kafka:
        yield kafka


@pytest.fixture
def clusters(kafka: KafkaConnection, tmp_path: Path) -> Iterator[Clusters]:
    made = Clusters(kafka, tmp_path)
    yield made
    made.close()


def cluster_with(folder: Path, address: str, data: dict[str, str]) -> Cluster:
    """As the contract names it once the Secret has this content."""
    raw = {key: value.encode() for key, value in data.items()}
    secret_files.write(folder, SECRET, raw)
    return Cluster(address, SECRET, secret_files.version_of(folder, raw))


def test_a_place_names_the_topic_and_where_it_is() -> None:
    """Kept promise: topics of the same name in two clusters are two."""
    there = Cluster("b:9092", "shop/kafka", "v1")
    at_home = Subscription("u", "Trigger", "n", "t", "orders", "g", "http://a/")
    assert (at_home.place, place_of("orders", there)) == ("orders", "orders@b:9092")
    assert topic_of("orders@b:9092") == topic_of("orders") == "orders"


@needs_openssl
def test_every_cluster_is_reached_with_its_own_credentials(
    clusters: Clusters, secure: SecureKafka, tmp_path: Path, kafka: KafkaConnection
) -> None:
    """Kept promise: home without any, another with those of its Secret, and clients are kept meanwhile."""
    there = cluster_with(tmp_path, secure.address("SASLTLS"), secure.password("SASLTLS", MECHANISM))
    topic = f"there-{uuid.uuid4()}"
    topics.create_missing(clusters.clients(there).admin, [topics.TopicSpec(topic)])
    assert topics.describe(clusters.clients(there).admin, [topic]).keys() == {topic}
    assert topics.describe(clusters.clients(HOME).admin, [topic]) == {}
    clusters.require(there)
    assert clusters.clients(there) is clusters.clients(there)
    assert clusters.connection(HOME) == kafka


@needs_openssl
def test_another_version_of_a_secret_makes_other_clients(
    clusters: Clusters, secure: SecureKafka, tmp_path: Path
) -> None:
    """Kept promise: a wrong password is said with cluster and Secret, and the right one works from its version on."""
    data = secure.password("SASLTLS", MECHANISM, "wrong")
    wrong = cluster_with(tmp_path, secure.address("SASLTLS"), data)
    until(lambda: "does not let us in" in clusters.problem(wrong), "it is said")
    assert secure.address("SASLTLS") in clusters.problem(wrong)
    assert SECRET in clusters.problem(wrong)
    right = cluster_with(tmp_path, secure.address("SASLTLS"), secure.password("SASLTLS", MECHANISM))
    assert right.version != wrong.version
    until(lambda: clusters.problem(right) == "", "the right one works")
    clusters.keep_only([right])
    assert clusters.java_settings(right)["security.protocol"] == "SASL_SSL"


def test_a_secret_that_is_missing_is_named(clusters: Clusters) -> None:
    """Kept promise: nothing is tried without credentials that a resource asks for."""
    for ask in (clusters.connection, clusters.clients, clusters.java_settings, clusters.require):
        with pytest.raises(Misconfigured, match="Secret shop/kafka does not exist"):
            ask(Cluster("there:9092", SECRET, "v1"))


def test_a_cluster_that_is_away_holds_up_nobody(clusters: Clusters) -> None:
    """Kept promise: whoever serves many clusters learns at once that one does not answer."""
    away = Cluster(f"127.0.0.1:{free_port()}")
    with pytest.raises(PenstockError):
        clusters.require(away)
    began = time.monotonic()
    for _ in range(50):
        with pytest.raises(PenstockError):
            clusters.require(away)
    assert time.monotonic() - began < 10  # fifty that wait for the network take far longer
    until(lambda: "does not answer" in clusters.problem(away), "the reason is known")
    assert away.bootstrap_servers in clusters.problem(away)
    clusters.require(HOME)


@needs_openssl
def test_a_bell_rings_for_the_cluster_of_its_topic(
    clusters: Clusters, secure: SecureKafka, kafka: KafkaConnection, tmp_path: Path
) -> None:
    """Kept promise: quiet topics of the same name in two clusters wake for their own records only."""
    there = cluster_with(tmp_path, secure.address("SASLTLS"), secure.password("SASLTLS", MECHANISM))
    topic = f"quiet-{uuid.uuid4()}"
    for cluster in (HOME, there):
        topics.create_missing(clusters.clients(cluster).admin, [topics.TopicSpec(topic)])
    rung: list[str] = []

    def has_rung(times: int) -> bool:
        return len(rung) >= times

    bells = Doorbells(clusters, lambda place, _: rung.append(place))
    for cluster in (HOME, there):
        bells.watch(cluster, topic, {0: 0})
    for number, cluster in enumerate((there, HOME), start=1):
        producer = clusters.connection(cluster).producer()
        producer.produce(topic, b"x", partition=0)
        assert producer.flush(60) == 0
        until(partial(has_rung, number), "the bell")
    assert rung == [place_of(topic, there), topic]
    bells.close()
