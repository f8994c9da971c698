"""Metrics by OTLP, as a collector gets them: a real HTTP server that decodes the protobuf."""

import gzip
from collections.abc import Callable

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric

from penstock.errors import Misconfigured
from penstock.telemetry import metrics
from penstock.telemetry.exposition import Sample
from penstock.telemetry.histogram import BOUNDS, Durations
from penstock.telemetry.otlp import Push, checked_endpoint
from tests.sink import Request, Sink

ORDERS = ("Broker", "default", "orders")
NOW = 1_800_000_000.0


def decoded(request: Request) -> dict[str, Metric]:
    body = gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body
    found = ExportMetricsServiceRequest.FromString(body)
    (resource,) = found.resource_metrics
    named = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert named["service.name"] == "penstock"
    return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}


def test_a_collector_gets_what_prometheus_would_read(sink: Callable[[], Sink]) -> None:
    """Kept promise: counters, gauges and histograms arrive as such, with labels, units and the same numbers."""
    collector = sink()
    seen = Durations({})
    for seconds in (0.0025, 0.003, 10_000.0):
        seen.observe(seconds)
    push = Push(collector.url, NOW - 60)
    samples = [
        Sample(metrics.ACCEPTED, ORDERS, 12),
        Sample(metrics.OLDEST_WAITING, ("Trigger", "default", "audit"), 4.5),
        Sample(metrics.INGRESS_SECONDS, ORDERS, seen),
    ]
    assert push.send(samples, NOW)
    push.close()
    (request,) = collector.wait_for(1, "/v1/metrics")
    found = decoded(request)
    accepted = found["penstock_events_accepted_total"]
    assert accepted.sum.is_monotonic
    assert accepted.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = accepted.sum.data_points
    assert (point.as_int, point.start_time_unix_nano) == (12, int((NOW - 60) * 1e9))
    assert {each.key: each.value.string_value for each in point.attributes} == dict(
        zip(("kind", "namespace", "name"), ORDERS, strict=True)
    )
    waiting = found["penstock_oldest_waiting_seconds"]
    assert (waiting.gauge.data_points[0].as_double, waiting.unit) == (4.5, "s")
    (histogram,) = found["penstock_ingress_seconds"].histogram.data_points
    assert tuple(histogram.explicit_bounds) == BOUNDS
    assert (histogram.count, sum(histogram.bucket_counts), histogram.bucket_counts[-1]) == (3, 3, 1)
    assert histogram.sum == pytest.approx(10_000.0055)
    assert not histogram.HasField("min")


def test_a_collector_that_refuses_is_noticed(sink: Callable[[], Sink]) -> None:
    collector = sink()
    collector.answer("/v1/metrics", status=400)
    push = Push(f"{collector.url}/v1/metrics", NOW)
    assert not push.send([Sample(metrics.INGRESS_CONNECTIONS, (), 1)], NOW)
    push.close()


@pytest.mark.parametrize("wrong", ["collector:4318", "ftp://collector/", "http://user:secret@collector:4318"])
def test_a_wrong_address_is_refused_without_repeating_it(wrong: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        checked_endpoint(wrong)
    assert "secret" not in refused.value.message
