"""Spans of what is traced, and their way to a collector. Imported only where tracing is on.

    begin ─▶ Span ─▶ end ─▶ queue ─▶ (a thread of the SDK) ─▶ exporter ─▶ collector

Whoever begins spans never waits for a collector: the queue is bounded, what does not fit or is not taken is dropped,
and how much that was is in the log once a minute. Made after the fork; owned by one thread.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import Span as Span
from opentelemetry.trace import SpanKind as SpanKind

from penstock import __version__
from penstock.telemetry.traces import Choice, Parent, TraceSettings

logger = logging.getLogger("penstock.traces")

QUEUE = 4096
BATCH = 512
EVERY_SECONDS = 1.0
EXPORT_SECONDS = 5.0  # longest time for one request, with its repetitions
CLOSE_SECONDS = 2.0
TELL_SECONDS = 60.0
LONGEST_VALUE = 512  # characters of an attribute
# They say with every failed request that it failed; we do so once a minute, with their last words.
CHATTY = ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal")
CONSEQUENCES = ("hutdown", "Queue full")  # words that name no cause

Value = str | int | float | bool | Sequence[str]
Attributes = Mapping[str, Value]

SERVER, CLIENT, PRODUCER, CONSUMER, INTERNAL = (
    SpanKind.SERVER,
    SpanKind.CLIENT,
    SpanKind.PRODUCER,
    SpanKind.CONSUMER,
    SpanKind.INTERNAL,
)


class Tracing:
    """One for a process."""

    def __init__(self, settings: TraceSettings, part: str) -> None:
        self.choice = Choice(settings.sampling)
        self._exporter = _Counting(_exporter(settings))
        self._processor = _Processor(self._exporter)
        service = {
            "service.name": f"penstock-{part}",
            "service.version": __version__,
            "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
        }
        provider = TracerProvider(
            sampler=ALWAYS_ON,  # whoever begins a span has chosen already
            resource=Resource.create(service),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_attribute_length=LONGEST_VALUE),
        )
        provider.add_span_processor(self._processor)
        self._flushing: threading.Thread | None = None
        self._tracer = provider.get_tracer("penstock", __version__)

    def begin(
        self,
        name: str,
        kind: SpanKind,
        parent: Parent | None,
        attributes: Attributes,
        start_seconds: float | None = None,
    ) -> Span:
        """A span that began now, or then. Without a parent it is the first of a new trace."""
        context = Context()
        if parent is not None:
            known = SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=TraceFlags(1))
            context = set_span_in_context(NonRecordingSpan(known), context)
        start = None if start_seconds is None else int(start_seconds * 1e9)
        return self._tracer.start_span(name, context, kind, attributes, start_time=start)

    def flush(self) -> None:
        """Sends what there is. A collector that does not answer is not waited for any longer than this, and one that
        did not answer the last time not at all."""
        if self._exporter.is_failing or (self._flushing is not None and self._flushing.is_alive()):
            return
        self._flushing = _in_background(self._processor.force_flush)
        self._flushing.join(CLOSE_SECONDS)

    def close(self) -> None:
        """Sends what there is, for the last time."""
        for key in [key for key, tracing in _shared.items() if tracing is self]:
            del _shared[key]
        closing = _in_background(self._processor.shutdown)
        closing.join(CLOSE_SECONDS)
        if closing.is_alive():
            self._exporter.shutdown()
        self._exporter.tell_last()


_shared: dict[tuple[TraceSettings, str, int], Tracing] = {}


def shared_tracing(settings: TraceSettings, part: str) -> Tracing:
    """One for all tasks that a worker has, one after the other: in bulk gear these are many."""
    key = settings, part, os.getpid()
    if key not in _shared:
        _shared[key] = Tracing(settings, part)
    return _shared[key]


def _in_background(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, name="traces", daemon=True)
    thread.start()
    return thread


def parent_of(span: Span) -> Parent:
    context = span.get_span_context()
    return Parent(context.trace_id, context.span_id)


def end(span: Span, error: str = "", attributes: Attributes | None = None, at: float = 0.0) -> None:
    """``error`` is empty when it went well; ``at`` in seconds since the epoch, 0: now."""
    if attributes:
        span.set_attributes(attributes)
    if error:
        span.set_status(Status(StatusCode.ERROR, error[:LONGEST_VALUE]))
    span.end(int(at * 1e9) if at else None)


def _exporter(settings: TraceSettings) -> SpanExporter:
    if settings.exporter == "zipkin":
        from penstock.telemetry.zipkin import ZipkinExporter

        return ZipkinExporter(settings.endpoint, EXPORT_SECONDS)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=settings.endpoint or None, timeout=EXPORT_SECONDS)


class _LastWords(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if not self.said or not any(words in said for words in CONSEQUENCES):
            self.said = said.removeprefix("Transient error ").partition(" encountered while exporting")[0]


class _Counting(SpanExporter):
    """Counts what comes and what the collector takes, and says now and then what it did not.

    Counts only grow, since two threads are at work.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self.ended = 0  # spans
        self.overflowed = 0  # for want of room in the queue
        self._came = 0
        self._taken = 0
        self._told = 0
        self._told_at = 0.0
        self.is_failing = False  # the last time
        self._exporter = exporter
        self._last_words = _LastWords()
        for name in CHATTY:
            chatty = logging.getLogger(name)
            chatty.propagate = False
            chatty.handlers[:] = [self._last_words]

    @property
    def waiting(self) -> int:
        """In the queue; at times a batch more, which is just leaving it."""
        return self.ended - self.overflowed - self._came

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._came += len(spans)
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # whatever a collector does, the next spans are tried again
            self._last_words.said = f"{type(error).__name__}: {error}"
            result = SpanExportResult.FAILURE
        self.is_failing = result is not SpanExportResult.SUCCESS
        if not self.is_failing:
            self._taken += len(spans)
        self._tell(self._came - self._taken + self.overflowed)
        return result

    def tell_last(self) -> None:
        """What has not arrived by now is lost."""
        self._told_at = 0.0
        self._tell(self.ended - self._taken)

    def _tell(self, lost: int) -> None:
        now = time.monotonic()
        if lost <= self._told or (self._told_at and now < self._told_at + TELL_SECONDS):
            return
        said = "%d spans were dropped, since the collector does not take them: %s"
        logger.warning(said, lost - self._told, self._last_words.said)
        self._told_at, self._told = now, lost

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return True


class _Processor(BatchSpanProcessor):
    """The SDK's, which drops the oldest when its queue is full; how many, is counted here."""

    def __init__(self, exporter: _Counting) -> None:
        super().__init__(exporter, QUEUE, EVERY_SECONDS * 1000, BATCH)
        self._counting = exporter

    def on_end(self, span: ReadableSpan) -> None:
        counting = self._counting
        counting.ended += 1
        if counting.waiting > QUEUE:
            counting.overflowed += 1
        super().on_end(span)
