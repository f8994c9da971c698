"""What deliveries say in the log: every line about an event has its id and where it stands."""

import logging
from typing import Any

import pytest

from penstock.contract.model import Delivery
from penstock.delivery.lane import FAILED_LINES
from penstock.delivery.row import Row
from penstock.telemetry.logs import Bounded, fields_of
from tests.delivery.loop import MakeSink, lane, running
from tests.delivery.outbox import KeptOutbox

AGAIN = Delivery(retry=1, backoff_delay_seconds=0.01)


def row(offset: int = 7) -> Row:
    lines = [b"ce-specversion:1.0", b"ce-id:id %d" % offset, b"ce-source:/shop", b"ce-type:order"]
    lines += [b"ce-knativekafkapartition:3", b"ce-knativekafkaoffset:%d" % offset, b"Content-Type:"]
    return Row(offset, (0,), lines, b"x")


def said(caplog: pytest.LogCaptureFixture, words: str) -> list[dict[str, Any]]:
    found = [record for record in caplog.records if record.getMessage().startswith(words)]
    assert all(record.levelno == logging.WARNING for record in found)
    return [dict(fields_of(record)) for record in found]


EVENT = {
    "event": "id 7",
    "source": "/shop",
    "type": "order",
    "topic": "orders",
    "partition": "3",
    "offset": 7,
    "subscription": "Trigger/shop/t",
}


def test_the_story_of_an_event_can_be_followed(sink: MakeSink, caplog: pytest.LogCaptureFixture) -> None:
    """Kept promise: each attempt that failed, and the end, with the same fields."""
    subscriber = sink()
    subscriber.answer("/a", status=500)
    with running(lane(subscriber.url + "/a", delivery=AGAIN)) as rows:
        rows.offer(row())
    first, second = said(caplog, "attempt ")
    (ended,) = said(caplog, "given up: offset 7 of orders for trigger shop/t: status 500")
    assert first == EVENT | {"attempt": 1, "status": 500}
    assert second == EVENT | {"attempt": 2, "status": 500}
    assert ended == EVENT | {"attempt": 2, "status": 500}


def test_a_dead_letter_is_said(sink: MakeSink, caplog: pytest.LogCaptureFixture) -> None:
    """With the reason for which the subscriber was given up."""
    subscriber = sink()
    subscriber.answer("/a", status=400)
    delivery = Delivery(dead_letter_url=subscriber.url + "/dead")
    with running(lane(subscriber.url + "/a", delivery=delivery)) as rows:
        rows.offer(row())
    (ended,) = said(caplog, "dead-lettered: offset 7 of orders for trigger shop/t: status 400")
    assert EVENT.items() <= ended.items()


def test_a_reply_that_is_not_stored_is_said(sink: MakeSink, caplog: pytest.LogCaptureFixture) -> None:
    """It fails the attempt, which says so."""
    subscriber, outbox = sink(), KeptOutbox()
    outbox.errors = ["too large"]
    told = {"ce-specversion": "1.0", "ce-id": "r1", "ce-source": "/s", "ce-type": "re"}
    subscriber.answer("/a", body=b"x", headers=told)
    with running(lane(subscriber.url + "/a", reply_topic="orders", delivery=AGAIN), outbox=outbox) as rows:
        rows.offer(row())
    (failed,) = said(caplog, "attempt 1 failed: offset 7 of orders for trigger shop/t: the reply could not be stored")
    assert EVENT.items() <= failed.items()


def test_a_flood_of_failures_is_bounded(sink: MakeSink, caplog: pytest.LogCaptureFixture) -> None:
    """A few lines a second, and none is forgotten: later ones say how many were left out."""
    subscriber = sink()
    subscriber.answer("/a", status=400)
    with running(lane(subscriber.url + "/a")) as rows:
        for offset in range(200):
            rows.offer(row(offset))
    failed = said(caplog, "attempt ")
    seconds = caplog.records[-1].created - caplog.records[0].created
    assert len(failed) <= FAILED_LINES * (seconds + 2)


def test_what_is_left_out_is_counted() -> None:
    """Lines and those left out add up."""
    lines = Bounded(2)
    asked = [lines.ask(now) for now in (1.0, 1.1, 1.2, 1.9, 2.0, 2.1, 2.2, 3.0)]
    assert asked == [0, 0, None, None, 2, 0, None, 1]
