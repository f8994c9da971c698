"""Two Kafka clusters at once, one plain and one with TLS and SCRAM: brokers on each, events across."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from urllib.error import HTTPError

import pytest

from penstock.contract.model import CONTRACT_TOPIC, REPORT_TOPIC, RESOURCES_TOPIC
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.groups import Groups
from penstock.kafka.table import Table
from tests.conftest import System
from tests.disk import contents
from tests.kafka import secure
from tests.kafka.secure import PASSWORD, SecureKafka
from tests.sink import Sink
from tests.system.resources import apply, broker, get, remove, trigger
from tests.system.test_delivery import ids, send
from tests.system.test_kinds import kafka_sink, ready, ref, source
from tests.waiting import until

MakeSink = Callable[[], Sink]
MECHANISM = "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with secure.running(tmp_path_factory.mktemp("secure")) as found:
        yield found


def secret(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def config_map(name: str, **data: str) -> dict[str, Any]:
    named = {key.replace("_", "."): value for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": named}


def on_secure(kafka: SecureKafka, name: str, password: str = PASSWORD) -> list[dict[str, Any]]:
    """A broker there, with all that it needs."""
    there = broker(name)
    there["spec"] = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": f"{name}-config"}}
    return [
        secret(f"{name}-login", kafka.password("SASLTLS", MECHANISM, password)),
        config_map(
            f"{name}-config", bootstrap_servers=kafka.address("SASLTLS"),
            auth_secret_ref_name=f"{name}-login", default_topic_partitions="2",
        ),
        there,
    ]  # fmt: skip


def put(system: System, *resources: dict[str, Any]) -> None:
    told = system.run("apply", "-f", "-", stdin="\n---\n".join(json.dumps(each) for each in resources))
    assert told.returncode == 0, told.stderr


def test_events_from_a_plain_cluster_to_a_guarded_one_and_back(
    penstock_up: System, sink: MakeSink, kafka: SecureKafka
) -> None:
    """Kept promise: broker, trigger, sink and source on another cluster work as at home, and no secret gets out."""
    subscriber = sink()
    keys = {name: {"secretKeyRef": {"name": "far-login", "key": key}} for name, key in
            (("user", "user"), ("password", "password"), ("type", "sasl.mechanism"))}  # fmt: skip
    net = {
        "sasl": {"enable": True, **keys},
        "tls": {"enable": True, "caCert": {"secretKeyRef": {"name": "far-login", "key": "ca.crt"}}},
    }
    far, near = on_secure(kafka, "far"), broker("near")
    bridge = trigger("bridge", "near", "http://unused/")
    bridge["spec"]["subscriber"] = ref("Broker", "far")
    servers = [kafka.address("SASLTLS")]
    auth = {"secret": {"ref": {"name": "far-login"}}}
    put(penstock_up, *far[:2])
    resources = [
        near, bridge, far[2],
        trigger("arrives", "far", subscriber.url + "/arrives"),
        kafka_sink("far-topic", "far-records", numPartitions=1, bootstrapServers=servers, auth=auth),
        source("from-far", "far-records", subscriber.url + "/back", bootstrapServers=servers, net=net),
    ]  # fmt: skip
    apply(penstock_up, *resources)
    for n in range(10):
        send(penstock_up, "near", f"n-{n}")
        send(penstock_up, "far-topic", f"f-{n}")
    subscriber.wait_for(10, "/arrives", 60)
    subscriber.wait_for(10, "/back", 60)
    assert set(ids(subscriber.at("/arrives"))) == {f"n-{n}" for n in range(10)}
    assert set(ids(subscriber.at("/back"))) == {f"f-{n}" for n in range(10)}
    assert_redriven(penstock_up, subscriber)
    there = kafka.plain.admin()

    def groups() -> list[str]:
        return [each.group_id for each in there.list_consumer_groups().result().valid]

    until(lambda: "knative-trigger-default-arrives" in groups(), "its group is there, too")
    assert_nothing_leaks(penstock_up)
    remove(penstock_up, *resources, *far[:2])
    until(lambda: "knative-trigger-default-arrives" not in groups(), "its group is deleted there")
    until(lambda: "knative-broker-default-far" not in there.list_topics(timeout=60).topics, "its topic is gone")


def assert_redriven(system: System, subscriber: Sink) -> None:
    """A dead letter of a trigger there goes its second way through the topic there."""
    subscriber.answer("/arrives", status=400)
    send(system, "far", "far-refused")
    until(lambda: "far-refused" in ids(subscriber.at("/arrives")), "it was tried")
    subscriber.answer("/arrives", status=200)

    def redriven() -> bool:
        told = system.run("deadletters", "redrive", "far-refused")
        return told.returncode == 0

    until(redriven, "it is sent again")
    until(lambda: ids(subscriber.at("/arrives")).count("far-refused") == 2, "and comes once more")


def assert_nothing_leaks(system: System) -> None:
    """The password is in the secrets' folder and nowhere else."""
    for topic in (RESOURCES_TOPIC, CONTRACT_TOPIC, REPORT_TOPIC):
        table = Table(KafkaConnection(system.bootstrap_servers), topic).start()
        table.wait_until_current(60)
        table.stop()
        assert not any(PASSWORD.encode() in value for value in table.values.values()), topic
    for folder in ("logs", "run", "scratch"):
        for path, content in contents(system.data_dir / folder):
            assert PASSWORD.encode() not in content, path
    assert PASSWORD not in subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
    for arguments in (("get", "secrets", "-o", "yaml"), ("describe", "secret", "far-login"), ("get", "all", "-A")):
        shown = system.run(*arguments)
        assert shown.returncode == 0
        assert PASSWORD not in shown.stdout + shown.stderr
    for path in (system.data_dir / "secrets").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_secret_that_stops_working_is_told_and_heals(
    penstock_up: System, sink: MakeSink, kafka: SecureKafka
) -> None:
    """Kept promise: a wrong password turns Ready False with Kafka's reason, the right one makes it True by itself."""
    subscriber = sink()
    resources = on_secure(kafka, "moody", "wrong")
    put(penstock_up, *resources)
    until(lambda: ready(penstock_up, "broker", "moody")["status"] == "False", "it is told")
    told = ready(penstock_up, "broker", "moody")["message"]
    assert kafka.address("SASLTLS") in told
    assert "default/moody-login" in told
    put(penstock_up, on_secure(kafka, "moody")[0])
    until(lambda: ready(penstock_up, "broker", "moody")["status"] == "True", "it heals")
    reader = trigger("hears-moody", "moody", subscriber.url + "/moody")
    apply(penstock_up, reader)
    send(penstock_up, "moody", "before")
    subscriber.wait_for(1, "/moody", 60)
    put(penstock_up, on_secure(kafka, "moody", "wrong again")[0])
    until(lambda: ready(penstock_up, "broker", "moody")["status"] == "False", "it stopped working")
    put(penstock_up, on_secure(kafka, "moody")[0])
    until(lambda: ready(penstock_up, "broker", "moody")["status"] == "True", "it heals again")

    def arrives() -> bool:
        with contextlib.suppress(HTTPError):  # 503: the receiver may not know of the right password yet
            send(penstock_up, "moody", "after")
        return "after" in ids(subscriber.at("/moody"))

    until(arrives, "events arrive again", 60)
    remove(penstock_up, *resources, reader)


