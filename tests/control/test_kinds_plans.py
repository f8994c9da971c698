"""What channels, subscriptions, sources and sinks come to, given the others: values in, values out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.model import HOME, Cluster, RecordsAsEvents, Route
from penstock.control import channels, egress, ingress, sinks, sources, subscriptions
from penstock.control.conditions import true
from penstock.control.egress import Plan, Told
from penstock.control.ingress import Configured, Findings, Surroundings, Topic
from penstock.control.kinds import Resource, key_of
from penstock.control.secrets import Secrets
from penstock.control.settings import ControllerSettings
from penstock.errors import Misconfigured, Unavailable
from penstock.kafka.topics import TopicState
from tests.control.objects import (
    NOON,
    annotated,
    channel,
    config_map,
    referred,
    secret,
    service,
    sink,
    source,
    stored,
    subscription,
)

ALIAS = "my-cluster-kafka-bootstrap.kafka:9092"  # as Knative's examples call their Kafka
SETTINGS = ControllerSettings(bootstrap_servers="kafka:9092")
TOPIC = TopicState("knative-messaging-kafka.default.jobs", "topic-id", 2)
OLD_ORDERS = Topic("old-orders", "old-id", 3)


def among(*resources: Resource, secrets: Path = Path("/nowhere")) -> Surroundings:
    known = {key_of(each): each for each in resources}

    def of_kind(kind: str) -> list[Resource]:
        return [each for each in resources if each["kind"] == kind]

    return Surroundings(
        lambda kind, namespace, name: known.get(f"{kind}/{namespace}/{name}"), of_kind, SETTINGS, Secrets(secrets)
    )


def ready(resource: Resource, config: Configured, topic: TopicState) -> Resource:
    address = f"http://ingress:8080{ingress.path_of(resource)}"
    findings = Findings((true("TopicReady"),), config, topic, address=address)
    return {**resource, "status": ingress.status(resource, findings, NOON)}


def ready_channel(**spec: Any) -> Resource:
    resource = stored(channel(**spec), "channel-uid")
    return ready(resource, channels.configure(resource, among()), TOPIC)


def ready_sink() -> Resource:
    resource = stored(sink(), "sink-uid")
    return ready(resource, sinks.configure(resource, among()), TopicState("archived", "sink-topic-id", 1))


def subscribed(resource: Resource, *others: Resource) -> Plan:
    return subscriptions.plan(resource, among(*others), lambda *_: {})


def finding(*topics: Topic) -> Any:
    """A Kafka that has these topics."""

    def find(cluster: Cluster, wanted: Sequence[str]) -> Mapping[str, Topic]:
        return {each.name: each for each in topics if each.name in wanted}

    return find


def condition_of(plan: Plan, type_: str) -> tuple[str, str]:
    [found] = [each for each in plan.conditions if each.type == type_]
    return found.status, found.reason


# Channels


def test_a_channel_is_a_topic_a_path_and_host_names() -> None:
    """Kept promise: senders of a cluster find a channel under the names that Knative gave it."""
    resource = stored(channel(numPartitions=2, replicationFactor=1, retentionDuration="PT1H"))
    config = channels.configure(resource, among())
    assert (config.topic.name, config.topic.partitions, config.topic.replication_factor) == (TOPIC.name, 2, 1)
    assert config.topic.config["retention.ms"] == "3600000"
    [route] = ingress.agreement(resource, config).routes
    assert (route.path, route.topic, route.content_mode) == ("/default/jobs", TOPIC.name, "binary")
    assert "jobs-kn-channel.default.svc.cluster.local" in route.hosts


def test_all_channels_are_configured_in_one_place() -> None:
    """Kept promise: Knative's ConfigMap for channels says where their Kafka is, with which Secret."""
    given = config_map("kafka-channel-config", bootstrap_servers="far:9092", auth_secret_ref_name="login")
    given["metadata"]["namespace"] = "knative-eventing"
    credentials = annotated(secret(), **{"penstock.dev/secret-version": "v1"})
    credentials["metadata"]["namespace"] = "knative-eventing"
    config = channels.configure(stored(channel()), among(stored(given), stored(credentials)))
    assert config.cluster == Cluster("far:9092", "knative-eventing/login", "v1")
    with pytest.raises(Misconfigured, match="Secret knative-eventing/login does not exist"):
        channels.configure(stored(channel()), among(stored(given)))


