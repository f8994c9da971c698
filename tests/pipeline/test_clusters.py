"""Promises of a dispatcher whose topics are in another cluster, with TLS and passwords; its ledger is at home."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from penstock.contract.model import (
    CLAIMS_TOPIC,
    CONTRACT_TOPIC,
    DEAD_LETTERS_TOPIC,
    HOME,
    LEDGER_TOPIC,
    QUERY,
    REPORT_TOPIC,
    Agreement,
    Cluster,
    QueryReport,
    Subscription,
    decode_dead_letter,
    decode_report,
    encode,
)
from penstock.contract.telemetry import TELEMETRY_TOPIC
from penstock.event.kafka import encode_record
from penstock.event.model import Event
from penstock.kafka import ledger, secret_files, topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.group_image import MARK
from penstock.kafka.groups import Committed, Groups
from penstock.kafka.server_files import ClusterSpec
from penstock.kafka.table import Table, put
from penstock.ports import free_port
from tests.certificates import needs_openssl
from tests.disk import contents
from tests.kafka.secure import PASSWORD, USER, SecureKafka, Way, running
from tests.sink import Request, Sink
from tests.waiting import until

pytestmark = needs_openssl
MakeSink = Callable[[], Sink]
ONE_MINUTE = 60
SECRET, MECHANISM = "shop/elsewhere", "SCRAM-SHA-256"
NEW_PASSWORD = "another-secret-of-ann"


@dataclass
class World:
    """A Kafka at home with a dispatcher, and a secured one elsewhere."""

    home: KafkaConnection
    secure: SecureKafka
    folder: Path

    @property
    def log(self) -> str:
        return (self.folder / "dispatcher.log").read_text()

    def cluster(self, password: str = PASSWORD) -> Cluster:
        """The secured one, as the contract names it once the Secret has this password."""
        return self.with_secret("SASLTLS", SECRET, self.secure.password("SASLTLS", MECHANISM, password))

    def with_secret(self, way: Way, secret: str, data: dict[str, str]) -> Cluster:
        raw = {key: value.encode() for key, value in data.items()}
        secrets_dir = secret_files.folder(str(self.folder), "")
        secret_files.write(secrets_dir, secret, raw)
        return Cluster(self.secure.address(way), secret, secret_files.version_of(secrets_dir, raw))

    def is_running_since(self, place: str, began: float) -> bool:
        report = self.report(place)
        return report is not None and report.state == "running" and report.since > began

    def subscribe(self, url: str, cluster: Cluster, topic: str = "", **fields: Any) -> Subscription:
        """To a topic of its own, or to this one, from its beginning."""
        kafka = self.home if cluster.is_home else self.secure.plain
        topic, uid = topic or f"topic-{uuid.uuid4()}", str(uuid.uuid4())
        topics.create_missing(kafka.admin(), [topics.TopicSpec(topic, 2)])
        ledger.StartPositions(self.home).write(uid, topic, self.topic_id(kafka, topic), {0: 0, 1: 0})
        made = Subscription(
            uid, "Trigger", "shop", uid, topic, f"group-{uid}", url, cluster=cluster, **fields
        )  # fmt: skip
        self.agree(made)
        return made

    def agree(self, subscription: Subscription) -> None:
        value = encode(Agreement(subscription.uid, 1, (), (subscription,)))
        put(self.home.producer(), CONTRACT_TOPIC, f"Trigger/shop/{subscription.uid}", value)

    def topic_id(self, kafka: KafkaConnection, topic: str) -> str:
        return topics.describe(kafka.admin(), [topic])[topic].topic_id

    def report(self, place: str) -> QueryReport | None:
        table = Table(self.home, REPORT_TOPIC).start()
        try:
            table.wait_until_current()
            value = table.values.get(QUERY + place)
            return decode_report(value) if value else None
        finally:
            table.stop()

    def state(self, place: str) -> str:
        report = self.report(place)
        return report.state if report is not None else ""

    def gear(self, place: str) -> str:
        report = self.report(place)
        return report.gear if report is not None and report.state == "running" else ""


def send(kafka: KafkaConnection, topic: str, ids: list[str]) -> None:
    producer = kafka.producer()
    for number, identity in enumerate(ids):
        record = encode_record(Event({"specversion": "1.0", "id": identity, "source": "/s", "type": "t"}, b"{}"))
        producer.produce(topic, record.value, headers=record.headers, partition=number % 2)
    assert producer.flush(30) == 0


def ids(requests: list[Request]) -> list[str]:
    return sorted(request.headers["ce-id"] for request in requests)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("dispatcher")
    cluster = EmbeddedKafka(ClusterSpec(folder / "kafka", port=free_port())).start()
    home = cluster.connection
    tables = (CONTRACT_TOPIC, LEDGER_TOPIC, CLAIMS_TOPIC, REPORT_TOPIC)
    specs = [topics.TopicSpec(name, config=topics.COMPACTED) for name in tables]
    topics.create_missing(home.admin(), [*specs, *map(topics.TopicSpec, (TELEMETRY_TOPIC, DEAD_LETTERS_TOPIC))])
    command = [sys.executable, "-m", "penstock.cli.main", "dispatcher"]
    command += ["--bootstrap-servers", home.bootstrap_servers, "--data-dir", str(folder)]
    environment = {**os.environ, "PENSTOCK_QUIET_MINUTES": "0.05"}
    with (
        running(tmp_path_factory.mktemp("secure")) as secure,
        (folder / "dispatcher.log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
    ):
        yield World(home, secure, folder)
        process.terminate()
        assert process.wait(60) == 0
    cluster.stop()


def test_a_topic_of_a_secured_cluster_is_served(world: World, sink: MakeSink) -> None:
    """Kept promise: events, replies and groups are in the topic's cluster, ledger and dead letters at home."""
    subscriber, cluster = sink(), world.cluster()
    replies = f"replies-{uuid.uuid4()}"
    topics.create_missing(world.secure.plain.admin(), [topics.TopicSpec(replies, 2)])
    reply = {"ce-specversion": "1.0", "ce-id": "r", "ce-source": "/r", "ce-type": "reply"}
    subscriber.answer("/there", 200, b"{}", {**reply, "content-type": "application/json"})
    subscriber.answer("/refuses", 400)
    settings = {"max.partition.fetch.bytes": "200000"}
    served = world.subscribe(subscriber.url + "/there", cluster, reply_topic=replies, settings=settings)
    refusing = world.subscribe(subscriber.url + "/refuses", cluster)
    send(world.secure.plain, served.topic, ["a", "b", "c"])
    send(world.secure.plain, refusing.topic, ["bad"])
    assert ids(subscriber.wait_for(3, "/there", ONE_MINUTE)) == ["a", "b", "c"]
    until(lambda: sum(topics.latest_offsets(world.secure.plain.admin(), replies, 2).values()) == 3, "the replies")

    groups = Groups(world.secure.plain)
    shown = {(served.topic, 0): Committed(2, MARK), (served.topic, 1): Committed(1, MARK)}
    until(lambda: groups.offsets([served.group])[served.group] == shown, "the group shows it")
    groups.close()
    lane = ledger.LaneKey(served.uid, world.topic_id(world.secure.plain, served.topic), 0)
    entry = ledger.read_ledger(world.home).entry(lane)
    assert entry is not None
    assert entry.record.position == 2

    def letters() -> list[str]:
        table = Table(world.home, DEAD_LETTERS_TOPIC).start()
        table.wait_until_current()
        table.stop()
        found = (decode_dead_letter(value) for value in table.values.values())
        return [each.id for each in found if each.uid == refusing.uid]

    until(lambda: letters() == ["bad"], "the dead letter at home")


