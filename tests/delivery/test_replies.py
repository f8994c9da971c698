"""Promises of replies and of the record of what was not delivered, against real HTTP servers."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from penstock.contract.model import DEAD_LETTERS_TOPIC, DeadLetter, Delivery
from penstock.delivery import client
from penstock.delivery.deliver import Limits
from penstock.delivery.forms import binary_lines
from penstock.delivery.row import Row
from penstock.event.kafka import Record, decode_record
from penstock.event.model import Event
from tests.delivery.loop import lane, running
from tests.delivery.outbox import KeptOutbox
from tests.sink import Answer, Sink
from tests.waiting import until

MakeSink = Callable[[], Sink]

REPLY = {"ce-specversion": "1.0", "ce-id": "r1", "ce-source": "/s", "ce-type": "re", "content-type": "text/plain"}
STRUCTURED = b'{"specversion":"1.0","id":"r2","source":"/s","type":"re","data":{"a":1}}'
LONG = bytes(range(256)) * 12
LINES = [
    b"ce-specversion:1.0",
    b"ce-id:7",
    b"ce-source:/shop",
    b"ce-type:order",
    b"content-type:text/plain",
    b"traceparent:00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    b"ce-knativekafkapartition:3",
    b"ce-knativekafkaoffset:7",
]


def row(*extra: bytes) -> Row:
    return Row(7, (0,), [*LINES, *extra], b"hello")


def delivered(sink: Sink, outbox: KeptOutbox, event: Row, answer: Answer, **fields: Any) -> Any:
    sink.answer("/a", with_=lambda _: answer)
    target = lane(sink.url + "/a", reply_topic="orders", **fields)
    with running(target, outbox=outbox, limits=Limits(reply_hops=4)) as rows:
        rows.offer(event)
    assert target.progress.position == 8
    return target


def events(outbox: KeptOutbox, topic: str = "orders") -> list[Event]:
    return [decode_record(record.value, record.headers) for where, record in outbox.stored if where == topic]


def letters(outbox: KeptOutbox) -> list[DeadLetter]:
    return [
        msgspec.json.decode(record.value or b"", type=DeadLetter)
        for topic, record in outbox.stored
        if topic == DEAD_LETTERS_TOPIC
    ]


@pytest.mark.parametrize("status", [200, 201, 203, 299])
@pytest.mark.parametrize("body", [b"pong", b"x" * 5_000], ids=["short", "long"])
def test_an_event_in_the_answer_is_stored(sink: MakeSink, status: int, body: bytes) -> None:
    """Kept promise: a reply goes to the broker's topic as it is, with one hop less and the trace of its cause."""
    outbox = KeptOutbox()
    target = delivered(sink(), outbox, row(), Answer(status, body, REPLY))
    (reply,) = events(outbox)
    assert reply.attributes == {
        **{name.removeprefix("ce-"): value for name, value in REPLY.items() if name.startswith("ce-")},
        "datacontenttype": "text/plain",
        "knativebrokerttl": "3",
    }
    assert reply.data == body
    assert ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01") in outbox.stored[0][1].headers
    assert (target.counts.delivered, target.counts.replies) == (1, 1)


@pytest.mark.parametrize(
    ("content_type", "body", "ids"),
    [
        ("application/cloudevents+json", STRUCTURED, ["r2"]),
        ("application/cloudevents-batch+json", b"[" + STRUCTURED + b"," + STRUCTURED + b"]", ["r2", "r2"]),
    ],
)
def test_replies_may_be_structured_or_many(sink: MakeSink, content_type: str, body: bytes, ids: list[str]) -> None:
    """Kept promise: whatever form the ingress takes, a reply may have."""
    outbox = KeptOutbox()
    delivered(sink(), outbox, row(), Answer(200, body, {"content-type": content_type}))
    assert [each.attributes["id"] for each in events(outbox)] == ids


@pytest.mark.parametrize(
    "answer",
    [
        Answer(202, b"pong", REPLY),
        Answer(200, b"", REPLY),
        Answer(200, b"thank you", {"content-type": "text/plain"}),
        Answer(201, b'{"id": 1}', {"content-type": "application/json"}),
    ],
)
def test_what_is_no_reply_is_dropped(sink: MakeSink, answer: Answer) -> None:
    """Kept promise: a 202, an empty body and a body that is no event are successes and nothing else."""
    outbox = KeptOutbox()
    target = delivered(sink(), outbox, row(), answer)
    assert outbox.stored == []
    assert target.counts.delivered == 1


