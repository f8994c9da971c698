"""Topics: creating what is missing, and asking what is there."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from penstock.errors import Misconfigured, Unavailable

TIMEOUT_SECONDS = 15.0  # for a change
ASK_SECONDS = 10.0  # for an answer

# A table of small records whose latest value per key is what counts. Small segments and an eager cleaner
# keep it quick to read from the start.
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(8 * 1024 * 1024),
    "segment.ms": str(10 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(60 * 60 * 1000),
}

# News that are worth something for a while.
SHORT_LIVED = {
    "cleanup.policy": "delete",
    "retention.ms": str(60 * 60 * 1000),
    "segment.bytes": str(8 * 1024 * 1024),
    "segment.ms": str(10 * 60 * 1000),
}

# What became of every attempt: as far back as it fits.
LOGGED = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * 24 * 3600 * 1000),
    "retention.bytes": str(1024**3),
    "segment.bytes": str(64 * 1024 * 1024),
    "max.message.bytes": str(4 * 1024**2),
}

# What people may want to look up for some days, the latest word on each.
RECORDS = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(14 * 24 * 3600 * 1000),
    "retention.bytes": str(2 * 1024**3),
    "max.message.bytes": str(4 * 1024**2),  # the largest event, in base64 and with its reason
    "segment.bytes": str(64 * 1024 * 1024),
}


@dataclass(frozen=True)
class TopicSpec:
    name: str
    partitions: int = 1
    replication_factor: int = 0  # 0: three, or as many as there are brokers; a single broker has one anyway
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicState:
    """What Kafka says of a topic. The id changes when a topic is deleted and made anew."""

    name: str
    topic_id: str
    partitions: int


def create_missing(admin: AdminClient, specs: Iterable[TopicSpec]) -> list[str]:
    """Creates those that do not exist; an existing topic is left as it is. Returns what was created."""
    created = []
    brokers = _broker_count(admin)
    wanted = []
    for spec in specs:
        # A cluster of one broker is somebody's own machine: what asks for three copies shall work there too.
        copies = 1 if brokers == 1 else spec.replication_factor or min(3, brokers)
        # With three copies an acknowledged record is on two machines at least.
        config = ({"min.insync.replicas": "2"} if copies >= 3 else {}) | dict(spec.config)
        wanted.append(NewTopic(spec.name, num_partitions=spec.partitions, replication_factor=copies, config=config))
    for name, future in admin.create_topics(wanted, operation_timeout=TIMEOUT_SECONDS).items():
        try:
            future.result(timeout=TIMEOUT_SECONDS * 2)
            created.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _explained(f"topic {name} cannot be created", error) from error
    _await_leaders(admin, [spec for spec in wanted if spec.topic in created])
    return created


def _broker_count(admin: AdminClient) -> int:
    try:
        return len(admin.list_topics(timeout=TIMEOUT_SECONDS).brokers)
    except KafkaException as error:
        raise _explained("the brokers of the cluster cannot be counted", error) from error


def _await_leaders(admin: AdminClient, created: list[NewTopic]) -> None:
    """A new topic exists a moment before its partitions can be asked; whoever created it should not notice."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for topic in created:
        while True:
            admin.list_topics(topic.topic, timeout=TIMEOUT_SECONDS)  # or the client believes what it knew before
            try:
                latest_offsets(admin, topic.topic, topic.num_partitions)
                break
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def delete(admin: AdminClient, names: Iterable[str]) -> None:
    """Deletes them; one that is gone already is fine."""
    for name, future in admin.delete_topics(list(names), operation_timeout=TIMEOUT_SECONDS).items():
        try:
            future.result(timeout=TIMEOUT_SECONDS * 2)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _explained(f"topic {name} cannot be deleted", error) from error


def describe(admin: AdminClient, names: Iterable[str]) -> dict[str, TopicState]:
    """The topics among these that exist."""
    wanted = list(names)
    if not wanted:
        return {}
    states = {}
    for name, future in admin.describe_topics(TopicCollection(wanted), request_timeout=ASK_SECONDS).items():
        try:
            topic = future.result(timeout=TIMEOUT_SECONDS * 2)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            raise _explained(f"topic {name} cannot be described", error) from error
        states[name] = TopicState(name, _url_safe(str(topic.topic_id)), len(topic.partitions))
    return states


def _url_safe(topic_id: str) -> str:
    """As Kafka's own tools write it; the ids are parts of keys that are divided by slashes."""
    return topic_id.replace("+", "-").replace("/", "_")


def earliest_offsets(admin: AdminClient, topic: str, partitions: int) -> dict[int, int]:
    return _offsets(admin, topic, partitions, OffsetSpec.earliest())


def latest_offsets(admin: AdminClient, topic: str, partitions: int) -> dict[int, int]:
    return _offsets(admin, topic, partitions, OffsetSpec.latest())


def offsets_at(admin: AdminClient, topic: str, partitions: int, seconds: float) -> dict[int, int]:
    """Of the first records that Kafka got at this time (since the epoch) or later; else the end."""
    found = _offsets(admin, topic, partitions, OffsetSpec.for_timestamp(int(seconds * 1000)))
    ends = latest_offsets(admin, topic, partitions)
    return {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}


def first_times(admin: AdminClient, topic: str, partitions: int) -> dict[int, float]:
    """When the oldest records that are still there were written (seconds since the epoch); none of an empty one."""
    found = _listed(admin, topic, partitions, OffsetSpec.for_timestamp(0))
    return {partition: at.timestamp / 1000 for partition, at in found.items() if at.offset >= 0}


def retention_seconds(admin: AdminClient, topic: str) -> float | None:
    """How long records are kept; None: as long as there is room."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = admin.describe_configs([resource], request_timeout=ASK_SECONDS).values()
    try:
        milliseconds = int(future.result(timeout=TIMEOUT_SECONDS * 2)["retention.ms"].value)
    except KafkaException as error:
        raise _explained(f"the settings of {topic} cannot be read", error) from error
    return None if milliseconds < 0 else milliseconds / 1000


def is_quiet(admin: AdminClient, topic: str, ends: Mapping[int, int], seconds: float) -> bool:
    """Whether no record has come for so long; ``ends`` names all partitions."""
    since = offsets_at(admin, topic, len(ends), time.time() - seconds)
    return all(since[partition] >= end for partition, end in ends.items())


def _offsets(admin: AdminClient, topic: str, partitions: int, spec: OffsetSpec) -> dict[int, int]:
    return {partition: at.offset for partition, at in _listed(admin, topic, partitions, spec).items()}


def _listed(admin: AdminClient, topic: str, partitions: int, spec: OffsetSpec) -> dict[int, Any]:
    asked = {TopicPartition(topic, p): spec for p in range(partitions)}
    found = {}
    for where, future in admin.list_offsets(asked, request_timeout=ASK_SECONDS).items():
        try:
            found[where.partition] = future.result(timeout=TIMEOUT_SECONDS * 2)
        except KafkaException as error:
            raise _explained(f"offsets of {topic}/{where.partition} cannot be read", error) from error
    return found


def _explained(what: str, error: KafkaException) -> Misconfigured | Unavailable:
    """Kafka's refusal as ours: settings that can never work, or a cluster to be asked again."""
    cause = error.args[0]
    if cause.code() in (
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_CONFIG,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    ):
        return Misconfigured(f"{what}: {cause.str()}")
    return Unavailable(f"{what}: {cause.str()}")