def test_the_old_channels_secret_is_still_understood() -> None:
    """Kept promise: who comes from the distributed channel need not write a ConfigMap."""
    old = annotated(secret(), **{"penstock.dev/secret-servers": "old:9092", "penstock.dev/secret-version": "v1"})
    old["metadata"] |= {
        "namespace": "knative-eventing",
        "labels": {"eventing-kafka.knative.dev/kafka-secret": "true"},
    }
    config = channels.configure(stored(channel()), among(stored(old)))
    assert config.cluster == Cluster("old:9092", "knative-eventing/login", "v1")


def test_a_channel_shows_its_subscribers() -> None:
    one, other = stored(subscription("one"), "uid-one"), stored(subscription("other"), "uid-other")
    elsewhere = {"apiVersion": "messaging.knative.dev/v1", "kind": "KafkaChannel", "name": "elsewhere"}
    stranger = stored(subscription("stranger", channel=elsewhere), "uid-stranger")
    settled = egress.status(one, subscribed(one, ready_channel()), {}, true("AddedToChannel"), NOON)
    shown = channels.extra_status(ready_channel(), among({**one, "status": settled}, other, stranger))
    assert [(each["uid"], each["ready"]) for each in shown["subscribers"]] == [
        ("uid-one", "True"), ("uid-other", "Unknown"),
    ]  # fmt: skip
    assert channels.extra_status(ready_channel(), among()) == {}


# Subscriptions


def test_a_subscription_gets_all_events_of_its_channel_in_order() -> None:
    [found] = (plan := subscribed(stored(subscription(), "uid"), ready_channel())).subscriptions
    assert (found.topic, found.group) == (TOPIC.name, "kafka.default.jobs.uid")
    assert (found.order, found.filters, found.reply_topic, found.reply_url) == ("ordered", (), "", "")
    assert plan.shown["physicalSubscription"] == {"subscriberUri": "http://sink.example/"}
    assert condition_of(plan, "ReferencesResolved") == ("True", "")


def test_replies_go_to_an_address() -> None:
    """Kept promise: what a subscriber answers goes to ``reply``, by uri or by ref."""
    wanted = stored(subscription(reply=referred("KafkaSink", "archive")))
    plan = subscribed(wanted, ready_channel(), ready_sink())
    assert plan.subscriptions[0].reply_url == "http://ingress:8080/default/archive"
    assert plan.shown["physicalSubscription"]["replyUri"] == "http://ingress:8080/default/archive"


def test_without_a_subscriber_events_go_where_answers_would() -> None:
    plan = subscribed(stored(subscription(subscriber=None, reply={"uri": "http://next/"})), ready_channel())
    assert (plan.subscriptions[0].subscriber_url, plan.subscriptions[0].reply_url) == ("http://next/", "")


@pytest.mark.parametrize("field", ["subscriber", "reply"])
def test_a_reference_that_leads_nowhere_holds_the_subscription_back(field: str) -> None:
    spec: dict[str, Any] = {field: referred("KafkaSink", "archive")}
    plan = subscribed(stored(subscription(**spec)), ready_channel())
    assert not plan.subscriptions
    assert condition_of(plan, "ReferencesResolved") == ("False", "NotFound")
    assert egress.served(plan, Told(), NOON).status == "Unknown"


def test_a_subscription_waits_for_its_channel() -> None:
    plan = subscribed(stored(subscription()))
    assert (plan.subscriptions, plan.missing) == ((), (TOPIC.name,))
    assert condition_of(plan, "ChannelReady") == ("False", "ChannelDoesNotExist")


