"""What Prometheus reads."""

import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.telemetry import metrics
from penstock.telemetry.exposition import Sample, render
from penstock.telemetry.histogram import BOUNDS, Durations

ORDERS = ("Broker", "default", "orders")


def read(text: bytes) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_numbers_arrive_as_they_are() -> None:
    samples = [
        Sample(metrics.ACCEPTED, ORDERS, 2**53),
        Sample(metrics.INGRESS_IN_FLIGHT, (), 0.25),
        Sample(metrics.RETENTION, ("orders",), -1.0),
    ]
    assert read(render(samples)) == {
        ("penstock_events_accepted_total", *ORDERS): 2**53,
        ("penstock_ingress_in_flight_events",): 0.25,
        ("penstock_topic_retention_seconds", "orders"): -1,
    }


def test_the_former_name_stays_as_it_was() -> None:
    text = render([Sample(metrics.CONSUMED_FORMER, ("group", "3", "orders"), 7)])
    assert b"# TYPE eventing_kafka_consumed_msg_count counter\n" in text
    assert b'\neventing_kafka_consumed_msg_count{consumer="group",partition="3",topic="orders"} 7\n' in text


def test_labels_keep_their_order_and_whatever_is_in_them() -> None:
    strange = 'a "quoted" \\ back\nline é'
    text = render([Sample(metrics.BAD_RECORDS, (strange,), 1), Sample(metrics.ACCEPTED, ORDERS, 1)])
    assert read(text)["penstock_bad_records_total", strange] == 1
    assert b'penstock_events_accepted_total{kind="Broker",namespace="default",name="orders"} 1\n' in text


def test_a_histogram_counts_all_that_are_not_longer() -> None:
    seen = Durations({})
    for seconds in (0.0001, 0.0025, 0.0026, 3.0, 10_000.0):
        seen.observe(seconds)
    found = read(render([Sample(metrics.INGRESS_SECONDS, ORDERS, seen)]))
    bucket = "penstock_ingress_seconds_bucket"
    assert [found[(bucket, *ORDERS, bound)] for bound in ("0.0005", "0.002", "0.00315", "4", "600", "+Inf")] == [
        *(1, 1, 3, 4, 4, 5)
    ]
    assert found["penstock_ingress_seconds_count", *ORDERS] == 5
    assert found["penstock_ingress_seconds_sum", *ORDERS] == pytest.approx(10_003.0052)
    assert sum(name[0] == bucket for name in found) == len(BOUNDS) + 1


def test_a_metric_without_samples_is_named_if_it_shall_be() -> None:
    assert b"# TYPE penstock_whole_way_seconds histogram\n" in render([], [metrics.WHOLE_WAY])


def test_samples_of_a_metric_stand_together() -> None:
    twice = [Sample(metrics.ACCEPTED, (*ORDERS[:2], name), 1) for name in "ab"]
    text = render([twice[0], Sample(metrics.INGRESS_CONNECTIONS, (), 1), twice[1]]).decode()
    assert text.count("# TYPE penstock_events_accepted_total") == 1
    assert text.splitlines()[2:4] == [line for line in text.splitlines() if line.startswith("penstock_events_acc")]


def test_wrong_labels_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="topic"):
        render([Sample(metrics.BAD_RECORDS, (), 1)])


def test_promtool_takes_every_metric(promtool: str) -> None:
    samples = [
        Sample(each, tuple(each.labels), Durations({3: 1}, 0.01) if each.kind == "histogram" else 1)
        for each in metrics.METRICS
    ]
    checked = subprocess.run([promtool, "check", "metrics"], input=render(samples), capture_output=True)
    assert checked.returncode in (0, 3), checked.stderr.decode()  # 3: it would have named some otherwise
    assert b"error while linting" not in checked.stderr
