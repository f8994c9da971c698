"""Channels, subscriptions, sources, sinks, Services and Secrets on the command line, against a real controller."""

import json
import urllib.request
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli import complete
from penstock.control.kinds import KINDS
from tests.cli.conftest import Bench
from tests.waiting import until

Run = Callable[..., str]

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: printer}
spec: {type: ExternalName, externalName: 127.0.0.1, ports: [{port: 9}]}
"""
CHANNEL = """
apiVersion: messaging.knative.dev/v1beta1
kind: KafkaChannel
metadata: {name: jobs}
spec: {numPartitions: 1}
"""
SUBSCRIPTION = """
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: print}
spec:
  channel: {apiVersion: messaging.knative.dev/v1beta1, kind: KafkaChannel, name: jobs}
  subscriber: {ref: {apiVersion: v1, kind: Service, name: printer}, uri: /jobs}
  reply: {ref: {apiVersion: eventing.knative.dev/v1alpha1, kind: KafkaSink, name: archive}}
"""
SINK = """
apiVersion: eventing.knative.dev/v1alpha1
kind: KafkaSink
metadata: {name: archive}
spec: {topic: archived-jobs, numPartitions: 2}
"""
SOURCE = """
apiVersion: sources.knative.dev/v1
kind: KafkaSource
metadata: {name: archived}
spec:
  topics: [archived-jobs]
  consumerGroup: readers
  bootstrapServers: ["my-cluster-kafka-bootstrap.kafka:9092"]
  sink: {ref: {apiVersion: v1, kind: Service, name: printer}}
