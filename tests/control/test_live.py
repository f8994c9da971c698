"""The live snapshot, the metrics and the history of a real controller on a real Kafka, from records as processes
write them."""

import time
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.contract.model import DEAD_LETTERS_TOPIC, REPORT_TOPIC, DeadLetter, QueryReport, encode
from penstock.contract.telemetry import TELEMETRY_TOPIC, Holds, Served, Telemetry, encode_telemetry
from penstock.control import live, live_rows, metrics
from penstock.control.live import changes
from penstock.control.live_rows import held, masked
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import put
from penstock.telemetry.histogram import Durations
from penstock.telemetry.metrics import METRICS
from tests.control.conftest import TOPIC, Running, produce
from tests.control.objects import annotated, broker, trigger
from tests.waiting import until

AUDIT = ("Trigger", "default", "audit")


def tell(kafka: KafkaConnection, *told: Telemetry) -> None:
    producer = kafka.producer()
    for each in told:
        producer.produce(TELEMETRY_TOPIC, encode_telemetry(each), partition=0)
    assert producer.flush(10) == 0


def durations(*seconds: float) -> Durations:
    found = Durations({})
    for each in seconds:
        found.observe(each)
    return found


def exposed(running: Running) -> dict[tuple[str, ...], float]:
    text = metrics.text(running.controller.world, running.controller.observer.fresh(10), time.time()).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def row(running: Running, name: str = "audit", kind: str = "subscriptions") -> dict[str, Any]:
    return next(each for each in live.snapshot(running.controller)[kind] if each["name"] == name)


@pytest.fixture
def uid(running: Running) -> str:
    running.apply(broker())
    url = "http://user:hunter2@sink.example/"
    uid = str(running.apply(trigger(subscriber={"uri": url}, delivery={"retry": 4}))["metadata"]["uid"])
    running.ready("Trigger", "audit")
    return uid


@pytest.mark.usefixtures("uid")
def test_every_metric_of_the_list_is_there_and_no_other(running: Running) -> None:
    """Kept promise: the list is what is exposed, and counters begin at 0 for everything that is known."""
    sight = running.controller.observer.fresh(10)
    text = metrics.text(running.controller.world, sight, time.time()).decode()
    named = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert named == {metric.name for metric in METRICS}
    found = exposed(running)
    for name in ("matched", "delivered", "dead_lettered", "given_up"):
        assert found[f"penstock_events_{name}_total", *AUDIT] == 0
    assert found["penstock_delivery_attempts_total", *AUDIT, "5xx"] == 0
    assert found["penstock_whole_way_seconds_count", *AUDIT] == 0
    for known in (
        ("penstock_events_accepted_total", "Broker", "default", "orders"),
        ("penstock_events_rejected_total", "Broker", "default", "orders", "too large"),
        ("penstock_events_produced_total", TOPIC),
        ("penstock_records_consumed_total", TOPIC, "1"),
    ):
        assert known in found  # other tests of this run may have used this address