def test_a_quiet_topic_elsewhere_goes_cold_and_wakes(world: World, sink: MakeSink) -> None:
    """Kept promise: the bell of that cluster rings, and what comes is delivered once."""
    subscriber = sink()
    served = world.subscribe(subscriber.url + "/cold", world.cluster())
    send(world.secure.plain, served.topic, ["a"])
    subscriber.wait_for(1, "/cold", ONE_MINUTE)
    until(lambda: world.gear(served.place) == "cold", "cold gear")
    send(world.secure.plain, served.topic, ["b"])
    assert ids(subscriber.wait_for(2, "/cold", ONE_MINUTE)) == ["a", "b"]


def test_two_addresses_of_one_topic_are_served_side_by_side(world: World, sink: MakeSink) -> None:
    """Kept promise: whoever reads home's own topic with credentials does not get into the way of the others."""
    subscriber = sink()
    plain = Cluster(world.secure.plain.bootstrap_servers)
    first = world.subscribe(subscriber.url + "/plain", plain)
    second = world.subscribe(subscriber.url + "/guarded", world.cluster(), topic=first.topic)
    until(lambda: world.state(first.place) == world.state(second.place) == "running", "both run")
    for number in range(4):
        send(world.secure.plain, first.topic, [f"{number}a", f"{number}b"])
        for path in ("/plain", "/guarded"):
            subscriber.wait_for(2 * number + 2, path, ONE_MINUTE)
    assert ids(subscriber.at("/plain")) == ids(subscriber.at("/guarded"))
    assert len(subscriber.at("/plain")) == 8
    assert "another dispatcher has taken" not in world.log