"""
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {user: alice, password: hunter2}
"""
NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata: {name: default}
"""
EVERYTHING = "---".join([SERVICE, CHANNEL, SUBSCRIPTION, SINK, SOURCE, SECRET])
READY = ("kafkachannel/jobs", "kafkasink/archive", "subscription/print", "kafkasource/archived")


@pytest.fixture
def everything(penstock: Run) -> None:
    penstock("apply", "-f", "-", stdin=EVERYTHING)
    penstock("wait", *READY)


def cells(shown: str) -> dict[str, str]:
    """Of a table with one row, cut where its headings begin."""
    heading, line = shown.splitlines()
    begins = [heading.index(f" {word}") + 1 if heading.index(word) else 0 for word in heading.split()]
    ends = [*begins[1:], max(len(heading), len(line)) + 1]
    return {heading[a:b].strip(): line[a:b].strip() for a, b in zip(begins, ends, strict=True)}


@pytest.mark.usefixtures("everything")
def test_each_kind_has_its_columns(controller: Bench, penstock: Run) -> None:
    """Kept promise: one line says where a resource comes from and leads to."""
    ingress = controller.ingress.url.rstrip("/")

    def row(kind: str, *options: str) -> dict[str, str]:
        found = cells(penstock("get", kind, *options))
        return {head: text for head, text in found.items() if head not in ("NAME", "READY", "REASON", "AGE")}

    until(lambda: row("channel")["SUBSCRIBERS"] == "1", "the channel knows its subscriber")
    topic = "knative-messaging-kafka.default.jobs"
    assert row("channel") == {"URL": f"{ingress}/default/jobs", "TOPIC": topic, "SUBSCRIBERS": "1"}
    assert row("subs") == {
        "CHANNEL": "jobs", "SUBSCRIBER": "http://127.0.0.1:9/jobs", "REPLY": f"{ingress}/default/archive", "LAG": "0",
    }  # fmt: skip
    assert row("ks") == {"TOPICS": "archived-jobs", "SINK": "http://127.0.0.1:9/", "GROUP": "readers", "LAG": "0"}
    assert row("sink", "-o", "wide") == {
        "TOPIC": "archived-jobs", "URL": f"{ingress}/default/archive", "PARTITIONS": "2", "MODE": "structured",
        "SERVERS": "home",
    }  # fmt: skip
    assert row("svc") == {"ADDRESS": "http://127.0.0.1:9/"}
    assert row("secrets") == {"KEYS": "password,user"}


@pytest.mark.usefixtures("everything")
def test_describe_tells_what_each_kind_is_about(penstock: Run) -> None:
    channel = penstock("describe", "kafkachannel/jobs")
    for said in ("knative-messaging-kafka.default.jobs (1 partition)", "jobs-kn-channel.default.svc", "print"):
        assert said in channel
    source = penstock("describe", "kafkasource/archived")
    for said in (
        "my-cluster-kafka-bootstrap.kafka:9092",
        "readers",
        "TOPIC           PARTITION   POSITION   END   LAG",
    ):
        assert said in source
    assert "the topic goes with the sink" in penstock("describe", "kafkasink/archive")
    subscription = json.loads(penstock("describe", "subscription/print", "-o", "json"))
    assert [each["topic"] for each in subscription["lag"]["partitions"]] == ["knative-messaging-kafka.default.jobs"]
    assert json.loads(penstock("describe", "channel/jobs", "-o", "json"))["subscriptions"] == ["print"]


@pytest.mark.usefixtures("everything")
def test_a_secret_is_shown_by_its_keys_alone(penstock: Run) -> None:
    """Kept promise: no command prints a word of a Secret."""
    shown = penstock("describe", "secret/login")
    for output in ("json", "yaml", "wide", "name"):
        shown += penstock("get", "secret", "login", "-o", output)
    shown += penstock("apply", "-f", "-", "-o", "json", "--dry-run", stdin=SECRET)
    assert "password" in shown
    assert "hunter2" not in shown
    assert "aHVudGVyMg" not in shown


@pytest.mark.usefixtures("everything")
def test_the_dashboard_and_the_metrics_know_all_kinds(controller: Bench) -> None:
    script = urllib.request.urlopen(f"{controller.server}/static/api.js").read().decode()
    for kind in KINDS:
        assert f'{kind.name}: ["{kind.api_version}", "{kind.plural}"]' in script

    def metrics() -> str:
        return str(urllib.request.urlopen(f"{controller.server}/metrics").read().decode())

    assert 'penstock_resources{kind="KafkaSink",ready="True"} 1' in metrics()
    lag = 'penstock_subscription_lag_events{{kind="{}",namespace="default",name="{}"}} 0'
    lags = [lag.format("Subscription", "print"), lag.format("KafkaSource", "archived")]
    until(lambda: all(each in metrics() for each in lags), "their lags")
    status = json.loads(controller.run("status", "-o", "json").stdout)
    assert [each["metadata"]["name"] for each in status["kafkachannels"]] == ["jobs"]
    assert "kafkasources" in controller.run("status").stdout


@pytest.mark.usefixtures("everything")
def test_events_go_to_channels_and_sinks_and_to_nothing_else(controller: Bench, penstock: Run) -> None:
    for target, path in (("channel/jobs", "/default/jobs"), ("kafkasink/archive", "/default/archive")):
        assert f"{path}: id" in penstock("send", target, "--type", "a", "--source", "/b", "--data", "1")
        assert [each for each in controller.ingress.at(path) if each.method == "POST"]
    done = controller.run("send", "subscription/print", "--type", "a", "--source", "/b")
    assert (done.returncode, "a subscription takes no events" in done.stderr) == (2, True)


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("target", ["subscription/print", "kafkasource/archived"])
def test_what_has_events_delivered_can_be_paused(penstock: Run, target: str) -> None:
    """Kept promise: a pause shows in the list, and ends."""
    assert penstock("pause", target, "--reason", "tea") == f"{target} paused\n"
    until(lambda: cells(penstock("get", target))["REASON"] == "Paused", "the list says so")
    assert "tea" in penstock("describe", target)
    assert penstock("resume", target) == f"{target} resumed\n"
    until(lambda: cells(penstock("get", target))["REASON"] == "", "the list says so")


def test_what_takes_events_cannot_be_paused(controller: Bench) -> None:
    done = controller.run("pause", "kafkachannel/jobs")
    assert (done.returncode, "these can: trigger, subscription, kafkasource" in done.stderr) == (2, True)


def test_a_dry_run_tells_what_would_change_and_changes_nothing(controller: Bench, penstock: Run) -> None:
    """Kept promise: created, configured with its fields, unchanged; and afterwards all is as before."""
    both = f"{CHANNEL}---{SECRET}"
    assert penstock("apply", "-f", "-", "--dry-run", stdin=both) == (
        "kafkachannel/jobs created (dry run)\nsecret/login created (dry run)\n"
    )
    assert controller.run("get", "all").stdout == ""
    penstock("apply", "-f", "-", stdin=both)
    changed = both.replace("numPartitions: 1", "numPartitions: 1, delivery: {retry: 3}").replace("hunter2", "other")
    assert penstock("apply", "-f", "-", "--dry-run", stdin=changed) == (
        'kafkachannel/jobs configured (dry run)\n  spec.delivery: (none) -> {"retry": 3}\n'
        "secret/login configured (dry run)\n  data: other values, which are not shown\n"
    )
    assert penstock("apply", "-f", "-", "--dry-run", stdin=both) == (
        "kafkachannel/jobs unchanged (dry run)\nsecret/login unchanged (dry run)\n"
    )
    done = controller.run("apply", "-f", "-", "--dry-run", stdin=both.replace("numPartitions: 1", "numPartitions: 2"))
    assert (done.returncode, "spec.numPartitions: is immutable" in done.stderr) == (3, True)


def test_a_namespace_in_a_manifest_is_left_out(controller: Bench, penstock: Run) -> None:
    """Kept promise: Knative's examples, which make a namespace first, are applied and deleted as they stand."""
    done = controller.run("apply", "-f", "-", stdin=f"{NAMESPACE}---{SERVICE}")
    assert (done.returncode, done.stdout) == (0, "service/printer created\n")
    assert "document 1: the Namespace is left out" in done.stderr
    assert penstock("delete", "-f", "-", stdin=f"{NAMESPACE}---{SERVICE}") == "service/printer deleted\n"
    assert controller.run("apply", "-f", "-", stdin=NAMESPACE).returncode == 0
    assert controller.run("apply", "-f", "-", stdin=NAMESPACE.replace("Namespace", "Pod")).returncode == 1


