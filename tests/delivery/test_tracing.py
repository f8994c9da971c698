"""The spans of deliveries, against real subscribers and a real collector; the loop runs as in a worker."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.contract.model import Delivery, RecordsAsEvents
from penstock.delivery.lane import Lane
from penstock.delivery.posts import post_of
from penstock.delivery.row import ForeignRow, Row
from penstock.delivery.tracing import DeliveryTracing
from penstock.event.foreign import Foreign
from penstock.telemetry.traces import TraceSettings, open_tracing
from tests.collector import Collector, SeenSpan
from tests.delivery.loop import MakeSink, Rows, lane, running
from tests.delivery.outbox import KeptOutbox
from tests.sink import Answer

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
AGAIN = Delivery(retry=1, backoff_delay_seconds=0.01)


@pytest.fixture
def collector() -> Iterator[Collector]:
    started = Collector().start()
    yield started
    started.stop()


def row(offset: int = 7, flags: str = "01", trace: str = TRACE) -> Row:
    lines = [
        b"ce-specversion:1.0",
        b"ce-id:%d%%20a" % offset,
        b"ce-source:/shop",
        b"ce-type:order",
        b"content-type:application/json",
        f"traceparent:00-{trace}-{SPAN}-{flags}".encode(),
        b"tracestate:vendor=1",
        b"ce-knativekafkapartition:3",
        b"ce-knativekafkaoffset:%d" % offset,
    ]
    found = Row(offset, (0,), lines, b"{}")
    found.written = 1_000_000.0
    found.received = 999_999.0
    return found


@contextmanager
def traced(
    collector: Collector, *lanes: Lane, outbox: KeptOutbox | None = None, share: float = 0.0
) -> Iterator[Rows]:
    tracing = open_tracing(TraceSettings(share, "otlp", collector.otlp_url), "dispatcher")
    assert tracing is not None
    of = DeliveryTracing(tracing, "orders", 3)
    with running(*lanes, outbox=outbox, tracing=of) as rows:
        yield rows
    of.close()


def by_word(spans: list[SeenSpan], word: str) -> list[SeenSpan]:
    return [span for span in spans if span.word == word]


def test_every_attempt_has_a_span_which_its_request_carries(sink: MakeSink, collector: Collector) -> None:
    """Kept promise: match under the sender's span, attempts under match, and the subscriber sees its attempt's."""
    subscriber = sink()
    answers = iter([Answer(500), Answer(200)])
    subscriber.answer("/a?token=hush", with_=lambda _: next(answers))
    secret = subscriber.url.replace("://", "://me:hush@") + "/a?token=hush"
    with traced(collector, lane(secret, delivery=AGAIN)) as rows:
        rows.offer(row())
    spans = collector.wait_for_spans(TRACE, ["match", "attempt", "attempt"])
    (match,), (first, second) = by_word(spans, "match"), by_word(spans, "attempt")
    assert match.parent == SPAN
    assert (first.parent, second.parent) == (match.id, match.id)
    assert match.start == 1_000_000.001, "the end of the millisecond in which Kafka had it"
    assert match.attributes["penstock.subscriptions"] == ["Trigger/shop/t"]
    assert match.attributes["messaging.destination.partition.id"] == "3"
    assert match.attributes["messaging.kafka.offset"] == 7
    assert match.attributes["cloudevents.event_id"] == "7 a"
    assert second.attributes["cloudevents.event_source"] == "/shop"
    assert first.error == "status 500"
    assert (first.attributes["http.response.status_code"], first.attributes["penstock.attempt"]) == (500, 1)
    assert (second.attributes["http.response.status_code"], second.attributes["penstock.attempt"]) == (200, 2)
    assert second.attributes["penstock.subscription"] == "Trigger/shop/t"
    assert second.error == ""
    assert first.attributes["url.full"] == subscriber.url + "/a"
    assert "hush" not in repr(spans)
    requests = subscriber.at("/a?token=hush")
    assert [each.headers["traceparent"] for each in requests] == [first.traceparent, second.traceparent]
    assert [each.headers["tracestate"] for each in requests] == ["vendor=1"] * 2


@pytest.mark.parametrize("flags", ["00", "zz"])
def test_what_is_not_traced_goes_on_as_it_came(sink: MakeSink, collector: Collector, flags: str) -> None:
    """Byte for byte, and without a span; also what is no traceparent at all."""
    subscriber = sink()
    with traced(collector, lane(subscriber.url + "/a"), share=1.0) as rows:
        rows.offer(row(flags=flags))
    (request,) = subscriber.requests
    assert request.headers["traceparent"] == f"00-{TRACE}-{SPAN}-{flags}"
    assert collector.spans() == []


def test_a_reply_goes_on_with_the_trace(sink: MakeSink, collector: Collector) -> None:
    """Its record carries the reply's span, which belongs to the attempt that it answers."""
    subscriber, outbox = sink(), KeptOutbox()
    told = {"ce-specversion": "1.0", "ce-id": "r1", "ce-source": "/s", "ce-type": "re"}
    subscriber.answer("/a", body=b"x", headers=told)
    with traced(collector, lane(subscriber.url + "/a", reply_topic="orders"), outbox=outbox) as rows:
        rows.offer(row())
    _, attempt, reply = collector.wait_for_spans(TRACE, ["match", "attempt", "reply"])
    assert reply.parent == attempt.id
    headers = dict(outbox.stored[0][1].headers)
    assert headers["traceparent"].decode() == reply.traceparent
    assert headers["tracestate"] == b"vendor=1"