def test_a_group_is_deleted_in_the_cluster_of_its_topic_and_nowhere_else(
    penstock_up: System, sink: MakeSink, kafka: SecureKafka
) -> None:
    """Kept promise: when a trigger or source on another cluster is deleted, its group there is deleted too. A group
    at home with the same name stays."""
    subscriber = sink()
    login = {"secret": {"ref": {"name": "distant-login"}}}
    keys = {name: {"secretKeyRef": {"name": "distant-login", "key": key}} for name, key in
            (("user", "user"), ("password", "password"), ("type", "sasl.mechanism"))}  # fmt: skip
    net = {
        "sasl": {"enable": True, **keys},
        "tls": {"enable": True, "caCert": {"secretKeyRef": {"name": "distant-login", "key": "ca.crt"}}},
    }
    servers = [kafka.address("SASLTLS")]
    there = on_secure(kafka, "distant")
    reads = trigger("reads-distant", "distant", subscriber.url + "/reads")
    to_topic = kafka_sink("distant-topic", "distant-records", numPartitions=1, bootstrapServers=servers, auth=login)
    takes = source("takes-distant", "distant-records", subscriber.url + "/takes", bootstrapServers=servers, net=net)
    put(penstock_up, *there[:2])
    apply(penstock_up, there[2], reads, to_topic, takes)
    send(penstock_up, "distant", "d")
    send(penstock_up, "distant-topic", "r")
    subscriber.wait_for(1, "/reads", 60)
    subscriber.wait_for(1, "/takes", 60)

    uid = get(penstock_up, "kafkasource", "takes-distant")["metadata"]["uid"]
    names = ("knative-trigger-default-reads-distant", f"knative-kafka-source-{uid}")
    far, near = Groups(kafka.plain), Groups(KafkaConnection(penstock_up.bootstrap_servers))
    try:
        until(lambda: all(far.offsets(names)[each] for each in names), "both groups are in the other cluster")
        for name in names:
            near.commit(name, CONTRACT_TOPIC, {0: 5}, "a test")
        before = near.offsets(names)
        assert all(before[each] for each in names)
        remove(penstock_up, reads, takes)
        until(lambda: not any(far.offsets(names)[each] for each in names), "both groups are deleted there")
        for target in ("trigger/reads-distant", "kafkasource/takes-distant"):
            assert penstock_up.run("wait", target, "--for=delete", "--timeout=60s").returncode == 0
        assert near.offsets(names) == before
    finally:
        for name in names:
            near.delete(name)
        far.close()
        near.close()
    remove(penstock_up, there[2], to_topic, *there[:2])
