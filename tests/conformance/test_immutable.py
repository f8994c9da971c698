"""What cannot be changed once it is there: it has to be deleted and made anew."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.api import Resource
from tests.conformance.stage import BROKER_CLASS, Stage

Alter = Callable[[Resource], object]


def broker_class(broker: Resource) -> None:
    broker["metadata"]["annotations"][BROKER_CLASS] = "MTChannelBasedBroker"


def broker_config(broker: Resource) -> None:
    broker["spec"]["config"]["name"] = "another"


def no_broker_config(broker: Resource) -> None:
    del broker["spec"]["config"]


def trigger_broker(trigger: Resource) -> None:
    trigger["spec"]["broker"] = "another"


def subscription_channel(subscription: Resource) -> None:
    subscription["spec"]["channel"]["name"] = "another"


def spec_field(name: str, value: Any) -> Alter:
    def alter(resource: Resource) -> None:
        resource["spec"][name] = value

    return alter


CHANGES: dict[str, tuple[str, Alter]] = {
    "broker-class": ("Broker", broker_class),
    "broker-config": ("Broker", broker_config),
    "broker-config-removed": ("Broker", no_broker_config),
    "trigger-broker": ("Trigger", trigger_broker),
    "subscription-channel": ("Subscription", subscription_channel),
    "channel-partitions": ("KafkaChannel", spec_field("numPartitions", 7)),
    "channel-replication": ("KafkaChannel", spec_field("replicationFactor", 3)),
    "channel-retention": ("KafkaChannel", spec_field("retentionDuration", "PT1H")),
    "source-group": ("KafkaSource", spec_field("consumerGroup", "another")),
    "sink-topic": ("KafkaSink", spec_field("topic", "another")),
    "sink-partitions": ("KafkaSink", spec_field("numPartitions", 7)),
    "sink-replication": ("KafkaSink", spec_field("replicationFactor", 3)),
}


def named(kind: str) -> str:
    """A system may give addresses by name, whatever the kind."""
    return f"immutable-{kind.lower()}"


@pytest.fixture(scope="module")
def made(stage: Stage) -> Callable[[str], None]:
    """Makes one resource of a kind, once, without waiting until it is ready."""
    servers, seen = [stage.bootstrap_servers or "localhost:9092"], set[str]()

    def make(kind: str) -> None:
        if kind in seen:
            return
        if not stage.api.serves(kind):
            pytest.skip(f"this system does not serve {kind}")
        seen.add(kind)
        specs: dict[str, dict[str, Any]] = {
            "Broker": stage.broker_parts(named("Broker"))[1]["spec"],
            "Trigger": {"broker": stage.name(named("Broker")), "subscriber": stage.to("/")},
            "KafkaChannel": {"numPartitions": 1, "replicationFactor": 1, "retentionDuration": "PT168H"},
            "Subscription": {
                "channel": stage.reference("KafkaChannel", named("KafkaChannel")), "subscriber": stage.to("/"),
            },
            "KafkaSource": {
                "bootstrapServers": servers, "topics": ["t"], "consumerGroup": "group", "sink": stage.to("/"),
            },
            "KafkaSink": {
                "bootstrapServers": servers, "topic": stage.name("sink"), "numPartitions": 1, "replicationFactor": 1,
            },
        }  # fmt: skip
        annotations = {BROKER_CLASS: "Kafka"} if kind == "Broker" else {}
        stage.make(kind, named(kind), specs[kind], annotations=annotations)

    return make


@pytest.mark.parametrize("name", CHANGES)
def test_change_is_refused(stage: Stage, made: Callable[[str], None], name: str) -> None:
    """A change of what is immutable is refused with the reason, and the stored object stays as it is."""
    kind, alter = CHANGES[name]
    made(kind)
    before = stage.get(kind, named(kind))
    answer = stage.api.change(kind, stage.name(named(kind)), alter)
    assert 400 <= answer.status < 500
    assert answer.body
    after = stage.get(kind, named(kind))
    assert (after["spec"], after["metadata"].get("annotations")) == (
        before["spec"], before["metadata"].get("annotations")
    )  # fmt: skip


def test_other_changes_are_permitted(stage: Stage, made: Callable[[str], None]) -> None:
    """Everything else of a trigger may be changed in place."""
    made("Trigger")
    wanted = {"subscriber": stage.to("/else"), "filter": {"attributes": {"type": "a"}}, "delivery": {"retry": 1}}
    stage.change("Trigger", named("Trigger"), lambda it: it["spec"].update(wanted))
    spec = stage.get("Trigger", named("Trigger"))["spec"]
    assert {name: spec[name] for name in wanted} == wanted
