"""Who reads whom: what to look at after a change, and who loses what when something goes."""

from typing import Any

import pytest

from penstock.control.dependents import dependents, losses
from penstock.control.kinds import Resource, key_of
from tests.control.objects import (
    broker,
    channel,
    config_map,
    referred,
    secret,
    service,
    sink,
    source,
    stored,
    subscription,
    trigger,
)

LOGIN = {"sasl": {"enable": True, "user": {"secretKeyRef": {"name": "login", "key": "user"}}}}
EVERYTHING = [
    stored(each)
    for each in (
        broker(config={"kind": "ConfigMap", "name": "kafka-config"}),
        config_map(auth_secret_ref_name="login"),
        secret(),
        service(),
        channel(),
        sink(auth={"secret": {"ref": {"name": "login"}}}),
        trigger("audit", subscriber=referred("KafkaChannel", "jobs")),
        subscription("print", subscriber=referred("Service", "printer"), reply=referred("Broker", "orders")),
        subscription(
            "file",
            delivery={"deadLetterSink": referred("KafkaSink", "archive")},
        ),
        source(net=LOGIN, sink=referred("KafkaChannel", "jobs")),
    )
]


def one(key: str) -> Resource:
    [found] = [each for each in EVERYTHING if key_of(each) == key]
    return found


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("Broker/default/orders", {"Trigger/default/audit", "Subscription/default/print"}),
        (
            "KafkaChannel/default/jobs",
            {
                "Trigger/default/audit",
                "Subscription/default/print",
                "Subscription/default/file",
                "KafkaSource/default/legacy",
            },
        ),
        ("KafkaSink/default/archive", {"Subscription/default/file"}),
        ("Service/default/printer", {"Subscription/default/print"}),
        ("ConfigMap/default/kafka-config", {"Broker/default/orders"}),
        # by way of a ConfigMap, of its own, and key by key
        (
            "Secret/default/login",
            {"Broker/default/orders", "KafkaSink/default/archive", "KafkaSource/default/legacy"},
        ),
        ("Subscription/default/file", {"KafkaChannel/default/jobs"}),  # which shows its subscribers
        ("Trigger/default/audit", set()),
        ("KafkaSource/default/legacy", set()),
    ],
)
def test_a_change_reaches_whoever_reads_it(changed: str, expected: set[str]) -> None:
    assert set(dependents(EVERYTHING, one(changed))) == expected


@pytest.mark.parametrize(
    ("going", "expected"),
    [
        ("Broker/default/orders", {("audit", "events"), ("print", "destination")}),
        (
            "KafkaChannel/default/jobs",
            {("print", "events"), ("file", "events"), ("audit", "destination"), ("legacy", "destination")},
        ),
        ("KafkaSink/default/archive", {("file", "destination")}),
        ("ConfigMap/default/kafka-config", {("orders", "settings")}),
        ("Secret/default/login", {("orders", "credentials"), ("archive", "credentials"), ("legacy", "credentials")}),
        ("Subscription/default/print", set()),  # its channel only shows it
        ("Trigger/default/audit", set()),
    ],
)
def test_who_loses_what(going: str, expected: set[tuple[str, str]]) -> None:
    """Kept promise: a deletion can say who is left behind, and without what."""
    assert {(each.name, each.loses) for each in losses(EVERYTHING, one(going))} == expected


def test_who_is_going_too_loses_nothing() -> None:
    leaving: dict[str, Any] = stored(trigger("audit"))
    leaving["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z"
    assert losses([leaving], stored(broker())) == []


def test_namespaces_are_told_apart() -> None:
    elsewhere = stored(broker(namespace="elsewhere"))
    assert dependents(EVERYTHING, elsewhere) == []
    across = stored(
        trigger("across", subscriber={"ref": {**referred("Broker", "orders")["ref"], "namespace": "elsewhere"}})
    )
    assert dependents([across], elsewhere) == ["Trigger/default/across"]


def test_the_settings_of_all_channels_concern_all_channels() -> None:
    config = config_map("kafka-channel-config")
    config["metadata"]["namespace"] = "knative-eventing"
    assert dependents(EVERYTHING, stored(config)) == ["KafkaChannel/default/jobs"]
