"""One trace through the whole system: sender, receiver, Kafka, worker, subscriber, reply, dead letter."""

import http.client
import json
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import pytest

from tests.collector import Collector
from tests.conftest import System, running_system
from tests.sink import Answer, Sink
from tests.system.resources import broker, trigger

TRACE, SENDERS_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SENDERS_SPAN}-01"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    started = Collector().start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[System]:
    """With tracing on, for every event; workers push their spans as the receiver does."""
    environment = {
        "PENSTOCK_TRACE_EXPORTER": "otlp",
        "PENSTOCK_TRACE_SAMPLING": "1.0",
        "PENSTOCK_TRACE_ENDPOINT": collector.otlp_url,
    }
    with running_system(tmp_path_factory.mktemp("traced"), environment) as started:
        yield started


@pytest.fixture(scope="module")
def subscriber(system: System) -> Iterator[Sink]:
    """Takes orders at the second try and answers with a bill, which nobody takes."""
    sink = Sink().start()
    answers = iter([Answer(500), Answer(200, b"{}", event("bill-1", "bill"))])
    sink.answer("/orders", with_=lambda request: next(answers) if request.headers["ce-id"] == "42" else Answer())
    sink.answer("/bills", status=400)
    again = {"retry": 1, "backoffDelay": "PT0.05S"}
    to_sink = {"deadLetterSink": {"uri": sink.url + "/dead"}}
    by_type = {name: {"attributes": {"type": name}} for name in ("order", "bill")}
    resources = [
        broker("traced"),
        trigger("orders", "traced", sink.url + "/orders", filter=by_type["order"], delivery=again),
        trigger("bills", "traced", sink.url + "/bills", filter=by_type["bill"], delivery=to_sink),
    ]
    told = system.run("apply", "-f", "-", stdin="\n---\n".join(json.dumps(each) for each in resources))
    assert told.returncode == 0, told.stderr
    for name in ("broker/traced", "trigger/orders", "trigger/bills"):
        waited = system.run("wait", name, "--for=condition=Ready", "--timeout=60s")
        assert waited.returncode == 0, waited.stderr
    yield sink
    sink.stop()


def event(id_: str, type_: str) -> dict[str, str]:
    return {"ce-specversion": "1.0", "ce-id": id_, "ce-source": "/shop", "ce-type": type_}


def send(system: System, headers: Mapping[str, str], status: int = 202) -> None:
    sender = http.client.HTTPConnection(urlsplit(system.ingress_url).netloc, timeout=10)
    sender.request("POST", "/default/traced", body=b"{}", headers={"content-type": "application/json", **headers})
    assert sender.getresponse().status == status


def test_one_trace_from_the_sender_to_the_dead_letter(system: System, subscriber: Sink, collector: Collector) -> None:
    """Kept promise: everything that happens because of an event is one tree of spans, under the sender's own."""
    send(system, event("42", "order") | {"traceparent": PARENT, "tracestate": "vendor=opaque"})
    words = ["receive", "produce", "match", "attempt", "attempt", "reply"]
    words += ["match", "attempt", "dead letter", "attempt"]
    receive, produce, match, failed, taken, reply, second_match, refused, dead, to_sink = collector.wait_for_spans(
        TRACE, words
    )
    parents = {span.id: span.parent for span in collector.spans() if span.trace_id == TRACE}
    assert parents == {
        receive.id: SENDERS_SPAN,
        produce.id: receive.id,
        match.id: produce.id,
        failed.id: match.id,
        taken.id: match.id,
        reply.id: taken.id,
        second_match.id: reply.id,
        refused.id: second_match.id,
        dead.id: second_match.id,
        to_sink.id: dead.id,
    }
    assert [span.service for span in (receive, produce, match)] == ["penstock-receiver"] * 2 + ["penstock-dispatcher"]
    assert (failed.error, taken.error) == ("status 500", "")
    assert taken.attributes["penstock.subscription"] == "Trigger/default/orders"
    assert second_match.attributes["cloudevents.event_id"] == "bill-1"
    assert (receive.start <= produce.start, match.end <= failed.start, failed.end <= taken.start) == (True,) * 3
    first, again = (each for each in subscriber.at("/orders") if each.headers["ce-id"] == "42")
    assert [first.headers["traceparent"], again.headers["traceparent"]] == [failed.traceparent, taken.traceparent]
    assert again.headers["tracestate"] == "vendor=opaque"
    assert subscriber.at("/dead")[0].headers["traceparent"] == to_sink.traceparent


def test_what_the_sender_does_not_trace_is_passed_on_unchanged(
    system: System, subscriber: Sink, collector: Collector
) -> None:
    """Byte for byte, also what is no traceparent; and an event without one begins a trace."""
    told = {"43": f"00-{TRACE}-{SENDERS_SPAN}-00", "44": "nonsense-01"}
    for id_, traceparent in told.items():
        send(system, event(id_, "order") | {"traceparent": traceparent})
    send(system, event("45", "order"))
    subscriber.wait_for(5, "/orders")
    came = {each.headers["ce-id"]: each.headers["traceparent"] for each in subscriber.at("/orders")}
    assert {id_: came[id_] for id_ in told} == told
    trace = came["45"].split("-")[1]
    receive, *_, attempt = collector.wait_for_spans(trace, ["receive", "produce", "match", "attempt"])
    assert receive.parent == ""
    assert came["45"] == attempt.traceparent
    assert not {"43", "44"} & {span.attributes.get("cloudevents.event_id") for span in collector.spans()}


def test_a_request_that_is_refused_is_in_the_trace(system: System, subscriber: Sink, collector: Collector) -> None:
    """Its sender sees where it ended, and why."""
    trace = "2" * 32
    send(system, {"ce-specversion": "1.0", "traceparent": f"00-{trace}-{SENDERS_SPAN}-01"}, status=400)
    (refused,) = collector.wait_for_spans(trace, ["receive"])
    assert (refused.parent, refused.error) == (SENDERS_SPAN, "bad event")
    assert refused.attributes["http.response.status_code"] == 400
