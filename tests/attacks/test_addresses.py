"""Attacks with addresses: resources that lead Penstock to the metadata service of a cloud, in any spelling."""

import pickle
import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.access.addresses import ALWAYS, AddressPolicy
from penstock.contract.model import Cluster
from penstock.errors import Misconfigured
from penstock.kafka import secret_files
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection
from tests.attacks.reconciling import Body, Reconciling, fields, reconciling
from tests.attacks.stranger import Stranger
from tests.control.objects import broker, config_map, secret, service, sink, source, subscription, trigger

ALWAYS_REFUSED = [
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "::169.254.169.254",
    "::ffff:169.254.169.254",
    "fd00:ec2::254",
    "fe80::1",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "168.63.129.016",  # Java's Kafka client reads it as 168.63.129.16, the resolver as 168.63.129.14
    "0169.0254.0169.0254",
]
NOT_PUBLIC = [
    *ALWAYS_REFUSED,
    "fec0::1",
    "127.0.0.1",
    "::1",
    "10.0.0.1",
    "fd00::1",
    "127.1",
    "64:ff9b::7f00:1",
    "010.0.0.1",
]
INJECTED = [
    "user:pw@169.254.169.254/x?y#",
    "user:pw@printer.example",
    "printer.example\r\nX-Evil: 1",
    "printer.example\n",
    "printer.example/x",
    "printer.example?y",
    "printer.example#",
    "printer.example:80",
    "[::1]",
    "%31%36%39.254.169.254",
]


@pytest.fixture(scope="module")
def controller(kafka: KafkaConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reconciling]:
    """With its default settings."""
    with reconciling(kafka, tmp_path_factory.mktemp("addresses")) as made:
        yield made


@pytest.fixture(scope="module")
def careful(kafka: KafkaConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reconciling]:
    """One that refuses private addresses."""
    environment = {"PENSTOCK_PRIVATE_ADDRESSES": "refuse"}
    with reconciling(kafka, tmp_path_factory.mktemp("careful"), environment) as made:
        yield made


@pytest.fixture
def name() -> str:
    """For resources that are accepted: a new name for each test."""
    return f"thief-{uuid.uuid4().hex[:8]}"


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def assert_refused(controller: Reconciling, resource: Body, field: str) -> None:
    for answer in (controller.post(resource), controller.put(resource)):
        assert (answer.status, fields(answer)) == (422, [field]), answer
    assert controller.get(resource) is None


@pytest.mark.parametrize("host", [*INJECTED, *ALWAYS_REFUSED])
def test_an_external_name_is_a_host_and_no_metadata_service(controller: Reconciling, host: str) -> None:
    """Kept promise: a Service names a host and nothing else; the answer to another one names the field."""
    assert_refused(controller, service("thief", externalName=host), "spec.externalName")


def destinations(uri: str) -> dict[str, tuple[Body, str]]:
    """Every field that takes an address for events, and its name."""
    there = {"uri": uri}
    dead = {"deadLetterSink": there}
    return {
        "subscriber": (trigger("thief", subscriber=there), "spec.subscriber.uri"),
        "dead letters of a trigger": (trigger("thief", delivery=dead), "spec.delivery.deadLetterSink.uri"),
        "dead letters of a broker": (broker("thief", delivery=dead), "spec.delivery.deadLetterSink.uri"),
        "reply": (subscription("thief", reply=there), "spec.reply.uri"),
        "sink": (source("thief", sink=there), "spec.sink.uri"),
    }


@pytest.mark.parametrize("host", ALWAYS_REFUSED)
@pytest.mark.parametrize("where", destinations(""))
def test_events_are_not_addressed_to_a_metadata_service(controller: Reconciling, where: str, host: str) -> None:
    """Kept promise: no field that takes an address accepts one of a metadata service."""
    assert_refused(controller, *destinations(f"http://{bracketed(host)}:80/latest")[where])


@pytest.mark.parametrize(
    "uri", ["http://user:pw@169.254.169.254/x?y#", "http://%3169.254.169.254/", "http://a\r\nX: 1"]
)
@pytest.mark.parametrize("where", destinations(""))
def test_no_disguise_hides_the_address_of_a_destination(controller: Reconciling, where: str, uri: str) -> None:
    """Kept promise: user, percent encoding and line ends do not hide where a destination leads."""
    assert_refused(controller, *destinations(uri)[where])


@pytest.mark.parametrize("host", ALWAYS_REFUSED)
def test_a_metadata_service_is_no_kafka(controller: Reconciling, host: str) -> None:
    """Kept promise: neither a source nor a sink names it, alone or beside others."""
    for servers in ([f"{bracketed(host)}:80"], ["kafka.example:9092", f"{bracketed(host)}:80"]):
        field = f"spec.bootstrapServers[{len(servers) - 1}]"
        assert_refused(controller, source("thief", bootstrapServers=servers), field)
        assert_refused(controller, sink("thief", bootstrapServers=servers, numPartitions=1), field)