def test_a_reply_to_an_address_goes_on_with_the_trace(sink: MakeSink, collector: Collector) -> None:
    """Its request carries the reply's span; a reply that is not taken is an error, and the event is tried again."""
    subscriber = sink()
    told = {"ce-specversion": "1.0", "ce-id": "r1", "ce-source": "/s", "ce-type": "re"}
    subscriber.answer("/a", body=b"x", headers=told)
    answers = iter([Answer(503), Answer(200)])
    subscriber.answer("/replies", with_=lambda _: next(answers))
    target = lane(subscriber.url + "/a", reply_url=subscriber.url + "/replies", delivery=AGAIN)
    with traced(collector, target) as rows:
        rows.offer(row())
    spans = collector.wait_for_spans(TRACE, ["match", "attempt", "attempt", "reply", "reply"])
    attempts, answered = by_word(spans, "attempt"), by_word(spans, "reply")
    assert [each.parent for each in answered] == [each.id for each in attempts]
    assert [bool(each.error) for each in answered] == [True, False]
    assert [each.headers["traceparent"] for each in subscriber.at("/replies")] == [
        each.traceparent for each in answered
    ]


def test_a_dead_letter_has_a_span_with_its_requests(sink: MakeSink, collector: Collector) -> None:
    """It belongs to the match; what is sent to the sink belongs to it."""
    subscriber = sink()
    subscriber.answer("/a", status=400)
    delivery = Delivery(dead_letter_url=subscriber.url + "/dead")
    with traced(collector, lane(subscriber.url + "/a", delivery=delivery)) as rows:
        rows.offer(row())
    spans = collector.wait_for_spans(TRACE, ["match", "attempt", "dead letter", "attempt"])
    (match,), (dead,) = by_word(spans, "match"), by_word(spans, "dead letter")
    first, to_sink = by_word(spans, "attempt")
    assert (first.parent, dead.parent, to_sink.parent) == (match.id, match.id, dead.id)
    assert dead.attributes["penstock.outcome"] == "dead-lettered"
    assert dead.attributes["penstock.error"] == "status 400"
    assert dead.error == ""
    (letter,) = subscriber.at("/dead")
    assert letter.headers["traceparent"] == to_sink.traceparent


def test_each_event_of_a_batch_keeps_its_trace(sink: MakeSink, collector: Collector) -> None:
    """One request, and a span of it in every trace; when it is given up, each event by itself."""
    subscriber = sink()
    subscriber.answer("/a", status=400)
    other = "1" * 32
    delivery = Delivery(batch=3, batch_wait_seconds=5.0)
    with traced(collector, lane(subscriber.url + "/a", delivery=delivery)) as rows:
        rows.offer(row(7))
        rows.offer(row(8, flags="00", trace="2" * 32))
        rows.offer(row(9, trace=other))
    (request,) = subscriber.at("/a")
    for trace in (TRACE, other):
        spans = collector.wait_for_spans(trace, ["match", "attempt", "dead letter"])
        (attempt,), (dead,) = by_word(spans, "attempt"), by_word(spans, "dead letter")
        assert attempt.attributes["messaging.batch.message_count"] == 3
        assert dead.attributes["penstock.outcome"] == "given up"
        assert dead.error
    assert request.headers["traceparent"].startswith(f"00-{TRACE}-")
    assert {span.trace_id for span in collector.spans()} == {TRACE, other}


def test_records_of_others_may_begin_a_trace(sink: MakeSink, collector: Collector) -> None:
    """What no receiver has seen is chosen by share where it is read; a source's record may bring a trace too."""
    subscriber = sink()
    source = lane(subscriber.url + "/a", kind="KafkaSource", records=RecordsAsEvents("/source"))
    told = [(b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())]
    with traced(collector, source, share=1.0) as rows:
        rows.offer(ForeignRow(Foreign(3, 7, 5, None, told), (0,), b"x"))
        rows.offer(ForeignRow(Foreign(3, 8, 5, None, []), (0,), b"x"))
    match, attempt = collector.wait_for_spans(TRACE, ["match", "attempt"])
    assert (match.parent, attempt.parent) == (SPAN, match.id)
    assert attempt.attributes["cloudevents.event_id"] == "partition:3/offset:7"
    (root,) = [span for span in by_word(collector.spans(), "match") if span.trace_id != TRACE]
    assert root.parent == ""
    assert {each.headers["traceparent"][3:35] for each in subscriber.requests} == {TRACE, root.trace_id}


def test_what_is_cut_off_says_so(sink: MakeSink, collector: Collector) -> None:
    """A span that is open when the worker lets go is ended with that reason."""
    tracing = open_tracing(TraceSettings(0.0, "otlp", collector.otlp_url), "dispatcher")
    assert tracing is not None
    of = DeliveryTracing(tracing, "orders", 3)
    target, event = lane("http://127.0.0.1:1/"), row()
    of.take(event, [target])
    target.add(event, 0.0)
    attempt = target.next(0.0)
    assert attempt is not None
    of.sent(attempt, post_of(attempt, lambda _: None, 0.0))
    of.close()
    spans = collector.wait_for_spans(TRACE, ["match", "attempt"])
    assert by_word(spans, "attempt")[0].error.startswith("cut off")
