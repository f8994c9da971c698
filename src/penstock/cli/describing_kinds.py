"""What ``describe`` tells of each kind, as pairs of a word and what there is to say; empty ones are left out."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.cli.columns import filter_text, group_of, keys_of
from penstock.control.addresses import address_of
from penstock.control.kinds import (
    BROKER,
    CHANNEL,
    CONFIG_MAP,
    EGRESS,
    SECRET,
    SERVICE,
    SINK,
    SOURCE,
    SUBSCRIPTION,
    TRIGGER,
    Kind,
    Resource,
    annotations_of,
    name_of,
    namespace_of,
    noted,
    spec_of,
    status_of,
)
from penstock.control.names import (
    CHANNEL_CONFIG,
    DELIVERY_ORDER,
    NOTED_CLUSTER,
    NOTED_OWNED,
    NOTED_PARTITIONS,
    NOTED_TOPIC,
    START,
    SYSTEM_NAMESPACE,
    channel_hosts,
)

Facts = list[tuple[str, str]]
Lag = dict[str, Any] | None
_EGRESS = {kind.name for kind in EGRESS}


@dataclass(frozen=True)
class Readers:
    """Who reads a broker or a channel."""

    kind: Kind
    names: tuple[str, ...]


def facts(resource: Resource, lag: Lag, readers: Readers | None) -> Facts:
    told = _FACTS[resource["kind"]](resource)
    if readers is not None:
        told.append((readers.kind.plural.capitalize(), ", ".join(readers.names) or "none"))
    if resource["kind"] in _EGRESS:
        total = (lag or {}).get("lag")
        told += [("Group", group_of(resource)), ("Lag", "not known" if total is None else str(total))]
    return told


def _broker(broker: Resource) -> Facts:
    config = spec_of(broker).get("config") or {}
    return [
        *_address_and_topic(broker),
        ("Config", config.get("name", "defaults")),
        *_delivery(broker, "no retries"),
    ]


def _channel(channel: Resource) -> Facts:
    hosts = channel_hosts(namespace_of(channel), name_of(channel))
    return [
        *_address_and_topic(channel),
        ("Host", hosts[0]),
        ("Config", f"{SYSTEM_NAMESPACE}/{CHANNEL_CONFIG}, if there is one"),
        ("Retention", str(spec_of(channel).get("retentionDuration") or "")),
        *_delivery(channel, "no retries"),
    ]


def _sink(sink: Resource) -> Facts:
    goes = "goes with the sink" if noted(sink).get(NOTED_OWNED) == "true" else "stays when the sink goes"
    return [
        *_address_and_topic(sink),
        ("Deletion", f"the topic {goes}"),
        ("Content mode", str(spec_of(sink).get("contentMode") or "structured")),
    ]


def _trigger(trigger: Resource) -> Facts:
    return [
        ("Broker", str(spec_of(trigger).get("broker"))),
        ("Filter", filter_text(trigger)),
        ("Subscriber", status_of(trigger).get("subscriberUri") or "not resolved"),
        *_delivery(trigger, "the broker's"),
        ("Order", annotations_of(trigger).get(DELIVERY_ORDER, "unordered")),
        ("Start", annotations_of(trigger).get(START, "")),
    ]


def _subscription(subscription: Resource) -> Facts:
    spec, found = spec_of(subscription), status_of(subscription).get("physicalSubscription") or {}
    return [
        ("Channel", str(spec["channel"].get("name"))),
        ("Subscriber", _resolved(spec.get("subscriber"), found.get("subscriberUri"))),
        ("Reply", _resolved(spec.get("reply"), found.get("replyUri"))),
        ("Dead letters", found.get("deadLetterSinkUri", "")),
        *_delivery(subscription, "the channel's"),
        ("Order", annotations_of(subscription).get(DELIVERY_ORDER, "ordered")),
        ("Start", annotations_of(subscription).get(START, "")),
    ]


def _source(source: Resource) -> Facts:
    spec = spec_of(source)
    extensions = (spec.get("ceOverrides") or {}).get("extensions") or {}
    return [
        ("Topics", ", ".join(spec.get("topics") or [])),
        ("Kafka", ",".join(spec.get("bootstrapServers") or []) or "home"),
        ("Sink", status_of(source).get("sinkUri") or "not resolved"),
        *_delivery(source, "no retries"),
        ("Order", str(spec.get("ordering") or "ordered")),
        ("Start", str(spec.get("initialOffset") or "latest")),
        ("Extensions", ", ".join(f"{name}={value}" for name, value in sorted(extensions.items()))),
    ]


def _service(service: Resource) -> Facts:
    return [("Address", address_of(service) or "none")]


def _secret(secret: Resource) -> Facts:
    return [("Keys", keys_of(secret) or "none"), ("Values", "kept in a file of the controller, and never shown")]


def _config_map(config_map: Resource) -> Facts:
    return [(key, str(value)) for key, value in sorted((config_map.get("data") or {}).items())]


_FACTS: Mapping[str, Callable[[Resource], Facts]] = {
    BROKER.name: _broker,
    CHANNEL.name: _channel,
    SINK.name: _sink,
    TRIGGER.name: _trigger,
    SUBSCRIPTION.name: _subscription,
    SOURCE.name: _source,
    SERVICE.name: _service,
    CONFIG_MAP.name: _config_map,
    SECRET.name: _secret,
}


def _address_and_topic(resource: Resource) -> Facts:
    notes = noted(resource)
    count = notes.get(NOTED_PARTITIONS)
    partitions = f" ({count} partition{'' if count == '1' else 's'})" if count else ""
    cluster = json.loads(notes.get(NOTED_CLUSTER, "{}"))
    secret = f" with Secret {cluster['secret']}" if cluster.get("secret") else ""
    return [
        ("Address", address_of(resource) or "none yet"),
        ("Topic", notes.get(NOTED_TOPIC, "") + partitions),
        ("Kafka", f"{cluster.get('bootstrap_servers') or 'home'}{secret}"),
    ]


def _delivery(resource: Resource, inherited: str) -> Facts:
    return [
        ("Dead letters", status_of(resource).get("deadLetterSinkUri", "")),
        ("Delivery", delivery_text(spec_of(resource).get("delivery"), inherited)),
    ]


def _resolved(asked: Any, found: str | None) -> str:
    """An address; nothing when none was asked for."""
    return found or ("not resolved" if asked else "")


def delivery_text(delivery: dict[str, Any] | None, inherited: str = "no retries") -> str:
    if not delivery:
        return inherited
    return ", ".join(f"{key} {value}" for key, value in delivery.items() if key != "deadLetterSink") or "no retries"