def test_a_reply_without_a_place_to_go_is_dropped(sink: MakeSink) -> None:
    """Kept promise: a source's subscriber may answer with events; nobody asked for them."""
    subscriber, outbox = sink(), KeptOutbox()
    subscriber.answer("/a", with_=lambda _: Answer(200, b"pong", REPLY))
    with running(lane(subscriber.url + "/a"), outbox=outbox) as rows:
        rows.offer(row())
    assert outbox.stored == []


def test_a_delivery_counts_once_its_reply_is_stored(sink: MakeSink) -> None:
    """Kept promise: while Kafka has not acknowledged the reply, the ledger does not pass the event."""
    subscriber, outbox = sink(), KeptOutbox()
    outbox.is_away = True
    subscriber.answer("/a", with_=lambda _: Answer(200, b"pong", REPLY))
    target = lane(subscriber.url + "/a", reply_topic="orders", position=7)
    with running(target, outbox=outbox) as rows:
        rows.offer(row())
        until(lambda: outbox.waiting, "the reply is on its way")
        assert target.progress.is_open
        outbox.is_away = False
    assert target.progress.position == 8
    assert len(events(outbox)) == 1


def test_a_reply_that_cannot_be_stored_is_a_failed_delivery(sink: MakeSink) -> None:
    """Kept promise: the subscriber gets the event again, and its reply another chance."""
    subscriber, outbox = sink(), KeptOutbox()
    outbox.errors = ["too large", "too large"]
    policy = Delivery(retry=3, backoff_delay_seconds=0.01)
    target = delivered(subscriber, outbox, row(), Answer(200, b"pong", REPLY), delivery=policy)
    assert len(subscriber.requests) == 3
    assert (target.counts.failed_attempts, target.counts.delivered) == (2, 1)
    assert len(events(outbox)) == 1


def test_an_invalid_reply_is_a_failed_delivery_and_says_why(sink: MakeSink) -> None:
    """Kept promise: nothing that is no event gets into the topic."""
    outbox = KeptOutbox()
    broken = {name: value for name, value in REPLY.items() if name != "ce-type"}
    delivered(sink(), outbox, row(), Answer(200, b"pong", broken))
    assert events(outbox) == []
    (letter,) = letters(outbox)
    assert letter.outcome == "given up"
    assert "type" in letter.reason


@pytest.mark.parametrize(("length", "stored"), [(65_536, 1), (65_537, 0)])
def test_a_reply_keeps_to_the_limit_of_attributes(sink: MakeSink, length: int, stored: int) -> None:
    """Kept promise: a reply with an attribute that the ingress would refuse does not get into a topic either."""
    outbox = KeptOutbox()
    event = {"specversion": "1.0", "id": "r", "source": "/s", "type": "re", "note": "n" * length}
    content_type = {"content-type": "application/cloudevents+json"}
    delivered(sink(), outbox, row(), Answer(200, msgspec.json.encode(event), content_type))
    assert len(events(outbox)) == stored
    if not stored:
        assert "attribute 'note' is 65,537 bytes long" in letters(outbox)[0].reason


@pytest.mark.parametrize(("number", "stored"), [(256, 1), (257, 0)])
@pytest.mark.parametrize("mode", ["binary", "structured", "batched"])
def test_a_reply_keeps_to_the_limit_of_the_number_of_attributes(
    sink: MakeSink, mode: str, number: int, stored: int
) -> None:
    """Kept promise: a reply with more attributes than the ingress takes is a failed delivery, as any invalid one."""
    outbox = KeptOutbox()
    event = {"specversion": "1.0", "id": "r", "source": "/s", "type": "re"}
    event |= {f"n{each}": "1" for each in range(number - 4)}
    answer = Answer(200, msgspec.json.encode(event), {"content-type": "application/cloudevents+json"})
    if mode == "batched":
        answer = Answer(200, msgspec.json.encode([event]), {"content-type": "application/cloudevents-batch+json"})
    if mode == "binary":
        answer = Answer(200, b"pong", {f"ce-{name}": value for name, value in event.items()})
    delivered(sink(), outbox, row(), answer)
    assert len(events(outbox)) == stored
    if not stored:
        (letter,) = letters(outbox)
        assert letter.outcome == "given up"
        assert "257 attributes; at most 256 are taken (PENSTOCK_ATTRIBUTE_LIMIT)" in letter.reason


@pytest.mark.scenario(20)
def test_replies_to_replies_come_to_an_end(sink: MakeSink) -> None:
    """Kept promise: a trigger that feeds itself is cut off after the hop limit, and it is counted."""
    outbox = KeptOutbox()
    subscriber = sink()
    hops: list[bytes] = []
    for left in range(10):
        target = delivered(subscriber, outbox, row(*hops), Answer(200, b"pong", REPLY))
        if target.counts.loops_cut:
            assert left == 4
            break
        hops = [b"ce-knativebrokerttl:" + events(outbox)[-1].attributes["knativebrokerttl"].encode()]
    else:
        pytest.fail("the loop was not cut")
    assert len(events(outbox)) == 4
    assert target.counts.delivered == 1