def test_a_subscription_inherits_the_channels_delivery_unless_it_has_its_own() -> None:
    of = ready_channel(delivery={"retry": 9, "deadLetterSink": {"uri": "http://dead/"}})
    [inherits] = (plan := subscribed(stored(subscription()), of)).subscriptions
    assert (inherits.delivery.retry, inherits.delivery.dead_letter_url) == (9, "http://dead/")
    assert plan.shown["physicalSubscription"]["deadLetterSinkUri"] == "http://dead/"
    [own] = subscribed(stored(subscription(delivery={"retry": 1})), of).subscriptions
    assert (own.delivery.retry, own.delivery.dead_letter_url) == (1, None)


@pytest.mark.parametrize(
    ("spec", "uri", "url"),
    [
        ({}, None, "http://printer.example/"),
        ({"ports": [{"port": 80}]}, None, "http://printer.example/"),
        ({"ports": [{"port": 3000}]}, None, "http://printer.example:3000/"),
        ({"ports": [{"port": 3000}]}, "/jobs?x=1", "http://printer.example:3000/jobs?x=1"),
    ],
)
def test_a_service_is_an_address_outside(spec: dict[str, Any], uri: str | None, url: str) -> None:
    """Kept promise: Knative's favourite reference, a Service, works; with a uri, that is a place below it."""
    wanted = referred("Service", "printer", **({"uri": uri} if uri else {}))
    plan = subscribed(stored(subscription(subscriber=wanted)), ready_channel(), stored(service(**spec)))
    assert plan.subscriptions[0].subscriber_url == url


# Sources


def test_a_source_is_a_subscription_for_each_topic_that_is_there() -> None:
    given = source(topics=["old-orders", "missing"], ceOverrides={"extensions": {"team": "a"}})
    given["metadata"]["labels"] = {"kafkasources.sources.knative.dev/key-type": "int"}
    plan = sources.plan(stored(given, "uid"), among(), finding(OLD_ORDERS))
    [found] = plan.subscriptions
    assert (found.topic, found.group, found.order) == ("old-orders", "knative-kafka-source-uid", "ordered")
    assert found.records == RecordsAsEvents("/apis/v1/namespaces/default/kafkasources/legacy#old-orders", "int")
    assert (found.extensions, found.reply_topic, found.reply_url) == ({"team": "a"}, "", "")
    served = egress.served(plan, Told(), NOON)
    assert (served.status, served.reason, plan.missing) == ("False", "TopicMissing", ("missing",))
    assert plan.shown["sinkUri"] == "http://sink.example/"


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (1, "topic t0 does not exist"),
        (5, "topics t0, t1, t2, t3, t4 do not exist"),
        (90_000, "topics t0, t1, t2, t3, t4 and 89,995 more do not exist"),
    ],
)
def test_many_missing_topics_are_a_short_message(number: int, message: str) -> None:
    """Kept promise: a condition names the first missing topics and the number of the others, so a status fits its
    record."""
    asked = stored(source(topics=[f"t{each}" for each in range(number)]), "uid")
    served = egress.served(sources.plan(asked, among(), finding(OLD_ORDERS)), Told(), NOON)
    assert (served.reason, served.message) == ("TopicMissing", message)


def test_a_source_may_name_its_group_and_its_order() -> None:
    given = stored(source(consumerGroup="mine", ordering="key", delivery={"retry": 2}))
    [found] = sources.plan(given, among(), finding(OLD_ORDERS)).subscriptions
    assert (found.group, found.order, found.delivery.retry) == ("mine", "key", 2)


@pytest.mark.parametrize(
    ("offset", "earliest", "since"),
    [(None, False, None), ("latest", False, None), ("earliest", True, None), ("1970-01-01T00:01:00Z", False, 60.0)],
)
def test_where_a_source_starts(offset: str | None, earliest: bool, since: float | None) -> None:
    given = stored(source(**({"initialOffset": offset} if offset else {})))
    begin = sources.plan(given, among(), finding(OLD_ORDERS)).begin
    assert (begin.earliest, begin.since) == (earliest, since)


def test_a_sink_that_cannot_be_found_holds_the_source_back() -> None:
    plan = sources.plan(stored(source(sink=referred("Broker", "lost"))), among(), finding(OLD_ORDERS))
    assert not plan.subscriptions
    assert condition_of(plan, "SinkProvided") == ("False", "NotFound")


