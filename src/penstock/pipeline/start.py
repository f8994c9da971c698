"""Where a query begins: the ledger's positions, what somebody has reset, and what Kafka still has.

In: the subscriptions of a topic. Out: the starting offset of every partition, with every lost range named.
Called before each start of a query.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.contract.model import Subscription
from penstock.errors import Misconfigured
from penstock.kafka import claims, group_image, ledger, topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.groups import Groups
from penstock.kafka.ledger import FollowedLedger, LaneKey, LaneRecord, Ledger, LedgerPart

logger = logging.getLogger("penstock.dispatcher")


@dataclass(frozen=True)
class Beginning:
    topic_id: str
    offsets: Mapping[int, int]
    ledger: LedgerPart  # the topic's


def find_beginning(
    connection: KafkaConnection, followed: FollowedLedger, topic: str, subscriptions: Sequence[Subscription]
) -> Beginning:
    """Raises Misconfigured when the topic is missing, Unavailable when the ledger or Kafka cannot be read."""
    admin = connection.admin()
    state = topics.describe(admin, [topic]).get(topic)
    if state is None:
        raise Misconfigured(f"topic {topic} does not exist")
    earliest = topics.earliest_offsets(admin, topic, state.partitions)
    _obey_resets(connection, subscriptions, state.topic_id)
    followed.read_to_end()
    part = followed.part(lambda lane: lane.topic_id == state.topic_id)
    known = part.ledger
    latest = topics.latest_offsets(admin, topic, state.partitions)  # after the ledger, so that it cannot be behind it
    _pull_back(connection, known, topic, state.topic_id, subscriptions, latest)
    offsets = {}
    for partition in range(state.partitions):
        wanted = lowest_position(known, state.topic_id, partition, subscriptions)
        if wanted < earliest[partition] and wanted > 0:
            logger.error(
                "lost: %s/%d offsets %d to %d were deleted by retention before they were delivered",
                topic,
                partition,
                wanted,
                earliest[partition] - 1,
            )
        offsets[partition] = min(max(wanted, earliest[partition]), latest[partition])
    return Beginning(state.topic_id, offsets, part)


def lowest_position(known: Ledger, topic_id: str, partition: int, subscriptions: Sequence[Subscription]) -> int:
    """The first offset that any subscription still needs; a lane without a record needs all there is."""
    entries = [known.entry(LaneKey(each.uid, topic_id, partition)) for each in subscriptions]
    return min((entry.record.position if entry else 0) for entry in entries)


def _obey_resets(connection: KafkaConnection, subscriptions: Sequence[Subscription], topic_id: str) -> None:
    """Somebody set a group's offsets: the lanes go there, under a generation that outranks the present one."""
    groups = Groups(connection)
    try:
        for subscription, asked in group_image.resets(groups, subscriptions):
            try:
                # Without our mark: should we die before the lanes are moved, it is still a reset.
                groups.commit(subscription.group, subscription.topic, asked, "reset")
            except Misconfigured as error:
                logger.error("%s; its offsets are not taken for a reset", error.message)
                continue
            logger.warning("group %s was reset from outside to %s: obeyed", subscription.group, asked)
            _move_lanes(connection, subscription, topic_id, asked)
            groups.commit(subscription.group, subscription.topic, asked, group_image.MARK)
    finally:
        groups.close()


def _pull_back(
    connection: KafkaConnection,
    known: Ledger,
    topic: str,
    topic_id: str,
    subscriptions: Sequence[Subscription],
    latest: Mapping[int, int],
) -> None:
    """Lanes that stand beyond the end of the log: it lost records, or somebody set them there.

    What comes next would get offsets that these lanes take for finished, so they go back to the end.
    """
    for subscription in subscriptions:
        beyond = {}
        for partition, end in latest.items():
            entry = known.entry(LaneKey(subscription.uid, topic_id, partition))
            if entry is not None and entry.record.position > end:
                beyond[partition] = end
                logger.error(
                    "trigger %s/%s stands at offset %d of %s/%d, which ends at %d: it goes on from there",
                    subscription.namespace, subscription.name, entry.record.position, topic, partition, end,
                )  # fmt: skip
        if beyond:
            _move_lanes(connection, subscription, topic_id, beyond)


def _move_lanes(
    connection: KafkaConnection, subscription: Subscription, topic_id: str, asked: Mapping[int, int]
) -> None:
    producer = connection.producer()
    writer = ledger.LedgerWriter(producer)
    query = claims.next_query_number(producer, topic_id)
    for partition, offset in asked.items():
        generation = claims.claim(producer, topic_id, partition, query)
        writer.write(LaneKey(subscription.uid, topic_id, partition), generation, LaneRecord(offset))
        writer.flush(f"the new position of {subscription.group}")
        claims.close(producer, topic_id, partition, generation)