INNER = b'{"specversion":"1.0","id":"inner","source":"/s","type":"t"}'
ABOUT_AN_EVENT = (
    b'{"specversion":"1.0","id":"outer","source":"/s","type":"re",'
    b'"datacontenttype":"application/cloudevents+json","data":%s}' % INNER
)
IN_BINARY_DATA = (
    b'{"specversion":"1.0","id":"outer","source":"/s","type":"re",'
    b'"datacontenttype":"application/cloudevents+avro","data_base64":"AAEC"}'
)
LOOPS = {
    "binary": Answer(200, b"pong", REPLY),
    "structured": Answer(200, STRUCTURED, {"content-type": "application/cloudevents+json"}),
    "batched": Answer(200, b"[%s]" % STRUCTURED, {"content-type": "application/cloudevents-batch+json"}),
    "about an event": Answer(200, ABOUT_AN_EVENT, {"content-type": "application/cloudevents+json"}),
    "about a batch": Answer(
        200,
        ABOUT_AN_EVENT.replace(b"events+json", b"events-batch+json"),
        {"content-type": "application/cloudevents+json"},
    ),
    "batched about events": Answer(
        200, b"[%s,%s]" % (ABOUT_AN_EVENT, IN_BINARY_DATA), {"content-type": "application/cloudevents-batch+json"}
    ),
    "claims more hops": Answer(
        200, ABOUT_AN_EVENT[:-1] + b',"knativebrokerttl":255}', {"content-type": "application/cloudevents+json"}
    ),
}


@pytest.mark.scenario(20)
@pytest.mark.parametrize("form", LOOPS)
def test_a_loop_of_replies_ends_at_the_hop_limit_in_every_form(sink: MakeSink, form: str) -> None:
    """Kept promise: whatever form a reply has, also when its data is itself an event, its hops are counted."""
    outbox, subscriber = KeptOutbox(), sink()
    cause = row()
    for stored in range(10):
        before = len(outbox.stored)
        target = delivered(subscriber, outbox, cause, LOOPS[form])
        if target.counts.loops_cut:
            assert stored == 4
            return
        assert len(outbox.stored) > before
        cause = as_read_from_kafka(outbox.stored[-1][1])
    pytest.fail("the loop was not cut")


def as_read_from_kafka(record: Record) -> Row:
    """The row that a worker makes of a stored record."""
    lines, body = binary_lines(decode_record(record.value, record.headers))
    return Row(7, (0,), lines, body)


def test_a_reply_cannot_give_itself_more_hops(sink: MakeSink) -> None:
    """Kept promise: what a subscriber writes into the hop count does not count."""
    outbox = KeptOutbox()
    delivered(
        sink(), outbox, row(b"ce-knativebrokerttl:2"), Answer(200, b"p", {**REPLY, "ce-knativebrokerttl": "255"})
    )
    assert events(outbox)[0].attributes["knativebrokerttl"] == "1"


def test_what_is_given_up_is_recorded_with_all_that_is_needed_to_find_it(sink: MakeSink) -> None:
    """Kept promise: nothing is dropped without a record of the event and of the reason."""
    outbox = KeptOutbox()
    policy = Delivery(retry=1, backoff_delay_seconds=0.01)
    delivered(sink(), outbox, row(), Answer(503, b"closed"), delivery=policy)
    (letter,) = letters(outbox)
    assert (letter.id, letter.source, letter.type) == ("7", "/shop", "order")
    assert (letter.kind, letter.namespace, letter.name, letter.uid) == ("Trigger", "shop", "t", "u")
    assert (letter.topic, letter.partition, letter.offset) == ("orders", 3, 7)
    assert (letter.outcome, letter.code, letter.attempts, letter.reason) == ("given up", 503, 2, "status 503")
    event = msgspec.json.decode(letter.event)
    assert base64.b64decode(event.pop("data_base64")) == b"hello"
    assert event == {
        "specversion": "1.0",
        "id": "7",
        "source": "/shop",
        "type": "order",
        "datacontenttype": "text/plain",
    }
    assert outbox.stored[0][1].key == b"u/3/7"


