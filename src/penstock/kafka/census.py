"""All that a Kafka cluster says of itself: brokers, topics with their ends, groups with their positions.

For people who look for a fault: every topic and group, not only ours. Called by ``must-gather``.
"""

from typing import Any

from confluent_kafka import KafkaException
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from penstock.errors import PenstockError, Unavailable
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.groups import Groups

TIMEOUT_SECONDS = 10.0


def brokers(connection: KafkaConnection) -> dict[str, Any]:
    """Raises Unavailable."""
    try:
        told = connection.admin().list_topics(timeout=TIMEOUT_SECONDS)
    except KafkaException as error:
        raise Unavailable(f"Kafka at {connection.bootstrap_servers} does not answer: {error}") from error
    partitions = [partition for topic in told.topics.values() for partition in topic.partitions.values()]
    return {
        "cluster_id": told.cluster_id,
        "controller": told.controller_id,
        "brokers": [f"{each.id} {each.host}:{each.port}" for each in told.brokers.values()],
        "topics": len(told.topics),
        "partitions": len(partitions),
        "offline_partitions": sum(each.leader < 0 for each in partitions),
        "under_replicated_partitions": sum(len(each.isrs) < len(each.replicas) for each in partitions),
    }


def all_topics(connection: KafkaConnection) -> list[dict[str, Any]]:
    """Every topic with its partitions; what cannot be asked of one is said there."""
    admin = connection.admin()
    try:
        told = admin.list_topics(timeout=TIMEOUT_SECONDS).topics
    except KafkaException as error:
        raise Unavailable(f"Kafka at {connection.bootstrap_servers} does not answer: {error}") from error
    found = []
    for name, topic in sorted(told.items()):
        shown: dict[str, Any] = {"topic": name}
        begins: dict[int, int] = {}
        ends: dict[int, int] = {}
        try:
            begins = topics.earliest_offsets(admin, name, len(topic.partitions))
            ends = topics.latest_offsets(admin, name, len(topic.partitions))
            shown["retention_seconds"] = topics.retention_seconds(admin, name)
        except PenstockError as error:
            shown["problem"] = error.message
        shown["partitions"] = [
            {
                "partition": number,
                "begin": begins.get(number),
                "end": ends.get(number),
                "leader": at.leader,
                "replicas": list(at.replicas),
                "in_sync": list(at.isrs),
            }
            for number, at in sorted(topic.partitions.items())
        ]
        found.append(shown)
    return found


def all_groups(connection: KafkaConnection, ends: dict[tuple[str, int], int]) -> list[dict[str, Any]]:
    """Every group with its positions and how far each is from the end."""
    try:
        client = KafkaAdminClient(**connection.group_client_config(), request_timeout_ms=5000)
        try:
            names = sorted(str(each["group_id"]) for each in client.list_groups())
        finally:
            client.close()
    except KafkaError as error:
        raise Unavailable(f"the groups cannot be listed: {error}") from error
    groups = Groups(connection)
    try:
        committed = groups.offsets(names)
    finally:
        groups.close()
    return [
        {
            "group": name,
            "lag": sum(max(0, ends.get(at, c.offset) - c.offset) for at, c in committed[name].items()),
            "positions": [
                {"topic": topic, "partition": partition, "position": c.offset, "end": ends.get((topic, partition))}
                for (topic, partition), c in sorted(committed[name].items())
            ],
        }
        for name in names
    ]
