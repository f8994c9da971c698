"""What ConfigMaps say about Kafka, in Knative's words: which cluster, what topics are made like. Pure."""

from collections.abc import Mapping

from penstock.errors import Misconfigured

BOOTSTRAP = "bootstrap.servers"
PARTITIONS = "default.topic.partitions"
REPLICATION = "default.topic.replication.factor"
TOPIC_CONFIG = "default.topic.config."
AUTH = "auth.secret.ref.name"


def understood(data: Mapping[str, str]) -> dict[str, str]:
    """The part of it that means something here."""
    return {
        key: value
        for key, value in data.items()
        if key in (BOOTSTRAP, PARTITIONS, REPLICATION, AUTH) or key.startswith(TOPIC_CONFIG)
    }


def topic_settings(data: Mapping[str, str], retention_ms: int) -> dict[str, str]:
    given = {key.removeprefix(TOPIC_CONFIG): value for key, value in data.items() if key.startswith(TOPIC_CONFIG)}
    return {"message.timestamp.type": "LogAppendTime", "retention.ms": str(retention_ms), **given}


def number(data: Mapping[str, str], key: str, default: int) -> int:
    text = data.get(key)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < 1:
        raise Misconfigured(f'{key} must be a whole number of at least 1, not "{text}"')
    return int(text)