def test_what_was_told_is_shown_everywhere(running: Running, kafka: KafkaConnection, uid: str) -> None:
    """Kept promise: metrics, live snapshot and history say the same."""
    before, live_before = exposed(running), live.snapshot(running.controller)
    now = time.time()
    way = durations(*[0.004] * 95, *[0.5] * 5)
    served = Served(100, {"delivered": 100, "failed_attempts": 7}, {"2xx": 100, "5xx": 7}, 7, way, way, way)
    holds = Holds(in_flight=2, unfinished=5, retrying=3, last_error="answered 503", next_try=now + 9, failures=2)
    receiver = Telemetry(
        part="receiver", source="r", time=now, accepted={"/default/orders": 40}, produced={TOPIC: 40},
        rejected={"/default/orders": {"too large": 3}, "": {"unknown address": 2}},
        ingress={"/default/orders": durations(*[0.002] * 40)}, gauges={"penstock_ingress_connections": 4},
    )  # fmt: skip
    tell(
        kafka,
        receiver,
        Telemetry(
            source="w0", time=now, topic=TOPIC, partition=0, consumed=40, served={uid: served}, holds={uid: holds}
        ),
        Telemetry(part="dispatcher", source="d", gauges={"penstock_spark_slots:free": 3}, query_starts={TOPIC: 1}),
    )

    def grown() -> dict[tuple[str, ...], float] | None:
        """By what each number is more than before, once all is told."""
        found = {name: value - before.get(name, 0.0) for name, value in exposed(running).items()}
        return found if found["penstock_query_starts_total", TOPIC] else None

    found = until(grown)
    assert found["penstock_events_delivered_total", *AUDIT] == 100
    assert found["penstock_delivery_outcomes_total", *AUDIT, "failed_attempts"] == 7
    assert found["penstock_delivery_attempts_total", *AUDIT, "5xx"] == 7
    assert found["penstock_delivery_retries_total", *AUDIT] == 7
    assert found["penstock_whole_way_seconds_bucket", *AUDIT, "0.004"] == 95
    assert found["penstock_delivery_in_flight", *AUDIT] == 2
    assert found["penstock_delivery_unfinished_events", *AUDIT] == 5
    assert found["penstock_events_accepted_total", "Broker", "default", "orders"] == 40
    assert found["penstock_events_rejected_total", "", "", "", "unknown address"] == 2
    assert found["penstock_records_consumed_total", TOPIC, "0"] == 40
    assert found["penstock_ingress_connections",] == 4
    assert found["penstock_spark_slots", "free"] == 3
    shown = row(running)
    assert shown["totals"] == {
        "matched": 100, "delivered": 100, "failed_attempts": 7, "dead_lettered": 0, "given_up": 0, "replies": 0,
        "retries": 7,
    }  # fmt: skip
    assert (shown["in_flight"], shown["retrying"], shown["failures"], shown["max_retries"]) == (2, 3, 2, 4)
    assert (shown["state"], shown["last_error"]) == ("retrying", "answered 503")
    assert 2.8 < shown["p50_ms"] <= 4.0
    until(lambda: row(running)["delivered_per_second"] == pytest.approx(20), "a hundred in five seconds", 10)
    document = live.snapshot(running.controller)
    assert document["totals"]["accepted_total"] - live_before["totals"]["accepted_total"] == 40
    assert document["totals"]["in_per_second"] >= 7.99
    broker_row = row(running, "orders", "ingresses")
    assert (broker_row["accepted_total"] >= 40, broker_row["subscriptions"]) == (True, 1)
    assert broker_row["rejected_total"]["too large"] >= 3
    counts = running.controller.world.counts
    until(lambda: sum(each or 0 for each in counts.history(uid, time.time(), 1)["series"]["delivered"]) * 2 == 100)


def test_what_waits_has_an_age(running: Running, kafka: KafkaConnection, uid: str) -> None:
    """Kept promise: lag in events and seconds, and since when a partition has not moved, come from Kafka itself."""
    produce(kafka, TOPIC, 6)
    sent = time.time()
    shown = until(lambda: each if (each := row(running))["lag"] == 6 and each["oldest_waiting_seconds"] else None)
    assert shown["oldest_waiting_seconds"] <= time.time() - sent + 2
    found = exposed(running)
    assert found["penstock_subscription_lag_events", *AUDIT] == 6
    assert found["penstock_oldest_waiting_seconds", *AUDIT] > 0
    assert found["penstock_partition_stalled_seconds", *AUDIT] > 0
    until(lambda: exposed(running)["penstock_topic_end_offset", TOPIC, "0"] == 3, "the end of the topic", 15)
    assert found["penstock_kafka_brokers",] == 1
    assert found["penstock_kafka_offline_partitions",] == 0
    until(lambda: exposed(running)["penstock_kafka_disk_bytes",] > 0, "the size of the log", 15)
    assert found["penstock_kafka_disk_free_bytes",] > 0
    assert found["penstock_topic_retention_seconds", TOPIC] == 7 * 24 * 3600