def test_a_certificate_changes_while_it_runs(world: World, sink: MakeSink) -> None:
    """Kept promise: Spark shows the certificate of the Secret, and the next one from its version on."""
    subscriber = sink()

    def certified(name: str) -> Cluster:
        pair = world.secure.authority.issue(name)
        data = {"protocol": "SSL", "ca.crt": world.secure.authority.certificate}
        data |= {"user.crt": pair.certificate, "user.key": pair.key}
        return world.with_secret("MUTUAL", "shop/certificate", data)

    served = world.subscribe(subscriber.url + "/certified", certified("first"))
    send(world.secure.plain, served.topic, ["a", "b"])
    subscriber.wait_for(2, "/certified", ONE_MINUTE)
    began = time.time()
    world.agree(msgspec.structs.replace(served, cluster=certified("second")))
    until(lambda: world.is_running_since(served.place, began), "a query with the new certificate")
    send(world.secure.plain, served.topic, ["c", "d"])
    assert ids(subscriber.wait_for(4, "/certified", ONE_MINUTE)) == ["a", "b", "c", "d"]


def test_a_cluster_that_is_away_is_said_and_the_others_go_on(world: World, sink: MakeSink) -> None:
    """Kept promise: its report is "failed" and names the cluster; events of other clusters come as ever."""
    subscriber = sink()
    at_home = world.subscribe(subscriber.url + "/home", HOME)
    send(world.home, at_home.topic, ["a"])
    subscriber.wait_for(1, "/home", ONE_MINUTE)
    away = Cluster(f"127.0.0.1:{free_port()}", SECRET, world.cluster().version)
    lost = Subscription("lost", "Trigger", "shop", "lost", "lost", "lost", subscriber.url, cluster=away)
    world.agree(lost)
    until(lambda: world.state(lost.place) == "failed", "it is said")

    def reason() -> str:
        report = world.report(lost.place)
        return report.reason if report is not None else ""

    until(lambda: f"Kafka at {away.bootstrap_servers} (Secret {SECRET})" in reason(), "cluster and Secret are named")
    for number in range(5):
        send(world.home, at_home.topic, [f"b{number}"])
        subscriber.wait_for(2 + number, "/home", ONE_MINUTE)
    put(world.home.producer(), CONTRACT_TOPIC, "Trigger/shop/lost", None)


def test_a_password_changes_while_it_runs(world: World, sink: MakeSink) -> None:
    """Kept promise: with the new version of the Secret queries go on where they were; no secret was ever shown."""
    subscriber = sink()
    served = world.subscribe(subscriber.url + "/rotated", world.cluster())
    send(world.secure.plain, served.topic, ["a", "b"])
    subscriber.wait_for(2, "/rotated", ONE_MINUTE)
    credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    changed = UserScramCredentialUpsertion(USER, credentials, NEW_PASSWORD.encode())
    admin = world.secure.plain.admin()
    admin.alter_user_scram_credentials([changed])[USER].result(30)
    began = time.time()
    later = world.cluster(NEW_PASSWORD)
    assert later != served.cluster
    world.agree(msgspec.structs.replace(served, cluster=later))
    until(lambda: world.is_running_since(served.place, began), "a query with the new password")
    send(world.secure.plain, served.topic, ["c", "d"])
    until(lambda: {"c", "d"} <= set(ids(subscriber.at("/rotated"))), "what came later", ONE_MINUTE)
    assert ids(subscriber.at("/rotated")) == ["a", "b", "c", "d"]
    for secret in (PASSWORD, NEW_PASSWORD):
        assert secret not in world.log
        assert not [path for path, content in contents(world.folder / "scratch") if secret.encode() in content]
