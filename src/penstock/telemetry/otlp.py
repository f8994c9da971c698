"""The same samples that Prometheus reads, sent to an OTLP collector (protobuf over HTTP) instead of waiting for it.

Called by the controller, which knows the numbers of all processes. The instruments of OpenTelemetry's SDK are not
used: everything is counted already, in one place; the SDK encodes and sends it.
"""

import contextlib
import logging
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from penstock import __version__
from penstock.errors import Misconfigured
from penstock.telemetry import metrics as listed
from penstock.telemetry.exposition import Sample
from penstock.telemetry.histogram import BOUNDS, Durations

TIMEOUT_SECONDS = 5.0
UNITS = {"seconds": "s", "bytes": "By", "": "1"}  # as UCUM names them; the rest is counted in {events}, {requests} …

for chatty in ("opentelemetry.exporter.otlp.proto.http.metric_exporter",):
    logging.getLogger(chatty).setLevel(logging.CRITICAL)  # what fails is said once, by us


def checked_endpoint(endpoint: str) -> str:
    """Raises Misconfigured for what is no address of a collector."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "http://127.0.0.1:4318/v1/metrics, for example"
        raise Misconfigured("otlp_endpoint is no URL with http or https", hint=hint)
    if "@" in parts.netloc:
        hint = "put credentials into OTEL_EXPORTER_OTLP_HEADERS"
        raise Misconfigured("otlp_endpoint has a user or a password in it", hint=hint)
    return endpoint if parts.path not in ("", "/") else f"{endpoint.rstrip('/')}/v1/metrics"


class Push:
    """Sends samples. For one thread."""

    def __init__(self, endpoint: str, began: float) -> None:
        """``began``: since when counters count, in seconds since the epoch."""
        self._exporter = OTLPMetricExporter(endpoint=checked_endpoint(endpoint), timeout=TIMEOUT_SECONDS)
        self._began = began
        host = {"service.name": "penstock", "service.version": __version__, "host.name": socket.gethostname()}
        self._resource = Resource.create(host)

    def send(self, samples: Iterable[Sample], now: float) -> bool:
        """Whether the collector has taken it."""
        data = metrics_data(samples, self._resource, self._began, now)
        return self._exporter.export(data, timeout_millis=TIMEOUT_SECONDS * 1000) is MetricExportResult.SUCCESS

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._exporter.shutdown(timeout_millis=1000)


def metrics_data(samples: Iterable[Sample], resource: Resource, began: float, now: float) -> MetricsData:
    by_metric: dict[listed.Metric, list[Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, []).append(sample)
    start, end = int(began * 1e9), int(now * 1e9)
    found = [_metric(metric, each, start, end) for metric, each in by_metric.items()]
    scope = ScopeMetrics(InstrumentationScope("penstock", __version__), found, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(metric: listed.Metric, samples: list[Sample], start: int, end: int) -> Metric:
    total = AggregationTemporality.CUMULATIVE
    data: Sum | Gauge | Histogram
    if metric.kind == "histogram":
        data = Histogram([_durations(each, start, end) for each in samples], total)
    else:
        points = [_number(each, start, end) for each in samples]
        data = Sum(points, total, is_monotonic=True) if metric.kind == "counter" else Gauge(points)
    unit = UNITS.get(metric.unit, f"{{{metric.unit}}}")
    return Metric(metric.name, metric.help, unit, data)


def _number(sample: Sample, start: int, end: int) -> NumberDataPoint:
    if isinstance(sample.value, Durations):
        raise ValueError(f"{sample.metric.name} is no histogram")
    return NumberDataPoint(_attributes(sample), start, end, sample.value)


def _durations(sample: Sample, start: int, end: int) -> HistogramDataPoint:
    value = sample.value
    if not isinstance(value, Durations):
        raise ValueError(f"{sample.metric.name} is a histogram")
    return HistogramDataPoint(
        attributes=_attributes(sample),
        start_time_unix_nano=start,
        time_unix_nano=end,
        count=value.count,
        sum=value.sum,
        bucket_counts=[value.counts.get(number, 0) for number in range(len(BOUNDS) + 1)],
        explicit_bounds=BOUNDS,
        min=None,  # type: ignore[arg-type]  # not known; the protocol lets it be left out
        max=None,  # type: ignore[arg-type]
    )


def _attributes(sample: Sample) -> dict[str, str]:
    return dict(zip(sample.metric.labels, sample.labels, strict=True))
