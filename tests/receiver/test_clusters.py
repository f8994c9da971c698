"""Promises of a receiver in front of two Kafkas: each address leads to its own; one that is away harms no other."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.contract.model import CONTRACT_TOPIC, Agreement, Cluster, Route, encode
from penstock.kafka import secret_files, table, topics
from penstock.kafka.connection import KafkaConnection
from penstock.ports import free_port
from penstock.receiver.routes import Routes
from tests.certificates import needs_openssl
from tests.kafka.secure import SecureKafka
from tests.kafka.secure import running as running_secure
from tests.receiver.running import PARTITIONS, Receiver, count, give_address, running
from tests.waiting import until

pytestmark = needs_openssl
_led: set[str] = set()
SECRET, MECHANISM = "tests/elsewhere", "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with running_secure(tmp_path_factory.mktemp("secure")) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def secrets_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module", autouse=True)
def _taken_back(kafka: KafkaConnection) -> Iterator[None]:
    """The addresses: a receiver of other tests follows the same contract, and would not find these clusters."""
    yield
    for name in _led:
        table.put(kafka.producer(), CONTRACT_TOPIC, f"Broker/tests/{name}", None)


@pytest.fixture(scope="module")
def two_kafkas(kafka: KafkaConnection, secrets_dir: Path) -> Iterator[Receiver]:
    give_address(kafka, "two-kafkas-home")
    with running(kafka, secrets_dir=secrets_dir) as one:
        yield one


def with_secret(secrets_dir: Path, address: str, data: dict[str, str]) -> Cluster:
    raw = {key: value.encode() for key, value in data.items()}
    secret_files.write(secrets_dir, SECRET, raw)
    return Cluster(address, SECRET, secret_files.version_of(secrets_dir, raw))


def lead(kafka: KafkaConnection, name: str, route: Route) -> str:
    _led.add(name)
    agreement = Agreement(uid=name, generation=1, routes=(route,))
    table.put(kafka.producer(), CONTRACT_TOPIC, f"Broker/tests/{name}", encode(agreement))
    return route.path


def status(receiver: Receiver, path: str) -> int:
    return receiver.send(path).status


def test_an_event_goes_to_the_cluster_of_its_address(
    two_kafkas: Receiver, kafka: KafkaConnection, secure: SecureKafka, secrets_dir: Path
) -> None:
    """Kept promise: 202 means that the cluster which the address leads to has it, with its settings."""
    topic = f"elsewhere-{uuid.uuid4()}"
    topics.create_missing(secure.plain.admin(), [topics.TopicSpec(topic, PARTITIONS)])
    there = with_secret(secrets_dir, secure.address("SASLTLS"), secure.password("SASLTLS", MECHANISM))
    settings = {"linger.ms": "5", "compression.type": "zstd", "batch.size": "1000"}
    path = lead(kafka, "elsewhere", Route(f"/tests/{topic}", topic, cluster=there, settings=settings))
    until(lambda: status(two_kafkas, path) == 202, "it is accepted")
    assert count(secure.plain, topic) == 1
    assert topics.describe(kafka.admin(), [topic]) == {}


def test_a_cluster_that_is_away_is_a_503_for_its_own_addresses(
    two_kafkas: Receiver, kafka: KafkaConnection, secrets_dir: Path
) -> None:
    """Kept promise: the others are accepted as ever, and quickly."""
    away = Cluster(f"127.0.0.1:{free_port()}")
    path = lead(kafka, "away", Route("/tests/away", "some-topic", cluster=away))
    until(lambda: status(two_kafkas, path) == 503, "it is refused")
    began = time.monotonic()
    for _ in range(20):
        assert status(two_kafkas, "/tests/two-kafkas-home") == 202
    assert time.monotonic() - began < 15  # a single one that waited would take its whole delivery timeout: 20 s
    assert status(two_kafkas, path) == 503


def test_credentials_change_while_it_runs(
    two_kafkas: Receiver, kafka: KafkaConnection, secure: SecureKafka, secrets_dir: Path
) -> None:
    """Kept promise: wrong ones are a 503 whose log names cluster and Secret; the right version is used at once."""
    topic = f"rotated-{uuid.uuid4()}"
    topics.create_missing(secure.plain.admin(), [topics.TopicSpec(topic, PARTITIONS)])
    address = secure.address("SASLTLS")
    wrong = with_secret(secrets_dir, address, secure.password("SASLTLS", MECHANISM, "never-shown"))
    path = lead(kafka, "rotated", Route(f"/tests/{topic}", topic, cluster=wrong))
    until(lambda: status(two_kafkas, path) == 503, "it is refused")
    right = with_secret(secrets_dir, address, secure.password("SASLTLS", MECHANISM))
    lead(kafka, "rotated", Route(path, topic, cluster=right))
    until(lambda: status(two_kafkas, path) == 202, "it is accepted")
    named = f"Kafka at {address} (Secret {SECRET})"
    until(lambda: any(named in line for line in two_kafkas.log), "the log says why it was refused")
    assert not any("never-shown" in line for line in two_kafkas.log)


@pytest.mark.parametrize("settings", [{"acks": "0"}, {"enable.idempotence": "false"}, {"linger.ms": "soon"}])
def test_settings_that_would_break_a_promise_are_refused(
    two_kafkas: Receiver, kafka: KafkaConnection, settings: dict[str, str]
) -> None:
    """Kept promise: nobody is told 202 for less than acks=all of an idempotent producer."""
    name = f"settings-{uuid.uuid4()}"
    _, topic = give_address(kafka, name)
    path = lead(kafka, name, Route(f"/tests/{name}", topic, settings=settings))
    until(lambda: status(two_kafkas, path) == 503, "it is refused")
    until(lambda: any(next(iter(settings)) in line for line in two_kafkas.log), "the log says why")


def test_a_route_that_has_only_a_host_keeps_its_producer(kafka: KafkaConnection) -> None:
    """Kept promise: whoever is known by a host alone is among the routes that producers are kept for."""
    by_host = Route("", "by-host", hosts=("only.local",), settings={"linger.ms": "5"})
    routes = Routes(kafka)
    routes._changed("Broker/tests/by-host", encode(Agreement("by-host", 1, (by_host, Route("/tests/p", "by-path")))))
    assert {route.topic for route in routes.all} == {"by-host", "by-path"}
