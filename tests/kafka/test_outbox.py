"""Promises of the outbox on a real Kafka: who hands something over is told what became of it, and of nothing else."""

from collections.abc import Sequence
from functools import partial

import pytest
from tests.waiting import until

from penstock.event.kafka import Record
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.outbox import KafkaOutbox


@pytest.mark.parametrize("too_large", [5_000, 5_000_000], ids=["for the topic", "for the client"])
def test_a_record_that_is_too_large_fails_its_own_sending_only(kafka: KafkaConnection, too_large: int) -> None:
    """Kept promise: what Kafka refuses, or the client before it, is told to who sent it, and harms no neighbour."""
    topic = f"outbox-{too_large}"
    topics.create_missing(kafka.admin(), [topics.TopicSpec(topic, config={"max.message.bytes": "2000"})])
    small, large = Record(b"k", b"small", []), Record(b"k", b"x" * too_large, [])
    sendings: list[Sequence[Record]] = [[small], [small, large], [small]]
    outbox = KafkaOutbox(kafka)
    told: dict[int, str | None] = {}
    for number, records in enumerate(sendings):
        outbox.send(topic, records, partial(told.__setitem__, number))

    def is_settled() -> bool:
        outbox.settle()
        return outbox.waiting == 0

    until(is_settled, "every sending is answered")
    outbox.close()
    assert [bool(told[number]) for number in range(3)] == [False, True, False], told


def test_a_reply_to_a_topic_made_anew_with_fewer_partitions_is_stored(kafka: KafkaConnection) -> None:
    """Kept promise: a reply that was for a partition that is gone goes to one of the new partitions. The event
    that it answers is not a failed attempt."""
    topic, admin = "outbox-fewer", kafka.admin()
    topics.create_missing(admin, [topics.TopicSpec(topic, 12)])
    outbox = KafkaOutbox(kafka)

    def is_settled() -> bool:
        outbox.settle()
        return outbox.waiting == 0

    def send_all() -> list[str | None]:
        reports: list[str | None] = []
        for key in range(30):
            outbox.send(topic, [Record(b"%d" % key, b"reply", [])], reports.append)
        until(is_settled, "every record is reported")
        return reports

    assert send_all() == [None] * 30
    [deleted] = admin.delete_topics([topic], operation_timeout=10).values()
    deleted.result()
    until(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is gone")
    topics.create_missing(admin, [topics.TopicSpec(topic, 1)])
    assert send_all() == [None] * 30
    outbox.close()
    assert topics.latest_offsets(admin, topic, 1)[0] >= 30, "a retry of the client may write a record twice"
