"""W3C's trace context: who sends an event with one finds it again at every subscriber, however it got there."""

import re

import pytest

from tests.conformance.sending import ask, binary
from tests.conformance.stage import Stage
from tests.sink import Request

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}\Z")


@pytest.fixture(scope="module")
def url(stage: Stage) -> str:
    address = stage.broker("traces")
    again = {"retry": 1, "backoffDelay": "PT0.05S"}
    deliveries = {"again": again, "dead": {"deadLetterSink": stage.to("/dead-letters")}}
    for name in ("plain", "again", "dead", "asks", "answers"):
        stage.trigger(name, "traces", filter={"attributes": {"type": name}}, delivery=deliveries.get(name, {}))
    for name in ("plain", "again", "dead", "asks", "answers"):
        stage.until_ready("Trigger", name)
    return address


def send_traced(url: str, type_: str, id_: str = "traced", **headers: str) -> None:
    assert ask("POST", url, b"x", binary(id_, type_) | {"traceparent": PARENT, **headers}).status == 202


def trace_of(request: Request) -> str:
    found = TRACEPARENT.match(request.headers.get("traceparent", ""))
    assert found, f"no trace context in {dict(request.headers)}"
    return found[1]


def test_trace_is_passed_on(stage: Stage, url: str) -> None:
    """The subscriber's request belongs to the trace of the sender's."""
    send_traced(url, "plain", "passed")
    assert trace_of(stage.came("/plain", "passed")) == TRACE


def test_state_of_the_trace_is_passed_on(stage: Stage, url: str) -> None:
    """What other vendors keep in ``tracestate`` stays in it."""
    send_traced(url, "plain", "state", tracestate="vendor=opaque,other=1")
    request = stage.came("/plain", "state")
    assert "vendor=opaque" in request.headers["tracestate"]
    assert "other=1" in request.headers["tracestate"]


def test_trace_in_attributes_stays(stage: Stage, url: str) -> None:
    """CloudEvents' extension for tracing is a pair of attributes, which stay what they are."""
    headers = binary("attributes", "plain", traceparent=PARENT, tracestate="vendor=opaque")
    assert ask("POST", url, b"x", headers).status == 202
    request = stage.came("/plain", "attributes")
    assert (request.headers["ce-traceparent"], request.headers["ce-tracestate"]) == (PARENT, "vendor=opaque")


def test_without_a_trace_none_is_broken(stage: Stage, url: str) -> None:
    """An event that came without a trace goes on without one, or with a valid new one."""
    assert ask("POST", url, b"x", binary("untraced", "plain")).status == 202
    told = stage.came("/plain", "untraced").headers.get("traceparent")
    assert told is None or TRACEPARENT.match(told)


def test_retries_are_of_the_same_trace(stage: Stage, url: str) -> None:
    """However often it is tried, it is one trace."""
    stage.subscriber.answer("/again", status=503)
    send_traced(url, "again")
    assert {trace_of(each) for each in stage.subscriber.wait_for(2, "/again")} == {TRACE}


def test_dead_letter_is_of_the_same_trace(stage: Stage, url: str) -> None:
    """A dead letter belongs to the trace of the event that it was."""
    stage.subscriber.answer("/dead", status=400)
    send_traced(url, "dead")
    assert trace_of(stage.subscriber.wait_for(1, "/dead-letters")[0]) == TRACE


def test_reply_is_of_the_same_trace(stage: Stage, url: str) -> None:
    """A reply without a trace of its own belongs to that of its cause."""
    stage.subscriber.answer("/asks", body=b"y", headers=binary("reply", "answers"))
    send_traced(url, "asks")
    assert trace_of(stage.subscriber.wait_for(1, "/answers")[0]) == TRACE