@pytest.mark.usefixtures("everything")
def test_readers_are_deleted_before_what_they_read(controller: Bench) -> None:
    done = controller.run("delete", "-f", "-", stdin=EVERYTHING)
    gone = [line.split("/")[0] for line in done.stdout.splitlines()]
    assert gone == ["subscription", "kafkasource", "kafkachannel", "kafkasink", "service", "secret"]
    assert done.stderr == ""  # nobody stays behind


@pytest.mark.usefixtures("everything")
def test_who_is_left_behind_is_told(controller: Bench) -> None:
    """Kept promise: who loses events or a destination is named before it is too late to know."""
    done = controller.run("delete", "channel/jobs")
    assert (done.returncode, done.stderr) == (0, "subscription/print loses its events\n")
    done = controller.run("delete", "service", "printer", "-o", "json")
    assert done.stderr == "kafkasource/archived, subscription/print lose where they send to\n"
    assert json.loads(done.stdout)["dependents"] == [
        {"kind": "KafkaSource", "namespace": "default", "name": "archived", "loses": "destination"},
        {"kind": "Subscription", "namespace": "default", "name": "print", "loses": "destination"},
    ]


def test_dead_letters_are_asked_for_by_kind_and_name(controller: Bench) -> None:
    assert controller.run("deadletters", "list", "--of", "subscription/print").returncode == 0
    done = controller.run("deadletters", "list", "--of", "channel/jobs")
    assert (done.returncode, "has no dead letters" in done.stderr) == (2, True)
    assert controller.run("deadletters", "list", "--of", "trigger/a", "--trigger", "a").returncode == 2


@pytest.mark.usefixtures("everything")
def test_the_shell_completes_what_there_is(controller: Bench) -> None:
    context: Any = SimpleNamespace(params={"server": controller.server, "namespace": "default"})
    assert complete.addresses(context, "kafka") == ["kafkachannel/jobs", "kafkasink/archive"]
    assert complete.receivers(context, "") == ["trigger", "subscription", "kafkasource"]
    assert complete.receivers(context, "subscription/") == ["subscription/print"]
    assert complete.targets(context, "kafkaso") == ["kafkasource/archived"]
    assert complete.namespaces(context, "d") == ["default"]
    context.params["server"] = "http://127.0.0.1:1"
    assert complete.targets(context, "") == []
