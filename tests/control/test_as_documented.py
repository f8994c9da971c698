"""What the documentation of Knative shows is taken as it stands; where it has a slip, the message has the remedy."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.model import Cluster
from penstock.control import channels, sinks, sources
from penstock.control.clusters import complaint
from penstock.control.dependents import dependents
from penstock.control.ingress import Surroundings
from penstock.control.kinds import Resource, key_of
from penstock.control.secrets import Secrets
from penstock.control.settings import ControllerSettings
from penstock.control.validate import problems
from penstock.errors import Misconfigured
from tests.control.objects import annotated, broker, secret, stored, trigger

SETTINGS = ControllerSettings(bootstrap_servers="kafka:9092")
TO_BILLING = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "billing"}}


def among(*resources: Resource) -> Surroundings:
    known = {key_of(each): each for each in resources}

    def of_kind(kind: str) -> list[Resource]:
        return [each for each in resources if each["kind"] == kind]

    return Surroundings(
        lambda kind, namespace, name: known.get(f"{kind}/{namespace}/{name}"), of_kind, SETTINGS, Secrets(Path("/no"))
    )


def resource(kind: str, name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    versions = {
        "KafkaSource": "sources.knative.dev/v1",
        "KafkaSink": "eventing.knative.dev/v1alpha1",
        "KafkaChannel": "messaging.knative.dev/v1beta1",
        "Subscription": "messaging.knative.dev/v1",
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": metadata, **fields}


def source(**spec: Any) -> dict[str, Any]:
    return resource("KafkaSource", "invoices", spec={"topics": ["invoices"], "sink": TO_BILLING, **spec})


def the_problem(of: dict[str, Any]) -> tuple[str, str]:
    [found] = problems(of)
    return found.field, found.message


def test_the_secret_of_channels_may_be_in_another_namespace() -> None:
    """Kept promise: auth.secret.ref.namespace is obeyed, and a change of that Secret reaches the channels."""
    data = {"auth.secret.ref.name": "kafka-users", "auth.secret.ref.namespace": "safe"}
    config = stored(resource("ConfigMap", "kafka-channel-config", "knative-eventing", data=data), "config")
    secret = stored(resource("Secret", "kafka-users", "safe"), "secret")
    channel = stored(resource("KafkaChannel", "steps", spec={}), "channel")
    assert channels.configure(channel, among(config, secret)).cluster.secret == "safe/kafka-users"
    assert dependents([config, secret, channel], secret) == [key_of(channel)]
    elsewhere = stored(resource("Secret", "kafka-users", "other"), "elsewhere")
    assert dependents([config, elsewhere, channel], elsewhere) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [("users", "does not exist: apply it in namespace default"), ("kafka_users", "cannot exist: its name")],
)
def test_a_sink_says_which_secret_it_misses(name: str, why: str) -> None:
    """Kept promise: a sink may come before its Secret, also when it asks for a name that no Secret can have."""
    spec = {"topic": "exports", "auth": {"secret": {"ref": {"name": name}}}}
    applied = resource("KafkaSink", "exports", spec=spec)
    assert problems(applied) == []
    with pytest.raises(Misconfigured, match=why) as refused:
        sinks.configure(stored(applied), among())
    assert f"default/{name}" in refused.value.message


def test_a_source_names_the_field_whose_secret_is_no_good(tmp_path: Path) -> None:
    """Kept promise: in the words of the source, whatever the key is called, without what is in it."""
    ca = {"secretKeyRef": {"name": "trusted", "key": "root.pem"}}
    given = stored(source(net={"tls": {"enable": True, "caCert": ca}}))
    around = replace(among(stored(secret("trusted"))), secrets=Secrets(tmp_path))
    around.secrets.write("default", "trusted", {"root.pem": b"rubbish"})
    plan = sources.plan(given, around, lambda *_: {})
    [connected] = [each for each in plan.conditions if each.type == "ConnectionEstablished"]
    assert (connected.status, connected.reason) == ("False", "SecretInvalid")
    assert connected.message.startswith("spec.net.tls.caCert holds no certificate")
    assert "rubbish" not in connected.message


def test_a_cluster_that_lets_nobody_in_is_named_once() -> None:
    """Kept promise: in names that the user has given; what is kept for a source has none of those."""
    refused = "does not let us in: wrong password"
    kept = Cluster("far:9092", "kafkasources.default/invoices")
    said = complaint(kept, f"Kafka at far:9092 (Secret {kept.secret}) {refused}", SETTINGS)
    assert said == f"Kafka at far:9092 (credentials of spec.net) {refused}"
    named = Cluster("far:9092", "default/users")
    assert complaint(named, f"Kafka at far:9092 (Secret default/users) {refused}", SETTINGS).count("far:9092") == 1
    assert complaint(named, "timed out", SETTINGS) == "Kafka at far:9092 (Secret default/users): timed out"


def test_a_source_may_still_ask_for_resources() -> None:
    """Kept promise: a field of former versions, which Knative's example still has, keeps nobody out."""
    assert problems(source(resources={"limits": {"cpu": "1"}})) == []


def test_a_sink_without_ref_is_told_where_ref_belongs() -> None:
    """Kept promise: kind and name right under sink are one message with the remedy."""
    field, message = the_problem(source(sink={"apiVersion": "v1", "kind": "Service", "name": "billing"}))
    assert field == "spec.sink"
    assert "belong under ref" in message


def test_two_dialects_in_a_filter_are_told_apart() -> None:
    """Kept promise: Knative refuses them too; here the message says what to write instead."""
    field, message = the_problem(trigger(filters=[{"exact": {"type": "a"}, "suffix": {"source": "b"}}]))
    assert field == "spec.filters[0]"
    assert "a filter of its own" in message


def test_filters_without_dashes_are_a_slip() -> None:
    """Kept promise: a map where a list belongs is told how a list begins."""
    field, message = the_problem(trigger(filters={"exact": {"type": "a"}}))
    assert field == "spec.filters"
    assert "dash" in message


def test_what_slipped_a_level_is_told_where_it_belongs() -> None:
    """Kept promise: a lost or an additional indentation is said as such."""
    deeper = trigger(filter={"attributes": {"type": "a"}, "subscriber": TO_BILLING})
    assert the_problem(deeper) == ("spec.filter.subscriber", "belongs into spec: check the indentation")
    flat = {"apiVersion": "sources.knative.dev/v1", "kind": "KafkaSource", "metadata": None, "spec": None}
    found = {each.field: each.message for each in problems({**flat, "name": "invoices", "topics": ["invoices"]})}
    assert found["name"] == "belongs into metadata: check the indentation"
    assert found["topics"] == "belongs into spec: check the indentation"
    assert "spec" not in {each.field for each in problems({**source(), "topics": ["invoices"]})}


def test_a_broker_of_another_class_is_told_what_to_write() -> None:
    """Kept promise: the remedy is in the message."""
    _, message = the_problem(annotated(broker(), **{"eventing.knative.dev/broker.class": "MTChannelBasedBroker"}))
    assert "write Kafka, or leave the annotation out" in message


def test_a_subscription_without_channel_is_told_that_it_is_missing() -> None:
    """Kept promise: what is not there is called missing."""
    field, message = the_problem(resource("Subscription", "audit", spec={"subscriber": TO_BILLING}))
    assert field == "spec.channel"
    assert message.startswith("is missing")
