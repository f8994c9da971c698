"""Mistakes in each kind are refused by the path of their field; Knative's plain examples pass."""

from typing import Any

import pytest

from penstock.control.validate import collisions, problems
from tests.control.objects import (
    annotated,
    broker,
    channel,
    config_map,
    of_kind,
    referred,
    secret,
    service,
    sink,
    source,
    stored,
    subscription,
    trigger,
)

OURS = ["my-cluster-kafka-bootstrap.kafka:9092"]
DISPLAY = {"ref": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "event-display"}}
CHANNEL = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": "jobs"}


def labelled(resource: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {**resource, "metadata": {**resource["metadata"], "labels": labels}}


def key_of_secret(name: str = "kafka", key: str = "user") -> dict[str, Any]:
    return {"secretKeyRef": {"name": name, "key": key}}


def with_fields(resource: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**resource, **fields}


EXAMPLES = [
    channel(),
    channel(numPartitions=3, replicationFactor=1, retentionDuration="PT168H"),
    of_kind("messaging.knative.dev/v1", "KafkaChannel", "jobs"),
    subscription(subscriber=DISPLAY, reply=referred("Broker", "default"), delivery={"retry": 3}),
    subscription(subscriber=None, reply={"uri": "http://next/"}),
    source(consumerGroup="knative-group", bootstrapServers=OURS, topics=["knative-demo-topic"], sink=DISPLAY),
    of_kind("sources.knative.dev/v1beta1", "KafkaSource", "s", bootstrapServers=OURS, topics=["t"], sink=DISPLAY),
    source(
        consumers=2,
        initialOffset="earliest",
        ordering="unordered",
        ceOverrides={"extensions": {"team": "a"}},
        net={
            "sasl": {"enable": True, "user": key_of_secret(), "password": key_of_secret(), "type": key_of_secret()},
            "tls": {"enable": True, "cert": key_of_secret(), "key": key_of_secret(), "caCert": key_of_secret()},
        },
    ),
    labelled(source(), **{"kafkasources.sources.knative.dev/key-type": "int"}),
    sink(bootstrapServers=OURS),
    sink(numPartitions=10, replicationFactor=3, contentMode="binary", auth={"secret": {"ref": {"name": "login"}}}),
    service(type="ExternalName", ports=[{"port": 8080}]),
    with_fields(secret(password="x"), type="Opaque", data={"user": "YWxpY2U="}),
]


@pytest.mark.parametrize("resource", EXAMPLES, ids=lambda each: each["kind"])
def test_what_knatives_examples_show_is_accepted(resource: dict[str, Any]) -> None:
    assert problems(resource) == []


MISTAKES = [
    # a broker, a trigger and a ConfigMap: more of them in test_validate.py
    (broker(config={"kind": "Secret", "name": "x"}), "spec.config.kind", "must be ConfigMap"),
    (trigger(subscriber=None), "spec.subscriber", "is missing"),
    (with_fields(config_map(), data={"a": 1}), "data[a]", "in quotes"),
    # a channel
    (channel(partitions=3), "spec.partitions", "did you mean numPartitions?"),
    (channel(numPartitions=0), "spec.numPartitions", "whole number"),
    (channel(numPartitions="3"), "spec.numPartitions", "whole number"),
    (channel(replicationFactor=True), "spec.replicationFactor", "whole number"),
    (channel(retentionDuration="7 days"), "spec.retentionDuration", "ISO 8601"),
    (channel(retentionDuration="PT0S"), "spec.retentionDuration", "at least a second"),
    (channel(delivery={"retry": -1}), "spec.delivery.retry", "at least 0"),
    (channel("x" * 230), "metadata.name", "longer than 249"),
    (with_fields(channel(), apiVersion="eventing.knative.dev/v1"), "apiVersion", "messaging.knative.dev/v1beta1"),
    # a subscription
    (subscription(channel="jobs"), "spec.channel", "must be an object"),
    (subscription(channel={**CHANNEL, "kind": "InMemoryChannel"}), "spec.channel.kind", "must be KafkaChannel"),
    (subscription(channel={**CHANNEL, "apiVersion": "v1"}), "spec.channel.apiVersion", "must be messaging"),
    (subscription(channel={**CHANNEL, "name": "Jobs"}), "spec.channel.name", "DNS-1123"),
    (subscription(subscriber=None), "spec.subscriber", "or at least a reply"),
    (subscription(reply={"uri": "/below"}), "spec.reply.uri", "absolute"),
    (subscription(subscriber=referred("Service", "x", uri="http://y/")), "spec.subscriber.uri", "must be relative"),
    (subscription(subscriber={"ref": {"kind": "Service", "name": "x"}}), "spec.subscriber.ref.apiVersion", "missing"),
    (subscription(filter={}), "spec.filter", "unknown field"),
    (
        annotated(subscription(), **{"kafka.eventing.knative.dev/delivery.order": "random"}),
        "metadata.annotations[kafka.eventing.knative.dev/delivery.order]",
        "not one of",
    ),
    (
        annotated(subscription(), **{"penstock.dev/start": "yesterday"}),
        "metadata.annotations[penstock.dev/start]",
        "a time",
    ),
    # a source
    (source(topics=[]), "spec.topics", "a list of topics"),
    (source(topics="orders"), "spec.topics", "a list of topics"),
    (source(topics=["a", "a"]), "spec.topics", "twice"),
    (source(topics=["a b"]), "spec.topics[0]", "not a name Kafka allows"),
    (source(topics=["penstock-ledger"]), "spec.topics[0]", "internal use"),
    (source(sink=None), "spec.sink", "is missing"),
    (source(sink={}), "spec.sink", "uri or a ref"),
    (source(bootstrapServers="kafka:9092"), "spec.bootstrapServers", "a list of host:port"),
    (source(bootstrapServers=["a:1", "kafka"]), "spec.bootstrapServers[1]", "not host:port"),
    (source(consumers=-1), "spec.consumers", "from 0"),
    (source(consumerGroup="a b"), "spec.consumerGroup", "no name of a consumer group"),
    (source(initialOffset="soon"), "spec.initialOffset", "earliest, latest or a time"),
    (source(ordering="sorted"), "spec.ordering", "not one of"),
    (
        source(ceOverrides={"extensions": {"Team": "a"}}),
        "spec.ceOverrides.extensions[Team]",
        "no name of an attribute",
    ),
    (source(ceOverrides={"extensions": {"type": "a"}}), "spec.ceOverrides.extensions[type]", "never altered"),
    (source(ceOverrides={"extensions": {"team": 1}}), "spec.ceOverrides.extensions[team]", "must be text"),
    (source(net={"ssl": {}}), "spec.net.ssl", "unknown field"),
    (source(net={"sasl": {"enable": "yes"}}), "spec.net.sasl.enable", "true or false"),
    (source(net={"sasl": {"user": "alice"}}), "spec.net.sasl.user", "secretKeyRef"),
    (source(net={"tls": {"cert": key_of_secret(key="")}}), "spec.net.tls.cert.secretKeyRef.key", "is missing"),
    (
        labelled(source(), **{"kafkasources.sources.knative.dev/key-type": "long"}),
        "metadata.labels[kafkasources.sources.knative.dev/key-type]",
        "not one of",
    ),
    (
        annotated(source(), **{"penstock.dev/start": "earliest"}),
        "metadata.annotations[penstock.dev/start]",
        "spec.initialOffset",
    ),
    # a sink
    (sink(topic=None), "spec.topic", "is missing"),
    (sink(topic="__consumer_offsets"), "spec.topic", "internal use"),
    (sink(contentMode="batch"), "spec.contentMode", "not one of structured, binary"),
    (sink(auth={"secret": "login"}), "spec.auth.secret", "must be an object"),
    (sink(auth={"secret": {"ref": {}}}), "spec.auth.secret.ref.name", "is missing"),
    (sink(auth={"secrets": {}}), "spec.auth.secrets", "did you mean secret?"),
    (sink(delivery={}), "spec.delivery", "unknown field"),
    # a Service, a Secret
    (service(externalName=None), "spec.externalName", "is missing"),
    (service(type="ClusterIP"), "spec.type", "must be ExternalName"),
    (service(ports=[{"port": 99999}]), "spec.ports[0].port", "65,535"),
    (service(ports="80"), "spec.ports", "a list of objects"),
    (with_fields(secret(), data={"password": "hunter2!"}), "data[password]", "base64"),
    (with_fields(secret(), stringData={"password": 12345}), "stringData[password]", "in quotes"),
    (with_fields(secret(), stringData="x"), "stringData", "a map"),
    (with_fields(secret(), strngData={}), "strngData", "did you mean stringData?"),
]


@pytest.mark.parametrize(
    ("resource", "field", "word"), MISTAKES, ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_mistake_is_named_by_its_field_and_alone(resource: dict[str, Any], field: str, word: str) -> None:
    [problem] = problems(resource)
    assert problem.field == field
    assert word in problem.message


@pytest.mark.parametrize("value", ["hunter2!", 12345, ["hunter2!"], {"a": "hunter2!"}, True])
@pytest.mark.parametrize("field", ["data", "stringData"])
def test_no_problem_quotes_a_secret(field: str, value: object) -> None:
    """Kept promise: an error never holds a word of a Secret."""
    told = repr(problems(with_fields(secret(), **{field: {"password": value}})))
    assert "hunter2" not in told
    assert "12345" not in told


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (channel(numPartitions=2), channel(numPartitions=3), "spec.numPartitions"),
        (channel(), channel(retentionDuration="PT1H"), "spec.retentionDuration"),
        (subscription(), subscription(channel={**CHANNEL, "name": "other"}), "spec.channel"),
        (source(), source(consumerGroup="mine"), "spec.consumerGroup"),
        (sink(), sink(topic="other"), "spec.topic"),
        (sink(), sink(bootstrapServers=["far:9092"]), "spec.bootstrapServers"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_immutable_stays(old: dict[str, Any], new: dict[str, Any], field: str) -> None:
    [problem] = problems(new, stored(old))
    assert (problem.field, "is immutable" in problem.message) == (field, True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (channel(), channel(delivery={"retry": 1})),
        (subscription(), subscription(reply={"uri": "http://next/"})),
        (source(), source(topics=["other"], sink={"uri": "http://next/"})),
        (sink(), sink(contentMode="binary", auth={"secret": {"ref": {"name": "login"}}})),
        (service(), service(externalName="other.example")),
    ],
    ids=lambda each: each["kind"],
)
def test_the_rest_may_change(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert problems(new, stored(old)) == []


def test_two_kinds_never_share_an_address() -> None:
    """Kept promise: what is sent to /namespace/name has one place to go."""
    for other in (channel("orders"), sink("orders")):
        [problem] = collisions(broker("orders"), [stored(other)])
        assert (problem.field, "the address /default/orders" in problem.message) == ("metadata.name", True)
    assert collisions(broker("orders"), [stored(broker("orders")), stored(channel("jobs"))]) == []
    assert collisions(trigger("orders"), [stored(channel("orders"))]) == []