def test_another_kafka_that_is_away_is_a_condition_and_home_is_not() -> None:
    """Kept promise: one Kafka that is away stops nobody but those who need it."""

    def away(*_: Any) -> Any:
        raise Unavailable("no answer")

    plan = sources.plan(stored(source(bootstrapServers=["far:9092"])), among(), away)
    assert condition_of(plan, "ConnectionEstablished") == ("False", "KafkaUnavailable")
    with pytest.raises(Unavailable):
        sources.plan(stored(source(bootstrapServers=[ALIAS])), among(), away)


@pytest.mark.parametrize("servers", [[], ["kafka:9092"], [ALIAS], ["KAFKA:9092"], [f"other:1,{ALIAS}"]])
def test_home_has_many_names(servers: list[str]) -> None:
    """Kept promise: Knative's examples work as they stand, since their Kafka is an alias of ours."""
    spec: dict[str, Any] = {"bootstrapServers": servers} if servers else {}
    assert sources.cluster_of_source(stored(source(**spec)), among()) == HOME


def test_credentials_of_a_source_are_gathered_from_secrets(tmp_path: Path) -> None:
    """Kept promise: they are kept together where no user can name them, and are never in the contract."""
    around = among(secrets=tmp_path)
    around.secrets.write("default", "login", {"user": b"alice", "password": b"hunter2"})
    sasl = {
        "enable": True,
        "user": {"secretKeyRef": {"name": "login", "key": "user"}},
        "password": {"secretKeyRef": {"name": "login", "key": "password"}},
    }
    given = stored(source(bootstrapServers=["far:9092"], net={"sasl": sasl}))
    cluster = sources.cluster_of_source(given, around)
    assert (cluster.bootstrap_servers, cluster.secret) == ("far:9092", "kafkasources.default/legacy")
    kept = around.secrets.read("kafkasources.default", "legacy")
    assert kept == {
        "protocol": b"SASL_PLAINTEXT", "sasl.mechanism": b"PLAIN", "user": b"alice", "password": b"hunter2",
    }  # fmt: skip
    assert "hunter2" not in repr(cluster)
    around.secrets.write("default", "login", {"user": b"alice", "password": b"other"})
    assert sources.cluster_of_source(given, around).version != cluster.version


def test_a_key_that_is_missing_is_named(tmp_path: Path) -> None:
    tls = {"enable": True, "caCert": {"secretKeyRef": {"name": "login", "key": "ca.crt"}}}
    given, around = stored(source(net={"tls": tls})), among(secrets=tmp_path)
    missing = sources.plan(given, around, finding(OLD_ORDERS))
    assert condition_of(missing, "ConnectionEstablished") == ("False", "SecretMissing")
    around.secrets.write("default", "login", {"user": b"alice"})
    with pytest.raises(Misconfigured, match=r"Secret default/login has no key ca\.crt"):
        sources.cluster_of_source(given, around)


# Sinks


def test_a_sink_takes_the_topic_that_is_there() -> None:
    config = sinks.configure(stored(sink()), among())
    assert (config.topic.name, config.may_create, config.content_mode) == ("archived", False, "binary")
    assert ingress.topic_fits(config, None).reason == "ExternalTopicMissing"


def test_a_sink_with_partitions_makes_its_topic() -> None:
    given = stored(sink(numPartitions=3, replicationFactor=1, contentMode="binary"))
    config = sinks.configure(given, among())
    assert (config.may_create, config.topic.partitions, config.topic.replication_factor) == (True, 3, 1)
    assert ingress.agreement(given, config).routes == (
        Route(path="/default/archive", topic="archived", is_foreign=True),
    )


def test_a_sink_of_another_kafka_needs_its_secret() -> None:
    auth = {"secret": {"ref": {"name": "login"}}}
    given = stored(sink(bootstrapServers=["far:9092", "away:9092"], auth=auth))
    with pytest.raises(Misconfigured, match="Secret default/login does not exist"):
        sinks.configure(given, among())
    credentials = stored(annotated(secret(), **{"penstock.dev/secret-version": "v1"}))
    expected = Cluster("far:9092,away:9092", "default/login", "v1")
    assert sinks.configure(given, among(credentials)).cluster == expected
