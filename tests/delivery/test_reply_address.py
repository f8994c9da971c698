"""Promises of replies that go to an address: a channel's subscription may name one. Against real HTTP servers."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from penstock.access.addresses import AddressPolicy
from penstock.contract.model import DEAD_LETTERS_TOPIC, DeadLetter, Delivery
from penstock.delivery.deliver import Deliveries, Limits
from penstock.delivery.row import Row
from tests.delivery.loop import Rows, lane, running
from tests.delivery.outbox import KeptOutbox
from tests.sink import Answer, Sink
from tests.waiting import until

MakeSink = Callable[[], Sink]

TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
REPLY = {"ce-specversion": "1.0", "ce-id": "r1", "ce-source": "/s", "ce-type": "re", "content-type": "text/plain"}
SOON = Delivery(retry=2, backoff_delay_seconds=0.01)


def row(offset: int = 7, *extra: bytes) -> Row:
    lines = [
        b"ce-specversion:1.0",
        b"ce-id:%d" % offset,
        b"ce-source:/shop",
        b"ce-type:order",
        b"traceparent:" + TRACE,
    ]
    return Row(offset, (0,), [*lines, *extra], b"hello")


def replying(sink: Sink, body: bytes = b"pong", headers: dict[str, str] | None = None) -> Sink:
    sink.answer("/a", with_=lambda _: Answer(200, body, headers or REPLY))
    return sink


def target(subscriber: Sink, reply_url: str, **fields: Any) -> Any:
    return lane(subscriber.url + "/a", reply_url=reply_url, **{"delivery": SOON, **fields})


def letters(outbox: KeptOutbox) -> list[DeadLetter]:
    return [msgspec.json.decode(record.value or b"", type=DeadLetter) for topic, record in outbox.stored
            if topic == DEAD_LETTERS_TOPIC]  # fmt: skip


def test_an_event_in_the_answer_is_sent_to_the_address(sink: MakeSink) -> None:
    """Kept promise: a reply arrives in binary mode as it is, with one hop less and the trace of its cause."""
    subscriber, replies, outbox = replying(sink()), sink(), KeptOutbox()
    served = target(subscriber, replies.url + "/r")
    with running(served, outbox=outbox, limits=Limits(reply_hops=4)) as rows:
        rows.offer(row())
    (request,) = replies.requests
    assert (request.method, request.path, request.body) == ("POST", "/r", b"pong")
    assert {name: request.headers[name] for name in REPLY} == REPLY
    assert request.headers["ce-knativebrokerttl"] == "3"
    assert request.headers["traceparent"] == TRACE.decode()
    assert request.headers["kn-namespace"] == "shop"
    assert "prefer" not in request.headers
    assert (served.counts.delivered, served.counts.replies, served.progress.position) == (1, 1, 8)
    assert outbox.stored == []


def test_replies_that_come_many_at_once_are_sent_one_by_one(sink: MakeSink) -> None:
    """Kept promise: of a batch of replies each is sent, in its order, and only then the delivery is finished."""
    one = b'{"specversion":"1.0","id":"%d","source":"/s","type":"re","data_base64":"AAE="}'
    body = b"[" + b",".join(one % number for number in range(5)) + b"]"
    subscriber = replying(sink(), body, {"content-type": "application/cloudevents-batch+json"})
    replies = sink()
    served = target(subscriber, replies.url + "/r")
    with running(served) as rows:
        rows.offer(row())
    assert [(each.headers["ce-id"], each.body) for each in replies.requests] == [(str(n), b"\0\1") for n in range(5)]
    assert served.counts.replies == 5


def test_a_reply_with_long_attributes_travels_as_json(sink: MakeSink) -> None:
    """Kept promise: a reply whose headers no server would take arrives all the same."""
    subscriber = replying(sink(), b"[1]", {**REPLY, "ce-long": "x" * 9_000, "content-type": "application/json"})
    replies = sink()
    with running(target(subscriber, replies.url + "/r")) as rows:
        rows.offer(row())
    (request,) = replies.requests
    event = msgspec.json.decode(request.body)
    assert (len(event["long"]), event["data"], event["knativebrokerttl"]) == (9_000, [1], "15")


def test_a_delivery_counts_once_its_reply_was_taken(sink: MakeSink) -> None:
    """Kept promise: while the address has not answered, the ledger does not pass the event, nor does an ordered
    lane go on."""
    subscriber, replies, held = replying(sink()), sink(), threading.Event()
    replies.answer("/r", with_=lambda _: Answer(202, after=held))
    served = target(subscriber, replies.url + "/r", order="ordered", position=7)
    with running(served) as rows:
        rows.offer(row(7))
        rows.offer(row(8))
        replies.wait_for(1)
        assert served.progress.is_open
        assert len(subscriber.requests) == 1
        held.set()
        replies.wait_for(2)
    assert served.progress.position == 9
    assert [each.headers["ce-id"] for each in subscriber.requests] == ["7", "8"]


@pytest.mark.parametrize("status", [400, 404, 410, 503])
def test_a_reply_that_is_not_taken_is_a_failed_delivery(sink: MakeSink, status: int) -> None:
    """Kept promise: the subscriber gets the event again and its reply another chance, in order, until it is taken;
    what the address says of itself is not taken for the subscriber's word."""
    subscriber, replies = replying(sink()), sink()
    answers = iter([status, status])
    replies.answer("/r", with_=lambda _: Answer(next(answers, 200)))
    served = target(subscriber, replies.url + "/r", order="ordered", position=7)
    with running(served) as rows:
        rows.offer(row(7))
        rows.offer(row(8))
    assert [each.headers["ce-id"] for each in subscriber.requests] == ["7", "7", "7", "8"]
    assert (served.counts.failed_attempts, served.counts.delivered, served.is_gone) == (2, 2, False)
    assert (served.progress.position, served.failing) == (9, {})


