"""A collector of traces for tests: a real HTTP server for OTLP and Zipkin's JSON, which gives spans as values."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.sink import Sink
from tests.waiting import until

OTLP_PATH, ZIPKIN_PATH = "/v1/traces", "/api/v2/spans"


@dataclass(frozen=True)
class SeenSpan:
    name: str
    trace_id: str
    id: str
    parent: str  # empty: the first of its trace
    service: str
    kind: str
    start: float  # seconds since the epoch
    end: float
    attributes: dict[str, Any]
    error: str

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.id}-01"

    @property
    def word(self) -> str:
        """What was done: the name without what it was done to."""
        return "dead letter" if self.name.startswith("dead letter") else self.name.split()[0]


class Collector(Sink):
    @property
    def otlp_url(self) -> str:
        return self.url + OTLP_PATH

    @property
    def zipkin_url(self) -> str:
        return self.url + ZIPKIN_PATH

    def spans(self) -> list[SeenSpan]:
        """All that have come."""
        found = [span for request in self.at(OTLP_PATH) for span in _of_otlp(request.body)]
        return found + [span for request in self.at(ZIPKIN_PATH) for span in _of_zipkin(request.body)]

    def wait_for_spans(self, trace_id: str, words: Sequence[str]) -> list[SeenSpan]:
        """Those of a trace, once exactly these are there, in the order of their beginnings."""

        def look() -> list[SeenSpan] | None:
            found = [span for span in self.spans() if span.trace_id == trace_id]
            return found if sorted(span.word for span in found) == sorted(words) else None

        try:
            found = until(look, "the spans of the trace", 90)
        except AssertionError:
            seen = sorted((span.word, span.trace_id) for span in self.spans())
            raise AssertionError(f"wanted {words} of {trace_id}, seen {seen}") from None
        return sorted(found, key=lambda span: span.start)


KINDS = ("", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")


def _of_otlp(body: bytes) -> Iterator[SeenSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield SeenSpan(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    service=service,
                    kind=KINDS[span.kind],
                    start=span.start_time_unix_nano / 1e9,
                    end=span.end_time_unix_nano / 1e9,
                    attributes={each.key: _value(each.value) for each in span.attributes},
                    error=span.status.message,
                )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def _of_zipkin(body: bytes) -> Iterator[SeenSpan]:
    for span in json.loads(body):
        tags = dict(span["tags"])
        yield SeenSpan(
            name=span["name"],
            trace_id=span["traceId"],
            id=span["id"],
            parent=span.get("parentId", ""),
            service=span["localEndpoint"]["serviceName"],
            kind=span.get("kind", "INTERNAL"),
            start=span["timestamp"] / 1e6,
            end=(span["timestamp"] + span["duration"]) / 1e6,
            error=tags.pop("error", ""),
            attributes=tags,
        )
