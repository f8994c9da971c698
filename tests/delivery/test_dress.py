"""Promises of events that one subscription gets otherwise than all: extensions that are set, records made events."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from penstock.contract.model import DEAD_LETTERS_TOPIC, DeadLetter, Delivery, RecordsAsEvents
from penstock.delivery.row import ForeignRow, Row
from penstock.event.foreign import Foreign
from penstock.event.http import decode
from penstock.event.model import Event
from tests.delivery.loop import lane, running
from tests.delivery.outbox import KeptOutbox
from tests.sink import Answer, Request, Sink

MakeSink = Callable[[], Sink]

LINES = [
    b"ce-specversion:1.0",
    b"ce-id:7",
    b"ce-source:/shop",
    b"ce-type:order",
    b"ce-region:eu",
    b"ce-empty;",
    b"content-type:application/json",
    b"ce-knativekafkapartition:3",
    b"ce-knativekafkaoffset:7",
]
EXTENSIONS = {"region": "ü us", "added": "yes", "empty": "no more", "id": "forged", "data": "x", "no-name": "x"}
FORMS = [Delivery(), Delivery(format="json"), Delivery(batch=2, batch_wait_seconds=0.01)]
SOURCE = RecordsAsEvents("/apis/v1/namespaces/shop/kafkasources/s#orders")


def row(offset: int = 7, places: tuple[int, ...] = (0,), lines: list[bytes] | None = None) -> Row:
    return Row(offset, places, lines or LINES, b'{"n": 1}')


def foreign(offset: int, places: tuple[int, ...] = (0,), value: bytes = b"plain", **fields: Any) -> Row:
    record = Foreign(3, offset, 1_577_836_800_000, b"k", [(b"content-type", b"text/plain")])
    return ForeignRow(record._replace(**fields), places, value)


def events(request: Request) -> list[Event]:
    fields = [(name.encode(), value.encode("latin-1")) for name, value in request.headers.items() if name != "host"]
    return decode(fields, request.body)


def event(request: Request) -> Event:
    (only,) = events(request)
    return only


def letters(outbox: KeptOutbox) -> list[DeadLetter]:
    return [msgspec.json.decode(record.value or b"", type=DeadLetter) for topic, record in outbox.stored
            if topic == DEAD_LETTERS_TOPIC]  # fmt: skip


@pytest.mark.parametrize("delivery", FORMS, ids=["binary", "json", "batched"])
def test_extensions_are_set_in_every_form_and_only_for_who_wants_them(sink: MakeSink, delivery: Delivery) -> None:
    """Kept promise: an extension is added or replaced, what an event is stays, and others get it as it was."""
    subscriber = sink()
    wanting = lane(subscriber.url + "/with", extensions=EXTENSIONS, delivery=delivery, position=7)
    other = lane(subscriber.url + "/without", delivery=delivery, position=7)
    with running(wanting, other) as rows:
        rows.offer(row(places=(0, 1)))
    was = {
        "specversion": "1.0", "id": "7", "source": "/shop", "type": "order", "region": "eu", "empty": "",
        "datacontenttype": "application/json", "knativekafkapartition": "3", "knativekafkaoffset": "7",
    }  # fmt: skip
    assert event(subscriber.at("/without")[0]).attributes == was
    dressed = event(subscriber.at("/with")[0])
    assert dressed.attributes == {**was, "region": "ü us", "added": "yes", "empty": "no more"}
    assert dressed.data == b'{"n": 1}'


def test_extensions_are_set_on_an_event_about_an_event(sink: MakeSink) -> None:
    """Kept promise: where the attributes are in the body they are set there."""
    body = b'{"specversion":"1.0","id":"7","source":"/s","type":"t","datacontenttype":"application/cloudevents+json"'
    about = Row(7, (0,), [b"content-type:application/cloudevents+json"], body + b',"data":{"a":1},"region":"eu"}')
    subscriber = sink()
    with running(lane(subscriber.url + "/a", extensions={"region": "us"}, position=7)) as rows:
        rows.offer(about)
    got = event(subscriber.requests[0])
    assert (got.attributes["region"], got.attributes["type"], got.data) == ("us", "t", b'{"a":1}')


def test_the_dead_letter_sink_gets_the_extensions_and_the_record_the_event(sink: MakeSink) -> None:
    """Kept promise: what is kept to be sent again is the event as it was."""
    subscriber, dead, outbox = sink(), sink(), KeptOutbox()
    subscriber.answer("/a", status=400)
    policy = Delivery(dead_letter_url=dead.url + "/d")
    target = lane(subscriber.url + "/a", extensions=EXTENSIONS, delivery=policy, position=7)
    with running(target, outbox=outbox) as rows:
        rows.offer(row())
    got = event(dead.requests[0]).attributes
    assert (got["region"], got["added"], got["knativeerrorcode"]) == ("ü us", "yes", "400")
    kept = msgspec.json.decode(letters(outbox)[0].event)
    assert (kept["region"], "added" in kept) == ("eu", False)


def test_a_dead_letter_about_an_event_says_why_and_where(sink: MakeSink) -> None:
    """Kept promise: where the attributes are in the body, the verdict is there too; the record has the partition."""
    subscriber, dead, outbox = sink(), sink(), KeptOutbox()
    subscriber.answer("/a", status=400)
    body = b'{"specversion":"1.0","id":"7","source":"/s","type":"t","datacontenttype":"application/cloudevents+json"'
    lines = [b"content-type:application/cloudevents+json", b"traceparent:00-abc-def-01", *LINES[-2:]]
    about = Row(7, (0,), lines, body + b',"data":{"a":1},"knativeerrorcode":"500"}')
    policy = Delivery(dead_letter_url=dead.url + "/d")
    with running(lane(subscriber.url + "/a", delivery=policy, position=7), outbox=outbox) as rows:
        rows.offer(about)
    got = event(dead.requests[0])
    assert (got.attributes["knativeerrorcode"], got.attributes["knativekafkapartition"]) == ("400", "3")
    assert (got.attributes["knativeerrordest"], got.data) == (subscriber.url + "/a", b'{"a":1}')
    assert dead.requests[0].headers["traceparent"] == "00-abc-def-01"
    (letter,) = letters(outbox)
    assert (letter.partition, "knativekafkapartition" in msgspec.json.decode(letter.event)) == (3, False)


@pytest.mark.parametrize("delivery", FORMS, ids=["binary", "json", "batched"])
def test_a_source_makes_an_event_of_a_record_and_each_says_who_it_is(sink: MakeSink, delivery: Delivery) -> None:
    """Kept promise: two sources of a topic get the same record as events of their own, in every form."""
    subscriber = sink()
    sources = RecordsAsEvents("/one"), RecordsAsEvents("/two", "byte-array")
    lanes = [lane(subscriber.url + each.source, records=each, delivery=delivery, position=7) for each in sources]
    with running(*lanes) as rows:
        rows.offer(foreign(7, (0, 1), b"\0plain"))
    for name, key in (("/one", "k"), ("/two", "aw==")):
        got = event(subscriber.at(name)[0])
        assert got.data == b"\0plain"
        assert got.attributes == {
            "specversion": "1.0", "id": "partition:3/offset:7", "source": name, "type": "dev.knative.kafka.event",
            "subject": "partition:3#7", "time": "2020-01-01T00:00:00Z", "datacontenttype": "text/plain",
            "key": key, "partitionkey": key, "knativekafkapartition": "3", "knativekafkaoffset": "7",
        }  # fmt: skip
    assert [each.progress.position for each in lanes] == [8, 8]


def test_records_and_events_of_a_source_keep_their_order_through_retries(sink: MakeSink) -> None:
    """Kept promise: an ordered source goes on only when a record was taken, tombstones and all."""
    subscriber = sink()
    answers = iter([200, 503, 503, 200])
    subscriber.answer("/a", with_=lambda _: Answer(next(answers, 200)))
    policy = Delivery(retry=3, backoff_delay_seconds=0.01)
    target = lane(subscriber.url + "/a", records=SOURCE, order="ordered", delivery=policy, position=5)
    with running(target) as rows:
        for each in (row(5), foreign(6, value=b"", key=None), row(7), foreign(8)):
            rows.offer(each)
    ids = [each.headers["ce-id"] for each in subscriber.requests]
    assert ids == ["7", *["partition:3/offset:6"] * 3, "7", "partition:3/offset:8"]
    assert (target.progress.position, target.counts.delivered) == (9, 4)


def test_a_record_that_is_given_up_is_kept_as_the_event_it_became(sink: MakeSink) -> None:
    """Kept promise: the dead letter of a source names the record, and can be sent again."""
    subscriber, dead, outbox = sink(), sink(), KeptOutbox()
    subscriber.answer("/a", status=400)
    policy = Delivery(dead_letter_url=dead.url + "/d")
    with running(lane(subscriber.url + "/a", records=SOURCE, delivery=policy, position=7), outbox=outbox) as rows:
        rows.offer(foreign(7))
    assert event(dead.requests[0]).attributes["id"] == "partition:3/offset:7"
    (letter,) = letters(outbox)
    assert (letter.id, letter.source, letter.type) == (
        "partition:3/offset:7",
        SOURCE.source,
        "dev.knative.kafka.event",
    )
    assert (letter.partition, letter.offset) == (3, 7)


def test_a_record_with_a_long_key_or_an_envelope_arrives(sink: MakeSink) -> None:
    """Kept promise: a key that no header would hold, and a value that only says it is an event, arrive whole."""
    subscriber = sink()
    broken = [(b"content-type", b"application/cloudevents+json"), (b"traceparent", b"00-abc-def-01")]
    with running(lane(subscriber.url + "/a", records=SOURCE, order="ordered", extensions={"e": "1"})) as rows:
        rows.offer(foreign(0, key=b"k" * 9_000))
        rows.offer(foreign(1, value=b"{trunc", headers=broken))
    long, envelope = map(event, subscriber.requests)
    assert (len(long.attributes["key"]), long.data, long.attributes["e"]) == (9_000, b"plain", "1")
    assert subscriber.requests[0].headers["content-type"] == "application/cloudevents+json"
    assert (envelope.data, envelope.attributes["datacontenttype"]) == (b"{trunc", "application/cloudevents+json")
    assert (envelope.attributes["e"], envelope.attributes["type"]) == ("1", "dev.knative.kafka.event")
    assert subscriber.requests[1].headers["traceparent"] == "00-abc-def-01"
