"""A trigger that is moved while its subscriber still has a request to answer."""

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ledger import LaneKey, LaneRecord, read_ledger
from tests.conftest import System
from tests.sink import Answer, Request, Sink
from tests.system.resources import apply, broker, get, trigger
from tests.system.test_delivery import ids, send
from tests.system.test_positions import rows
from tests.waiting import until

MakeSink = Callable[[], Sink]


def record_of(system: System, topic: str, uid: str, partition: int) -> LaneRecord:
    """What the ledger has about a lane."""
    connection = KafkaConnection(system.bootstrap_servers)
    topic_id = topics.describe(connection.admin(), [topic])[topic].topic_id
    entry = read_ledger(connection).entry(LaneKey(uid, topic_id, partition))
    return LaneRecord(0) if entry is None else entry.record


def is_at_the_end(system: System, name: str) -> bool:
    """Whether the ledger has the end of the topic as the trigger's position."""
    return all(row["from"] == row["to"] for row in rows(system, name, "--to", "latest", "--dry-run"))


@pytest.mark.parametrize("order", ["unordered", "ordered"])
def test_a_reset_moves_a_trigger_only_when_the_request_in_flight_is_answered(
    penstock_up: System, sink: MakeSink, order: str
) -> None:
    """Kept promise: the request in flight is answered first and counts, so its event is not delivered again; each
    event before it is delivered once more, and the other trigger of the broker goes on meanwhile."""
    subscriber, answered = sink(), threading.Event()

    def hold(request: Request) -> Answer:
        return Answer(after=answered) if request.headers["ce-id"] == "last" else Answer()

    name = f"resetting-{order}"
    subscriber.answer("/moved-slowly", with_=hold)
    kept = {"kafka.eventing.knative.dev/delivery.order": order}
    patient = {"timeout": "PT5M"}  # longer than the commands take
    only = {"filters": [{"exact": {"type": "order"}}], "delivery": patient}
    moved = trigger(name, name, subscriber.url + "/moved-slowly", kept, **only)
    apply(penstock_up, broker(name), moved, trigger(f"{name}-other", name, subscriber.url + "/other"))
    sent = [*(f"e{n}" for n in range(5)), "last"]
    for id_ in sent:
        send(penstock_up, name, id_, partitionkey="same")
    began = {each.headers["ce-id"]: each for each in subscriber.wait_for(6, "/moved-slowly")}
    in_flight = began["last"]
    partition = int(in_flight.headers["ce-knativekafkapartition"])
    offset = int(in_flight.headers["ce-knativekafkaoffset"])
    uid = get(penstock_up, "trigger", name)["metadata"]["uid"]

    def record() -> LaneRecord:
        return record_of(penstock_up, f"knative-broker-default-{name}", uid, partition)

    try:
        until(lambda: record().position == offset, "only the last one is in flight")
        assert len(rows(penstock_up, name, "--to", "earliest")) > partition
        until(lambda: offset in record().stopped, "the worker has stopped the lane, and noted what is in flight")
        for n in range(10):
            send(penstock_up, name, f"tick-{n}", "tick", partitionkey="same")
        subscriber.wait_for(16, "/other")
        assert Counter(ids(subscriber.at("/moved-slowly"))) == Counter(sent)
    finally:
        answered.set()

    subscriber.wait_for(11, "/moved-slowly", 60)
    until(lambda: is_at_the_end(penstock_up, name), "its position is the end")
    again = ids(subscriber.at("/moved-slowly"))[6:]
    assert (again if order == "ordered" else sorted(again)) == sent[:-1]
    assert set(Counter(ids(subscriber.at("/other"))).values()) == {1}

    send(penstock_up, name, "behind", partitionkey="same")
    subscriber.wait_for(12, "/moved-slowly")
    until(lambda: is_at_the_end(penstock_up, name), "the ledger has its position")
    assert len(rows(penstock_up, name, "--to", "earliest")) > partition  # and now nothing is in flight
    subscriber.wait_for(19, "/moved-slowly", 60)
    assert Counter(ids(subscriber.at("/moved-slowly"))[12:]) == Counter([*sent, "behind"])