def test_an_address_that_keeps_refusing_makes_a_dead_letter(sink: MakeSink) -> None:
    """Kept promise: after the subscription's retries the event goes to the dead letter sink, and the record says
    that it was the reply."""
    subscriber, replies, dead, outbox = replying(sink()), sink(), sink(), KeptOutbox()
    replies.answer("/r", status=500)
    policy = msgspec.structs.replace(SOON, dead_letter_url=dead.url + "/d")
    address = replies.url.replace("//", "//user:secret@") + "/r"
    with running(served := target(subscriber, address, delivery=policy), outbox=outbox) as rows:
        rows.offer(row())
    assert (len(subscriber.requests), len(replies.requests)) == (3, 3)
    (request,) = dead.requests
    assert (request.headers["ce-id"], request.body) == ("7", b"hello")
    (letter,) = letters(outbox)
    assert (letter.outcome, letter.attempts) == ("dead-lettered", 3)
    assert letter.reason == f"the reply was not taken by {replies.url}/r: status 500"
    assert (served.counts.replies, served.counts.dead_lettered, served.progress.position) == (0, 1, 8)


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/", "http://127.0.0.1:1/", "gopher://here/", "no address"]
)
def test_an_address_that_cannot_be_reached_loses_nothing(sink: MakeSink, address: str) -> None:
    """Kept promise: a forbidden, absent or senseless address fails the delivery like any other failure."""
    outbox = KeptOutbox()
    with running(served := target(replying(sink()), address, delivery=Delivery()), outbox=outbox) as rows:
        rows.offer(row())
    (letter,) = letters(outbox)
    assert letter.outcome == "given up"
    assert letter.reason.startswith(f"the reply was not taken by {address}")
    assert served.counts.replies == 0


def test_a_private_address_is_refused_where_subscribers_are(sink: MakeSink) -> None:
    """Kept promise: who may not reach this host by a subscription may not by its replies either."""
    subscriber, replies, outbox = replying(sink()), sink(), KeptOutbox()
    with running(
        target(subscriber, replies.url), outbox=outbox, limits=Limits(policy=AddressPolicy("refuse"))
    ) as rows:
        rows.offer(row())
    assert replies.requests == subscriber.requests == []
    assert [each.outcome for each in letters(outbox)] == ["given up"]


def test_the_hop_limit_holds_for_addresses_too(sink: MakeSink) -> None:
    """Kept promise: channels whose replies feed each other come to an end; what is cut is counted, not failed."""
    subscriber, replies = replying(sink()), sink()
    with running(served := target(subscriber, replies.url + "/r")) as rows:
        rows.offer(row(7, b"ce-knativebrokerttl:0"))
    assert replies.requests == []
    assert (served.counts.loops_cut, served.counts.delivered) == (1, 1)


def test_a_worker_that_lets_go_leaves_open_what_was_not_taken(sink: MakeSink) -> None:
    """Kept promise: a successor repeats a delivery whose reply was cut off; it is never taken for finished."""
    subscriber, replies, never = replying(sink()), sink(), threading.Event()
    replies.answer("/r", with_=lambda _: Answer(200, after=never))
    served = target(subscriber, replies.url + "/r", position=7)
    deliveries, rows = Deliveries([served], Limits(), on_tick=lambda _: None, outbox=KeptOutbox()), Rows()
    thread = threading.Thread(target=deliveries.run, args=(rows, 20.0), daemon=True)
    thread.start()
    rows.offer(row())
    replies.wait_for(1)
    deliveries.let_go(0.2, 0.4)
    thread.join(20)
    assert not thread.is_alive()
    assert (served.progress.position, served.progress.is_open) == (7, True)


def test_a_slow_address_does_not_hold_up_other_lanes(sink: MakeSink) -> None:
    """Kept promise: replies wait for their own address only."""
    subscriber, replies, held = replying(sink()), sink(), threading.Event()
    other = sink()
    replies.answer("/r", with_=lambda _: Answer(200, after=held))
    slow, quick = target(subscriber, replies.url + "/r"), lane(other.url + "/b")
    with running(slow, quick) as rows:
        for offset in range(20):
            rows.offer(Row(offset, (0, 1), [b"ce-id:%d" % offset], b""))
        other.wait_for(20)
        until(lambda: quick.progress.position == 20)
        assert slow.progress.position == 0
        held.set()
    assert slow.progress.position == 20
