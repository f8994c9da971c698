"""How a cluster and its topics are: brokers, copies, ends, sizes. Asked by the controller in the background.

Sizes and free room come by way of kafka-python, since librdkafka has no request for them.
"""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection

ASK_SECONDS = 5.0


@dataclass(frozen=True)
class PartitionState:
    partition: int
    leader: int  # -1: none
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class ClusterState:
    brokers: int
    topics: Mapping[str, tuple[PartitionState, ...]]

    @property
    def offline(self) -> int:
        return sum(each.leader < 0 for all_ in self.topics.values() for each in all_)

    @property
    def under_replicated(self) -> int:
        return sum(len(each.in_sync) < len(each.replicas) for all_ in self.topics.values() for each in all_)


@dataclass(frozen=True)
class Sizes:
    """Of the log, all copies together."""

    topics: Mapping[str, int] = field(default_factory=dict)  # bytes
    free_bytes: int | None = None  # on the fullest disk; None: the brokers do not say

    @property
    def total(self) -> int:
        return sum(self.topics.values())


def look(admin: AdminClient) -> ClusterState:
    try:
        found = admin.list_topics(timeout=ASK_SECONDS)
    except KafkaException as error:
        raise Unavailable(f"the cluster cannot be described: {error.args[0].str()}") from error
    topics = {
        name: tuple(
            PartitionState(each.id, each.leader, tuple(each.replicas), tuple(each.isrs))
            for each in sorted(topic.partitions.values(), key=lambda each: each.id)
        )
        for name, topic in found.topics.items()
    }
    return ClusterState(len(found.brokers), topics)


def offsets(admin: AdminClient, state: ClusterState, topics: Iterable[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """Begin and end by topic and partition, of those that have a leader."""
    wanted = [TopicPartition(t, p.partition) for t in topics for p in state.topics.get(t, ()) if p.leader >= 0]
    if not wanted:
        return {}
    found: list[dict[tuple[str, int], int]] = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        asked = admin.list_offsets(dict.fromkeys(wanted, spec), request_timeout=ASK_SECONDS)
        answers: dict[tuple[str, int], int] = {}
        for where, future in asked.items():
            with contextlib.suppress(KafkaException):  # it has just lost its leader, or is gone
                answers[where.topic, where.partition] = future.result(timeout=ASK_SECONDS * 2).offset
        found.append(answers)
    begins, ends = found
    return {where: (begins[where], end) for where, end in ends.items() if where in begins}


def retentions(admin: AdminClient, topics: Iterable[str]) -> dict[str, int]:
    """In milliseconds; -1: for ever. What cannot be read is left out."""
    wanted = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    found: dict[str, int] = {}
    if wanted:
        for resource, future in admin.describe_configs(wanted, request_timeout=ASK_SECONDS).items():
            with contextlib.suppress(KafkaException, KeyError, ValueError):
                config = future.result(timeout=ASK_SECONDS * 2)
                is_kept = "delete" not in (config["cleanup.policy"].value or "delete")
                found[resource.name] = -1 if is_kept else max(-1, int(config["retention.ms"].value))
    return found


class LogSizes:
    """A client of its own, made when first needed and thrown away after a failure. For one thread."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._client: Any = None

    def read(self) -> Sizes:
        try:
            if self._client is None:
                self._client = KafkaAdminClient(
                    **self._connection.group_client_config(), bootstrap_timeout_ms=5000, request_timeout_ms=5000
                )
            answered = self._client.describe_log_dirs()
        except (KafkaError, OSError, ValueError) as error:
            self.close()
            raise Unavailable(f"the size of the log cannot be read: {error}") from error
        folders = [folder for broker in answered for folder in broker["log_dirs"] if not folder["error_code"]]
        topics: dict[str, int] = {}
        for folder in folders:
            for topic in folder["topics"]:
                size = sum(each["partition_size"] for each in topic["partitions"])
                topics[topic["name"]] = topics.get(topic["name"], 0) + size
        free = [folder["usable_bytes"] for folder in folders if folder.get("usable_bytes", -1) >= 0]
        return Sizes(topics, min(free, default=None))

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
