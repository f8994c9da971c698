"""Consumer groups as seen from outside: what they have committed, and removing one that nobody needs.

Called by the controller, which shows the lag of a subscription and clears up after a deleted one.
"""

from collections.abc import Iterable

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.errors import Unavailable

TIMEOUT_SECONDS = 10.0
_GONE = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID)

Committed = dict[tuple[str, int], int]  # (topic, partition) to the next offset


def committed_offsets(admin: AdminClient, groups: Iterable[str]) -> dict[str, Committed]:
    """What each group has committed; a group that does not exist has committed nothing."""
    # One request per group, all under way at once: the client takes only one group per call.
    asked = {
        group: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=TIMEOUT_SECONDS
        )[group]
        for group in groups
    }
    found: dict[str, Committed] = {}
    for group, future in asked.items():
        try:
            partitions = future.result(timeout=TIMEOUT_SECONDS * 2).topic_partitions
        except KafkaException as error:
            if error.args[0].code() not in _GONE:
                raise Unavailable(f"offsets of group {group} cannot be read: {error.args[0].str()}") from error
            partitions = []
        found[group] = {(p.topic, p.partition): p.offset for p in partitions if p.offset >= 0}
    return found


def delete_group(admin: AdminClient, group: str) -> None:
    """Deletes it; one that is gone already is fine. Raises Unavailable, for instance while it has members."""
    try:
        admin.delete_consumer_groups([group], request_timeout=TIMEOUT_SECONDS)[group].result(TIMEOUT_SECONDS * 2)
    except KafkaException as error:
        if error.args[0].code() not in _GONE:
            raise Unavailable(f"group {group} cannot be deleted: {error.args[0].str()}") from error