def test_states_of_a_subscription_have_their_words(running: Running, kafka: KafkaConnection, uid: str) -> None:
    def is_(state: str) -> None:
        until(lambda: row(running)["state"] == state, state)

    is_("idle")
    tell(kafka, Telemetry(source="w", time=time.time(), served={uid: Served(3, {"delivered": 3})}))
    is_("delivering")
    failed = Served(0, {"failed_attempts": 3, "dead_lettered": 1}, {"5xx": 3})
    tell(kafka, Telemetry(source="w", time=time.time(), served={uid: failed}))
    is_("failing")
    producer = kafka.producer()
    report = QueryReport(topic=TOPIC, state="running", subscriptions=(uid,), apart=(uid,), gear="live")
    put(producer, REPORT_TOPIC, f"query/{TOPIC}", encode(report))
    is_("parked")
    assert exposed(running)["penstock_subscription_parked", *AUDIT] == 1
    running.apply(annotated(trigger(delivery={"retry": 4}), **{"penstock.dev/paused": "maintenance"}))
    is_("paused")
    assert exposed(running)["penstock_subscription_paused", *AUDIT] == 1
    put(producer, REPORT_TOPIC, f"query/{TOPIC}", None)


def test_a_subscriber_that_does_not_answer_hangs(
    running: Running, kafka: KafkaConnection, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept promise: requests in flight are not called delivering when nothing comes of them."""
    monkeypatch.setattr(live_rows, "HANGING_SECONDS", 0.5)
    produce(kafka, TOPIC, 1)

    def is_(state: str, served: dict[str, Served]) -> bool:
        holds = {uid: Holds(in_flight=1, unfinished=1)}
        tell(kafka, Telemetry(source="w", time=time.time(), topic=TOPIC, partition=0, served=served, holds=holds))
        return bool(row(running)["state"] == state)

    until(lambda: is_("hanging", {}), "it hangs")
    until(lambda: is_("delivering", {uid: Served(1, {"delivered": 1})}), "an answer has come")


def test_dead_letters_need_attention(running: Running, kafka: KafkaConnection, uid: str) -> None:
    letter = DeadLetter(
        id="1", source="/s", type="t", kind="Trigger", namespace="default", name="audit", uid=uid, topic=TOPIC,
        partition=0, offset=7, outcome="given up", reason="answered 503", code=503, attempts=1, time=time.time() - 60,
        event=msgspec.Raw(b'{"specversion":"1.0"}'),
    )  # fmt: skip
    producer = kafka.producer()
    put(producer, DEAD_LETTERS_TOPIC, letter.key, encode(letter))
    shown = until(lambda: each if (each := row(running))["dead_letters"] else None)
    assert shown["oldest_dead_letter_seconds"] >= 60
    assert exposed(running)["penstock_dead_letters", *AUDIT] == 1
    found = [
        each for each in live.snapshot(running.controller)["attention"] if each["key"] == "Trigger/default/audit"
    ]
    assert [each["what"] for each in found] == ["1 dead letter"]
    put(producer, DEAD_LETTERS_TOPIC, letter.key, None)


@pytest.mark.usefixtures("uid")
def test_no_password_is_shown(running: Running) -> None:
    assert row(running)["subscriber"] == "http://user:***@sink.example/"
    assert masked("http://user:hunter2@sink.example:8080/a?b") == "http://user:***@sink.example:8080/a?b"
    assert masked("http://sink.example/") == "http://sink.example/"


def test_a_change_has_only_the_rows_that_differ() -> None:
    """Kept promise: a page that adds all changes to the first snapshot has what a new snapshot would show."""
    before = {"time": 1, "ingresses": [{"key": "a", "n": 1}], "subscriptions": [{"key": "b"}, {"key": "c"}]}
    after = {"time": 2, "ingresses": [{"key": "a", "n": 2}], "subscriptions": [{"key": "c"}, {"key": "d"}]}
    assert changes(before, after) == {
        "time": 2, "ingresses": [{"key": "a", "n": 2}], "subscriptions": [{"key": "d"}], "gone": ["b"]
    }  # fmt: skip


def test_what_workers_hold_is_added_up() -> None:
    from penstock.control.telemetry import State

    states = [
        State(0, "worker", {"a": Holds(1, 2, 1, "answered 503", 50.0, 2)}, {}),
        State(0, "worker", {"a": Holds(2, 3, 0, "", 0.0, 1), "b": Holds(1)}, {}),
    ]
    assert held(states) == {"a": Holds(3, 5, 1, "answered 503", 50.0, 2), "b": Holds(1)}
