"""The ledger's public image: a consumer group per subscription, so that every Kafka tool shows the lag.

Our commits carry a mark in their metadata. An offset without the mark was set by somebody else: a reset, which
is obeyed at the next start of the query. An absent group has expired or never was, and means nothing.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.contract.model import LEDGER_TOPIC, Subscription
from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ledger import LaneKey, Ledger

logger = logging.getLogger("penstock.kafka")

MARK = "penstock"
TIMEOUT_SECONDS = 10.0
INTERVAL_SECONDS = 0.8
AGAIN_SECONDS = 6 * 3600.0  # quiet groups are committed again long before a broker forgets them


def commit(admin: AdminClient, group: str, topic: str, positions: Mapping[int, int]) -> None:
    """Shows these positions as the group's. Raises Unavailable, for instance when the group has members."""
    partitions = [TopicPartition(topic, p, offset, metadata=MARK) for p, offset in positions.items()]
    asked = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, partitions)], request_timeout=TIMEOUT_SECONDS
    )
    try:
        answered = asked[group].result(timeout=TIMEOUT_SECONDS * 2)
    except KafkaException as error:
        raise Unavailable(f"group {group} cannot be refreshed: {error.args[0].str()}") from error
    for each in answered.topic_partitions:
        if each.error is not None:
            raise Unavailable(f"group {group} cannot be refreshed: {each.error.str()}")


def resets(admin: AdminClient, group: str, topic: str) -> dict[int, int]:
    """Offsets that somebody else has set for this group and topic, by partition."""
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=TIMEOUT_SECONDS)
    try:
        answered = asked[group].result(timeout=TIMEOUT_SECONDS * 2)
    except KafkaException as error:
        raise Unavailable(f"offsets of group {group} cannot be read: {error.args[0].str()}") from error
    return {
        each.partition: each.offset
        for each in answered.topic_partitions
        if each.topic == topic and each.offset >= 0 and each.metadata != MARK
    }


class GroupImages:
    """A thread that follows the ledger and commits, about once a second, what moved."""

    def __init__(self, connection: KafkaConnection, on_reset: Callable[[Subscription], None]) -> None:
        self._connection = connection
        self._on_reset = on_reset  # somebody has set offsets of this subscription's group
        self._ledger = Ledger()
        self._moved: set[LaneKey] = set()
        self._shown: dict[tuple[str, str], Subscription] = {}  # by subscription uid and topic id
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-images", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def show(self, shown: Mapping[tuple[str, str], Subscription]) -> None:
        """From now on these, by subscription uid and topic id, and no others."""
        self._shown = dict(shown)
        self._moved.update(self._ledger.lanes())

    def stop(self) -> None:
        """Commits what is known by now and ends."""
        self._stopping.set()
        self._thread.join(timeout=10.0)

    def _run(self) -> None:
        consumer = self._connection.consumer()
        admin = self._connection.admin()
        try:
            consumer.assign([TopicPartition(LEDGER_TOPIC, 0, 0)])
            due = time.monotonic() + INTERVAL_SECONDS
            again = time.monotonic() + AGAIN_SECONDS
            while True:
                is_last = self._stopping.is_set()
                for message in consumer.consume(2000, 0.2):
                    if message.error() is None:
                        self._moved.add(self._ledger.take(message.key(), message.value()))
                if time.monotonic() >= again:
                    again = time.monotonic() + AGAIN_SECONDS
                    self._moved.update(self._ledger.lanes())
                if is_last or time.monotonic() >= due:
                    due = time.monotonic() + INTERVAL_SECONDS
                    self._commit_moved(admin)
                if is_last:
                    return
        finally:
            consumer.close()

    def _commit_moved(self, admin: AdminClient) -> None:
        moved, self._moved = self._moved, set()
        positions: dict[tuple[str, str], dict[int, int]] = {}
        for lane in moved:
            entry = self._ledger.entry(lane)
            if entry is not None:
                at = positions.setdefault((lane.subscription_uid, lane.topic_id), {})
                at[lane.partition] = entry.record.position
        for which, subscription in self._shown.items():
            if which not in positions:
                continue
            try:
                if resets(admin, subscription.group, subscription.topic):
                    self._on_reset(subscription)
                else:
                    commit(admin, subscription.group, subscription.topic, positions[which])
            except (Unavailable, TimeoutError) as error:  # Kafka is away: the next round tries again
                logger.warning("group %s is not refreshed: %s", subscription.group, error)
                self._moved.update(lane for lane in moved if lane[:2] == which)
