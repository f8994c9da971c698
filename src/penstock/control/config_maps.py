"""What ConfigMaps say about Kafka, in Knative's words: which cluster, what topics and clients are like. Pure."""

from collections.abc import Mapping

from penstock.control import names
from penstock.control.kinds import Resource, annotations_of
from penstock.errors import Misconfigured
from penstock.kafka import tuning

BOOTSTRAP = "bootstrap.servers"
PARTITIONS = "default.topic.partitions"
REPLICATION = "default.topic.replication.factor"
TOPIC_CONFIG = "default.topic.config."
AUTH = "auth.secret.ref.name"
AUTH_NAMESPACE = "auth.secret.ref.namespace"  # obeyed for channels only, as in Knative
PRODUCER = "default.producer.config."
CONSUMER = "default.consumer.config."
MOST = 1_000_000_000
LONGEST_SHOWN = 40


def understood(data: Mapping[str, str]) -> dict[str, str]:
    """The part of it that means something here."""
    return {
        key: value
        for key, value in data.items()
        if key in (BOOTSTRAP, PARTITIONS, REPLICATION, AUTH, AUTH_NAMESPACE)
        or key.startswith((TOPIC_CONFIG, PRODUCER, CONSUMER))
    }


def topic_settings(data: Mapping[str, str], retention_ms: int) -> dict[str, str]:
    given = with_prefix(data, TOPIC_CONFIG)
    if "delete" not in given.get("cleanup.policy", "delete"):
        raise Misconfigured(f"{TOPIC_CONFIG}cleanup.policy must be delete: compacting drops events with the same key")
    return {"message.timestamp.type": "LogAppendTime", "retention.ms": str(retention_ms), **given}


def with_prefix(data: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in data.items() if key.startswith(prefix)}


def producer_of(resource: Resource, data: Mapping[str, str]) -> dict[str, str]:
    """The settings of its producer; what it says itself counts more. Misconfigured for what cannot be set."""
    found = with_prefix(data, PRODUCER) | with_prefix(annotations_of(resource), names.PRODUCER)
    tuning.producer_settings(found)
    return found


def consumer_of(resource: Resource, data: Mapping[str, str]) -> dict[str, str]:
    found = with_prefix(data, CONSUMER) | with_prefix(annotations_of(resource), names.CONSUMER)
    tuning.consumer_settings(found)
    return found


def number(data: Mapping[str, str], key: str, default: int, most: int = MOST) -> int:
    text = data.get(key)
    if text is None:
        return default
    if not text.strip().isdecimal() or not text.strip().strip("0"):
        raise Misconfigured(f'{key} must be a whole number of at least 1, not "{text[:LONGEST_SHOWN]}"')
    if len(text.strip()) > len(str(MOST)) or int(text) > most:
        limit = ", the setting most_partitions" if key == PARTITIONS else ""
        raise Misconfigured(f"{key} must be at most {most:,}{limit}; it is {text.strip()[:LONGEST_SHOWN]}")
    return int(text)
