"""Promises of a dispatcher that may isolate no lane, and of the end of its real-time batches. Kafka and Spark are
real."""

import itertools
import uuid
from collections.abc import Iterator

import pytest

from penstock.contract.model import Delivery, Subscription
from penstock.kafka import ledger, topics
from penstock.kafka.ledger import LaneKey, LaneRecord
from tests.pipeline.test_dispatcher import MakeSink, World, ids, running_dispatcher
from tests.sink import Answer, Request
from tests.waiting import until

BATCH_SECONDS = 12


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = {
        "PENSTOCK_PRIVATE_QUERIES": "0",
        "PENSTOCK_LIVE_BATCH_MINUTES": str(BATCH_SECONDS / 60),
        "PENSTOCK_RENEWAL_SECONDS": "0",  # so that batches end
        "PENSTOCK_QUIET_MINUTES": "0",
    }
    with running_dispatcher(tmp_path_factory.mktemp("batches"), **settings) as started:
        yield started


def test_a_lane_that_was_isolated_is_served_where_none_may_be(world: World, sink: MakeSink) -> None:
    """Kept promise: a start that may isolate no lane serves the lanes that an earlier one had isolated."""
    subscriber, topic, uid = sink(), f"topic-{uuid.uuid4()}", str(uuid.uuid4())
    other = world.subscribe(subscriber.url + "/other", topic=topic)
    world.send(topic, ["before"], partition=0)
    subscriber.wait_for(1, "/other")
    topic_id = topics.describe(world.kafka.admin(), [topic])[topic].topic_id
    writer = ledger.LedgerWriter(world.kafka.producer())
    for partition in (0, 1):
        writer.write(LaneKey(uid, topic_id, partition), 7, LaneRecord(0, is_open=True, is_parked=True))
    writer.flush("a test")
    url = subscriber.url + "/isolated"
    isolated = Subscription(uid, "Trigger", "default", uid, topic, f"group-{uid}", url)
    world.agree(isolated)
    subscriber.wait_for(1, "/isolated")
    world.send(topic, ["after"], partition=0)
    subscriber.wait_for(2, "/isolated")
    until(lambda: set(ids(subscriber.at("/isolated"))) == {"before", "after"}, "both arrive")
    until(lambda: world.position(isolated) == world.position(other) == 2, "both are in the ledger")


@pytest.mark.timeout(480)  # up to two waits of 20 s, longer than a batch and its end, and queries start anew
def test_a_retry_that_waits_at_the_end_of_a_batch_stops_nobody(world: World, sink: MakeSink) -> None:
    """Kept promise: a batch ends although a retry waits for long. The query does not fail, the other subscription
    gets each event. The event is tried again, with its attempts counted, until none is left."""
    subscriber, topic = sink(), f"topic-{uuid.uuid4()}"

    def refuse_one(request: Request) -> Answer:
        return Answer(503, headers={"retry-after": "20"}) if request.headers["ce-id"] == "hard" else Answer(200)

    subscriber.answer("/a", with_=refuse_one)
    delivery = Delivery(retry=2, backoff_delay_seconds=0.01)
    failing = world.subscribe(subscriber.url + "/a", topic=topic, delivery=delivery)
    world.subscribe(subscriber.url + "/b", topic=topic)
    sent = ["first", "hard"]
    world.send(topic, sent, partition=0)
    for number in itertools.count():
        if world.position(failing) > 1:
            break
        sent.append(f"later-{number}")
        world.send(topic, sent[-1:], partition=0)
        until(lambda: sent[-1] in ids(subscriber.at("/b")), "the other subscription goes on")
        report = world.report(topic)
        assert report is None or report.state in ("starting", "running"), report
        assert number < 2000
    until(lambda: set(sent) <= set(ids(subscriber.at("/a"))), "all come to the one that failed too")
    assert set(ids(subscriber.at("/b"))) == set(sent)
    assert 3 <= ids(subscriber.at("/a")).count("hard") <= 6
    letters = [each for each in world.dead_letters() if each.uid == failing.uid]
    assert {(each.id, each.attempts) for each in letters} == {("hard", 3)}
