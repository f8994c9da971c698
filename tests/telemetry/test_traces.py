"""Traces: which events are chosen, and how spans reach a collector, or do not."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from penstock.errors import Misconfigured
from penstock.ports import free_port
from penstock.telemetry import spans
from penstock.telemetry.spans import CLIENT, SERVER, Tracing, end, parent_of
from penstock.telemetry.traces import (
    Choice,
    ExporterName,
    Parent,
    TraceSettings,
    open_tracing,
    sampled_parent,
    trace_settings,
)
from tests.collector import Collector

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def collector() -> Iterator[Collector]:
    started = Collector().start()
    yield started
    started.stop()


@pytest.mark.parametrize(
    ("traceparent", "is_sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"01-{TRACE}-{SPAN}-01-more", True),  # a later version
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-02", False),
        (f"00-{TRACE}-{SPAN}-01-more", False),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        (f"00-{TRACE}-{SPAN}", False),
        ("1", False),
        ("x" * 54 + "1", False),
    ],
)
def test_the_senders_flag_decides(traceparent: str, is_sampled: bool) -> None:
    """Kept promise: what the sender traces is traced, and nothing that it does not, or that is no traceparent."""
    always = Choice(1.0)
    assert always.of(traceparent.encode())[0] is is_sampled
    expected = Parent(int(TRACE, 16), int(SPAN, 16)) if is_sampled else None
    assert sampled_parent(traceparent.encode()) == expected


def test_without_a_trace_the_share_decides() -> None:
    """The dice are thrown only for events that come without a trace."""
    assert Choice(0.25, lambda: 0.24).of(b"") == (True, None)
    assert Choice(0.25, lambda: 0.25).of(b"") == (False, None)
    assert Choice(0.0, lambda: 0.0).of(b"") == (False, None)


@dataclass(frozen=True)
class Given:
    trace_sampling: float = 0.0
    trace_exporter: ExporterName = "otlp"
    trace_endpoint: str = ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Given(trace_sampling=1.1), "from 0.0 to 1.0"),
        (Given(trace_sampling=-0.1), "from 0.0 to 1.0"),
        (Given(trace_endpoint="collector:4318"), "http or https"),
        (Given(trace_endpoint="http://me:hush@collector"), "password"),
    ],
)
def test_wrong_settings_are_refused(given: Given, words: str) -> None:
    """With the name of the setting, and without what is secret in it."""
    with pytest.raises(Misconfigured, match=words) as refused:
        trace_settings(given)
    assert "hush" not in refused.value.message + str(refused.value.hint)


def test_tracing_is_off_without_an_exporter() -> None:
    """Whatever the share is."""
    assert open_tracing(trace_settings(Given(1.0, "none")), "test") is None


@pytest.mark.parametrize("exporter", ["otlp", "zipkin"])
def test_spans_reach_the_collector(collector: Collector, exporter: ExporterName) -> None:
    """Kept promise: names, times, attributes, errors and parents arrive as they were, in either format."""
    url = collector.otlp_url if exporter == "otlp" else collector.zipkin_url
    tracing = open_tracing(TraceSettings(1.0, exporter, url), "test")
    assert tracing is not None
    began = time.time() - 5
    first = tracing.begin("receive /a", SERVER, Parent(int(TRACE, 16), int(SPAN, 16)), {"url.path": "/a"}, began)
    second = tracing.begin("attempt", CLIENT, parent_of(first), {"names": ["a", "b"]})
    end(second, "status 500", {"http.response.status_code": 500})
    end(first)
    tracing.close()
    received, attempt = collector.wait_for_spans(TRACE, ["receive", "attempt"])
    assert (received.parent, received.kind, received.service) == (SPAN, "SERVER", "penstock-test")
    assert (attempt.parent, attempt.kind, attempt.error) == (received.id, "CLIENT", "status 500")
    assert received.attributes == {"url.path": "/a"}
    assert attempt.attributes["http.response.status_code"] in (500, "500")
    assert attempt.attributes["names"] in (["a", "b"], "a,b")
    assert abs(received.start - began) < 0.001
    assert 4.9 < received.end - received.start < 60


def test_a_span_without_a_parent_begins_a_trace(collector: Collector) -> None:
    """An event that came without a trace."""
    tracing = Tracing(TraceSettings(1.0, "zipkin", collector.zipkin_url), "test")
    span = tracing.begin("receive /a", SERVER, None, {})
    end(span)
    tracing.close()
    (seen,) = collector.wait_for_spans(f"{parent_of(span).trace_id:032x}", ["receive"])
    assert seen.parent == ""


@pytest.mark.parametrize("exporter", ["otlp", "zipkin"])
def test_a_collector_that_is_away_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, exporter: ExporterName
) -> None:
    """Kept promise: the queue is bounded, nobody waits for it, and the log says how much was dropped, and why."""
    monkeypatch.setattr(spans, "QUEUE", 600)
    monkeypatch.setattr(spans, "CLOSE_SECONDS", 1.0)
    tracing = Tracing(TraceSettings(1.0, exporter, f"http://127.0.0.1:{free_port()}/x"), "test")
    number = 2_000
    with caplog.at_level(logging.WARNING, "penstock.traces"):
        began = time.monotonic()
        for _ in range(number):
            end(tracing.begin("attempt", CLIENT, None, {}))
        tracing.close()
        took = time.monotonic() - began
    assert took < 10, "the collector was waited for"
    told = [record.args for record in caplog.records if record.name == "penstock.traces"]
    assert sum(int(str(args[0])) for args in told if isinstance(args, tuple)) == number
    assert "refused" in caplog.text or "exceeded" in caplog.text


def test_a_collector_that_refuses_is_told_about(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    """What is not taken is dropped and said; what comes later is tried again."""
    collector.answer("/api/v2/spans", status=500)
    tracing = Tracing(TraceSettings(1.0, "zipkin", collector.zipkin_url), "test")
    end(tracing.begin("attempt", CLIENT, None, {}))
    with caplog.at_level(logging.WARNING, "penstock.traces"):
        tracing.close()
    assert "1 spans were dropped" in caplog.text
    assert "500" in caplog.text


def test_what_a_task_leaves_is_sent_when_it_ends(collector: Collector) -> None:
    """A flush sends everything, and the same thread serves the next task; other settings have their own."""
    settings = TraceSettings(1.0, "otlp", collector.otlp_url)
    tracing = open_tracing(settings, "test")
    assert tracing is not None
    assert open_tracing(settings, "test") is tracing
    for number in range(3):
        end(tracing.begin("attempt", CLIENT, None, {}))
        tracing.flush()
        assert len(collector.spans()) == number + 1
    tracing.close()
    assert open_tracing(settings, "test") is not tracing


def test_tasks_do_not_wait_for_a_collector_that_is_away() -> None:
    """Kept promise: in bulk gear a task ends several times a second; only the first one tries its patience."""
    tracing = Tracing(TraceSettings(1.0, "zipkin", f"http://127.0.0.1:{free_port()}/x"), "test")
    took = []
    for _ in range(20):
        end(tracing.begin("attempt", CLIENT, None, {}))
        began = time.monotonic()
        tracing.flush()
        took.append(time.monotonic() - began)
    assert sum(took[1:]) < spans.CLOSE_SECONDS