@pytest.mark.parametrize(
    "servers",
    ["169.254.169.254:80", "kafka.example:9092,169.254.169.254:80", "[fd00:ec2::254]:80", "u:p@kafka.example:80"],
)
def test_a_broker_whose_config_names_a_metadata_service_is_never_ready(
    controller: Reconciling, name: str, servers: str
) -> None:
    """Kept promise: a ConfigMap leads a broker to no such address, and the condition has the reason."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name}
    asked = broker(name, config=reference)
    with controller.applied(config_map(name, bootstrap_servers=servers), asked):
        refused = controller.condition(asked, "ConfigParsed", "False")
        assert "bootstrap.servers" in refused["message"]
        controller.condition(asked, "Ready", "False")


def with_tokens_from(name: str, url: str) -> Body:
    data = {"protocol": "SASL_PLAINTEXT", "user": "alice", "password": "hunter2"}
    return secret(name, **data, **{"sasl.mechanism": "OAUTHBEARER", "tokenUrl": url})


def reading_with_tokens(name: str, server: str) -> Body:
    auth = {"secret": {"ref": {"name": name}}}
    return sink(name, topic="stolen", bootstrapServers=[server], auth=auth)


@pytest.mark.parametrize(
    "url",
    [
        *(f"http://{bracketed(host)}/token" for host in ALWAYS_REFUSED),
        "http://user:pw@169.254.169.254/x?y#",
        "http://169.254.169.254\\@kafka.example/",
        "http://kafka.example/\r\nX-Evil: 1",
    ],
)
def test_tokens_are_not_fetched_from_a_metadata_service(
    controller: Reconciling, stranger: Stranger, name: str, url: str
) -> None:
    """Kept promise: a resource with such a token endpoint is never ready, and its Kafka gets no connection either."""
    before = stranger.connections
    asked = reading_with_tokens(name, stranger.server)
    with controller.applied(with_tokens_from(name, url), asked):
        refused = controller.condition(asked, "Ready", "False")
        assert "the token endpoint at" in refused["message"] or "not an http or https URL" in refused["message"]
        assert "hunter2" not in refused["message"]
        assert stranger.connections == before


@pytest.fixture(scope="module")
def stranger() -> Iterator[Stranger]:
    made = Stranger().start()
    yield made
    made.stop()


def test_the_setting_holds_for_the_clusters_of_resources(careful: Reconciling, stranger: Stranger) -> None:
    """Kept promise: with PENSTOCK_PRIVATE_ADDRESSES=refuse no Kafka in a private network is connected to, except our
    own."""
    asked = source("thief", topics=["stolen"], bootstrapServers=[stranger.server])
    before = stranger.connections
    own = source("own", topics=["stolen"], bootstrapServers=[careful.kafka.bootstrap_servers])
    with careful.applied(asked, own):
        refused = careful.condition(asked, "ConnectionEstablished", "False")
        assert "PENSTOCK_PRIVATE_ADDRESSES is refuse" in refused["message"]
        careful.condition(own, "ConnectionEstablished", "True")
        assert stranger.connections == before


@pytest.mark.parametrize("host", NOT_PUBLIC)
def test_with_the_setting_no_client_is_made_for_an_address_that_is_not_public(tmp_path: Path, host: str) -> None:
    """Kept promise: neither librdkafka, kafka-python nor Java gets such a server or token endpoint."""
    home = KafkaConnection("127.0.0.1:9092,kafka.example:9092")
    clusters = Clusters(home, tmp_path, AddressPolicy("refuse"))
    try:
        for servers in (f"{bracketed(host)}:9093", f"127.0.0.1:9092,{bracketed(host)}:9093"):
            cluster = Cluster(servers)
            with pytest.raises(Misconfigured):
                clusters.java_settings(cluster)
            connection = clusters.connection(cluster)
            for settings in (connection.client_config, connection.group_client_config):
                with pytest.raises(Misconfigured):
                    settings()
    finally:
        clusters.close()


@pytest.mark.parametrize("policy", [ALWAYS, AddressPolicy("refuse")])
@pytest.mark.parametrize("servers", ["127.0.0.1:9092", "KAFKA.internal:9092", "127.0.0.1:9092,kafka.internal:9092"])
def test_our_own_kafka_may_be_anywhere(tmp_path: Path, policy: AddressPolicy, servers: str) -> None:
    """Kept promise: the setting does not hold for the cluster that the operator has named, whoever names it again."""
    clusters = Clusters(KafkaConnection("127.0.0.1:9092,kafka.internal:9092"), tmp_path, policy)
    try:
        found: dict[str, Any] = clusters.connection(Cluster(servers)).client_config()
        assert found["bootstrap.servers"] == servers
        clusters.home.check_addresses()
    finally:
        clusters.close()


@pytest.mark.parametrize("policy", [ALWAYS, AddressPolicy("refuse")])
def test_tokens_for_our_own_kafka_are_not_fetched_from_a_metadata_service(
    tmp_path: Path, policy: AddressPolicy
) -> None:
    """Kept promise: a resource that names our own Kafka with a Secret of its own reaches no such token endpoint, by
    none of the three clients."""
    data = {"protocol": b"SASL_PLAINTEXT", "sasl.mechanism": b"OAUTHBEARER", "user": b"alice", "password": b"hunter2"}
    secret_files.write(tmp_path, "default/thief", {**data, "tokenUrl": b"http://169.254.169.254/token"})
    clusters = Clusters(KafkaConnection("127.0.0.1:9092"), tmp_path, policy)
    cluster = Cluster("127.0.0.1:9092", "default/thief")
    try:
        connection = clusters.connection(cluster)
        unpickled = pickle.loads(pickle.dumps(replace(connection, security=None)))
        assert unpickled.has_our_servers
        for settings in (
            connection.client_config, connection.group_client_config, partial(clusters.java_settings, cluster)
        ):  # fmt: skip
            with pytest.raises(Misconfigured, match="the token endpoint at"):
                settings()
    finally:
        clusters.close()
