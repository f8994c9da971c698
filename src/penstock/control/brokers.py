"""What a Broker means: a topic, a route, and a status. Functions of values; ``broker_steps.py`` acts on them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.contract.model import Agreement, Route
from penstock.control import names
from penstock.control.addresses import Lookup, resolve
from penstock.control.conditions import Condition, false, merged, true
from penstock.control.kinds import (
    Resource,
    annotations_of,
    generation_of,
    name_of,
    namespace_of,
    noted,
    spec_of,
    status_of,
    uid_of,
)
from penstock.control.settings import ControllerSettings
from penstock.errors import Misconfigured
from penstock.kafka.topics import TopicSpec, TopicState

BOOTSTRAP = "bootstrap.servers"
PARTITIONS = "default.topic.partitions"
REPLICATION = "default.topic.replication.factor"
TOPIC_CONFIG = "default.topic.config."
AUTH = "auth.secret.ref.name"


@dataclass(frozen=True)
class BrokerConfig:
    """What a broker's topic should be, and what its ConfigMap said."""

    topic: TopicSpec
    owned: bool  # an external topic is never created and never deleted
    remembered: dict[str, str]
    parsed: Condition


@dataclass(frozen=True)
class BrokerFindings:
    """What reconciling found out about a broker, aspect by aspect."""

    conditions: tuple[Condition, ...]
    config: BrokerConfig | None = None
    topic: TopicState | None = None
    address: str | None = None
    dead_letter_uri: str | None = None


def config_reference(broker: Resource) -> tuple[str, str] | None:
    """Namespace and name of the ConfigMap, if the broker names one."""
    config = spec_of(broker).get("config")
    return (str(config.get("namespace") or namespace_of(broker)), str(config["name"])) if config else None


def configure(broker: Resource, config_map: Resource | None, settings: ControllerSettings) -> BrokerConfig:
    """The topic that the broker wants. Misconfigured when the ConfigMap is missing or makes no sense."""
    data, parsed = _config_data(broker, config_map)
    if AUTH in data:
        raise Misconfigured(f"{AUTH} is set, but Secrets are not supported by this version")
    servers = data.get(BOOTSTRAP)
    if servers and servers != settings.bootstrap_servers:
        parsed = true(
            "ConfigParsed",
            "BootstrapServersIgnored",
            f"{BOOTSTRAP} is {servers}; this controller keeps every broker in {settings.bootstrap_servers}",
        )
    external = annotations_of(broker).get(names.EXTERNAL_TOPIC)
    spec = TopicSpec(
        name=external or names.broker_topic(namespace_of(broker), name_of(broker)),
        partitions=_number(data, PARTITIONS, settings.default_partitions),
        replication_factor=_number(data, REPLICATION, settings.default_replication_factor),
        config={
            "message.timestamp.type": "LogAppendTime",
            "retention.ms": str(settings.default_retention_ms),
            **{k.removeprefix(TOPIC_CONFIG): v for k, v in data.items() if k.startswith(TOPIC_CONFIG)},
        },
    )
    return BrokerConfig(spec, external is None, data, parsed)


def _config_data(broker: Resource, config_map: Resource | None) -> tuple[dict[str, str], Condition]:
    reference = config_reference(broker)
    if reference is None:
        return {}, true("ConfigParsed", "Defaults", "the broker names no ConfigMap")
    if config_map is not None:
        data = config_map.get("data") or {}
        return {
            k: v
            for k, v in data.items()
            if k in (BOOTSTRAP, PARTITIONS, REPLICATION, AUTH) or k.startswith(TOPIC_CONFIG)
        }, true("ConfigParsed")
    remembered = {k: v for k, v in noted(broker).items() if k == BOOTSTRAP or k.startswith("default.topic.")}
    shown = "/".join(reference)
    if remembered or names.NOTED_TOPIC_ID in noted(broker):
        return remembered, true("ConfigParsed", "Remembered", f"ConfigMap {shown} is gone; its last values are used")
    raise Misconfigured(f"ConfigMap {shown} does not exist")


def _number(data: dict[str, str], key: str, default: int) -> int:
    text = data.get(key)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < 1:
        raise Misconfigured(f'{key} must be a whole number of at least 1, not "{text}"')
    return int(text)


def path_of(broker: Resource) -> str:
    return f"/{namespace_of(broker)}/{name_of(broker)}"


def agreement(broker: Resource, topic: str) -> Agreement:
    """What the receiver needs to know of the broker."""
    return Agreement(
        uid=uid_of(broker),
        generation=generation_of(broker),
        routes=(Route(path=path_of(broker), topic=topic),),
    )


def dead_letter_uri(broker: Resource, lookup: Lookup) -> str | None:
    sink = (spec_of(broker).get("delivery") or {}).get("deadLetterSink")
    return resolve(sink, namespace_of(broker), lookup).url if sink else None


def topic_fits(config: BrokerConfig, topic: TopicState | None) -> Condition:
    """TopicReady. An existing topic is not altered; where it differs from what is wanted, the message says so."""
    if topic is None:
        reason = "TopicMissing" if config.owned else "ExternalTopicMissing"
        return false("TopicReady", reason, f"topic {config.topic.name} does not exist")
    if config.owned and topic.partitions != config.topic.partitions:
        differs = (
            f"topic {topic.name} has {topic.partitions} partitions, not {config.topic.partitions}; it is left so"
        )
        return true("TopicReady", "TopicDiffers", differs)
    return true("TopicReady", message=f"topic {topic.name}, {topic.partitions} partitions")


def status(broker: Resource, findings: BrokerFindings, now: datetime) -> dict[str, Any]:
    before = status_of(broker)
    notes = dict(noted(broker))
    if findings.config is not None:
        notes = {**findings.config.remembered, names.NOTED_TOPIC: findings.config.topic.name}
    if findings.topic is not None:
        notes[names.NOTED_TOPIC_ID] = findings.topic.topic_id
        notes[names.NOTED_PARTITIONS] = str(findings.topic.partitions)
    shaped: dict[str, Any] = {
        "observedGeneration": generation_of(broker),
        "conditions": merged(before.get("conditions") or [], findings.conditions, now),
        "annotations": notes,
    }
    if findings.address:
        shaped["address"] = {"name": "http", "url": findings.address}
    if findings.dead_letter_uri:
        shaped["deadLetterSinkUri"] = findings.dead_letter_uri
    return shaped
