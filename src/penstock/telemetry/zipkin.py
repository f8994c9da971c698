"""Spans for Zipkin, as JSON of its second version. Called by ``spans.py`` in the thread of the SDK.

The SDK's own exporter for it is deprecated; this is the part of the format that our spans need.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import requests
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode

DEFAULT_ENDPOINT = "http://127.0.0.1:9411/api/v2/spans"
KINDS = {
    SpanKind.SERVER: "SERVER",
    SpanKind.CLIENT: "CLIENT",
    SpanKind.PRODUCER: "PRODUCER",
    SpanKind.CONSUMER: "CONSUMER",
}


class ZipkinExporter(SpanExporter):
    def __init__(self, endpoint: str, timeout_seconds: float) -> None:
        self._endpoint = endpoint or DEFAULT_ENDPOINT
        self._timeout_seconds = timeout_seconds
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy is no way to a collector beside us
        self._session.headers["Content-Type"] = "application/json"

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Raises when the collector cannot be reached."""
        body = msgspec.json.encode([zipkin_span(span) for span in spans])
        answer = self._session.post(self._endpoint, data=body, timeout=self._timeout_seconds)
        answer.raise_for_status()
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self._session.close()


def zipkin_span(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context()
    assert context is not None
    start, end = span.start_time or 0, span.end_time or 0
    tags = {name: _text(value) for name, value in (span.attributes or {}).items()}
    if span.status.status_code is StatusCode.ERROR:
        tags["error"] = span.status.description or "error"
    service = str(span.resource.attributes.get("service.name", "penstock"))
    found: dict[str, Any] = {
        "traceId": f"{context.trace_id:032x}",
        "id": f"{context.span_id:016x}",
        "name": span.name,
        "timestamp": start // 1000,
        "duration": max(1, (end - start) // 1000),
        "localEndpoint": {"serviceName": service},
        "tags": tags,
    }
    if span.kind in KINDS:
        found["kind"] = KINDS[span.kind]
    if span.parent is not None:
        found["parentId"] = f"{span.parent.span_id:016x}"
    remote = _remote(span.attributes or {})
    return {**found, "remoteEndpoint": remote} if remote else found


def _remote(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Who is on the other side: a subscriber, or Kafka."""
    name = attributes.get("server.address") or attributes.get("messaging.system")
    return {"serviceName": str(name)} if name else {}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