def test_what_the_sink_has_is_recorded_too_and_carries_the_subscribers_words(sink: MakeSink) -> None:
    """Kept promise: kne- headers become extensions of the dead letter, and none of them changes the event."""
    outbox, dead = KeptOutbox(), sink()
    says = {
        "kne-reason": "late",
        "Kne-Retryable": "no",
        "kne-id": "forged",
        "kne-knativeerrorcode": "1",
        "kne-a.b": "x",
    }
    policy = Delivery(dead_letter_url=dead.url + "/d")
    target = delivered(sink(), outbox, row(), Answer(400, b"no", says), delivery=policy)
    (request,) = dead.requests
    assert (request.headers["ce-reason"], request.headers["ce-retryable"]) == ("late", "no")
    assert (request.headers["ce-id"], request.headers["ce-knativeerrorcode"]) == ("7", "400")
    assert "ce-a.b" not in request.headers
    assert [each.outcome for each in letters(outbox)] == ["dead-lettered"]
    assert (target.counts.dead_lettered, target.counts.given_up) == (1, 0)


def test_without_an_answer_the_dead_letter_says_what_went_wrong(sink: MakeSink) -> None:
    """Kept promise: no code is invented where there was no answer."""
    dead, outbox = sink(), KeptOutbox()
    policy = Delivery(dead_letter_url=dead.url + "/d")
    with running(lane("http://127.0.0.1:1/", delivery=policy, position=7), outbox=outbox) as rows:
        rows.offer(row())
    (request,) = dead.requests
    assert "ce-knativeerrorcode" not in request.headers
    assert b"connect" in base64.b64decode(request.headers["ce-knativeerrordata"]).lower()


@pytest.mark.parametrize(
    "answer",
    [Answer(500, LONG), Answer(200, LONG, {"ce-specversion": "1.0", "ce-id": "r1"})],
    ids=["a failure", "a reply that is no event"],
)
def test_of_a_long_answer_the_dead_letter_has_the_beginning(sink: MakeSink, answer: Answer) -> None:
    """Kept promise: knativeerrordata is base64 of the first 1,024 bytes of the answer: no more, and no fewer."""
    dead = sink()
    policy = Delivery(dead_letter_url=dead.url + "/d")
    delivered(sink(), KeptOutbox(), row(), answer, delivery=policy)
    (request,) = dead.requests
    assert request.headers["ce-knativeerrordata"] == base64.b64encode(LONG[:1024]).decode()
    assert request.headers["ce-knativeerrorcode"] == str(answer.status)


@pytest.mark.scenario(33)
def test_a_sink_that_fails_too_leaves_a_record(sink: MakeSink) -> None:
    """Kept promise: with subscriber and sink both down, the event is in the record, with the subscriber's reason."""
    dead, outbox = sink(), KeptOutbox()
    dead.answer("/d", status=500)
    policy = Delivery(retry=1, backoff_delay_seconds=0.01, dead_letter_url=dead.url + "/d")
    delivered(sink(), outbox, row(), Answer(404), delivery=policy)
    (letter,) = letters(outbox)
    assert (letter.outcome, letter.code, letter.attempts) == ("given up", 404, 2)
    assert len(dead.requests) == 2


def test_a_reply_for_which_there_is_no_room_is_not_taken_for_nothing(
    sink: MakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: while too many replies arrive at once, a delivery fails rather than its reply being lost."""
    monkeypatch.setattr(client, "REPLIES_BYTES", 10)
    outbox = KeptOutbox()
    target = delivered(sink(), outbox, row(), Answer(200, b"more than ten bytes", REPLY))
    assert (target.counts.failed_attempts, target.counts.given_up) == (1, 1)
    assert events(outbox) == []


def test_a_dead_letter_that_is_too_large_is_recorded_without_its_data(sink: MakeSink) -> None:
    """Kept promise: whatever happens, there is a record of what was given up."""
    outbox = KeptOutbox()
    outbox.errors = ["too large"]
    delivered(sink(), outbox, row(), Answer(400))
    (letter,) = letters(outbox)
    assert letter.outcome == "given up, kept without its data"
    assert "data_base64" not in msgspec.json.decode(letter.event)


@pytest.mark.parametrize("body", [b"[]", b"[{}, {}]", b"no JSON"])
def test_a_record_with_a_strange_type_harms_nobody(sink: MakeSink, body: bytes) -> None:
    """Kept promise: what others write into the topic can be delivered and dead-lettered, and stops nothing."""
    outbox = KeptOutbox()
    lines = [line for line in LINES if not line.startswith(b"content-type")]
    strange = Row(7, (0,), [*lines, b"content-type: application/cloudevents-batch+json"], body)
    policy = Delivery(format="json")
    delivered(sink(), outbox, strange, Answer(400), delivery=policy)
    assert [each.id for each in letters(outbox)] == ["7"]
