"""Many subscriptions in the metrics, what needs attention, and pushing: values in, values out."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from penstock.contract.model import HOME, Agreement, QueryReport, Route, Subscription
from penstock.control.ages import Age
from penstock.control.attention import attention
from penstock.control.kinds import Resource, key_of
from penstock.control.lag import LanePosition
from penstock.control.live_rows import View, document
from penstock.control.metrics import Known, of_everything
from penstock.control.observe import Sight
from penstock.control.parts import Part
from penstock.control.pushing import Pushing
from penstock.control.settings import ControllerSettings
from penstock.control.telemetry import OfAddress, OfSubscription, Sums
from penstock.errors import Misconfigured
from penstock.kafka.dead_letter_index import Waiting
from penstock.telemetry import metrics as m
from penstock.telemetry.exposition import Sample, render
from penstock.telemetry.histogram import Durations
from tests.sink import Sink
from tests.waiting import until

NOW = 1_800_000_000.0
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def resource(kind: str, name: str, created: int = 0, status: Any = None, **spec: Any) -> Resource:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    metadata["creationTimestamp"] = f"2026-11-16T12:00:{created:02}Z"
    return {"kind": kind, "metadata": metadata, "spec": spec, "status": status or READY}


def agreed(name: str, **settings: Any) -> Agreement:
    one = Subscription(
        uid=f"uid-{name}", kind="Trigger", namespace="default", name=name, topic="orders", group=f"group-{name}",
        subscriber_url="http://sink.example/", **settings,
    )  # fmt: skip
    return Agreement(uid=f"uid-{name}", generation=1, subscriptions=(one,))


def view(names: list[str], **changes: Any) -> View:
    triggers = [resource("Trigger", name, number, broker="orders") for number, name in enumerate(names)]
    broker = resource("Broker", "orders")
    sums = Sums(
        subscriptions={f"uid-{name}": OfSubscription(matched=1, whole_way=Durations({3: 1}, 0.01)) for name in names},
        addresses={"/default/orders": OfAddress(accepted=1)},
    )
    keys = [key_of(each) for each in triggers]
    lags = {key: [LanePosition("orders", 0, 0, number + 1, "orders")] for number, key in enumerate(keys)}
    ages = {key: Age(float(number), 0.0, 0.0) for number, key in enumerate(keys)}
    sight = Sight(NOW, (Part("kafka", "running"),), lags, {}, ages, **changes.pop("sight", {}))
    route = Agreement(uid="b", generation=1, routes=(Route("/default/orders", "orders", cluster=HOME),))
    known = {
        "agreements": {"Broker/default/orders": route, **{f"Trigger/default/{name}": agreed(name) for name in names}},
        "queries": {},
        "gone": frozenset(),
        "recent": {},
        "holds": {},
    }
    return View(now=NOW, sight=sight, resources=[broker, *triggers], sums=sums, **{**known, **changes})


def samples(found: View, most: int = 500) -> dict[tuple[str, ...], float | Durations]:
    known = Known(
        found, [], [], {("uid-a", "orders", 0): 3, ("uid-c", "orders", 0): 4, ("uid-d", "orders", 0): 5}, most
    )
    return {(sample.metric.name, *sample.labels): sample.value for sample in of_everything(known)}


def test_what_is_beyond_the_limit_is_added_up() -> None:
    """Kept promise: however many subscriptions there are, the metrics stay bounded and lose nothing."""
    found = samples(view(["a", "b", "c", "d"]), most=2)
    assert found["penstock_events_matched_total", "Trigger", "default", "a"] == 1
    assert ("penstock_events_matched_total", "Trigger", "default", "c") not in found
    others = ("", "", "others")
    assert found["penstock_events_matched_total", *others] == 2
    assert found["penstock_subscription_lag_events", *others] == 3 + 4
    assert found["penstock_oldest_waiting_seconds", *others] == 3  # the worst, not the sum
    way = found["penstock_whole_way_seconds", *others]
    assert isinstance(way, Durations)
    assert (way.count, way.sum) == (2, 0.02)
    assert found["eventing_kafka_consumed_msg_count", "group-a", "0", "orders"] == 3
    assert found["eventing_kafka_consumed_msg_count", "others", "0", "orders"] == 9
    assert found["penstock_metrics_folded_subscriptions",] == 2


def test_who_came_first_keeps_a_series() -> None:
    before = {name[3] for name in samples(view(["b", "c"]), most=2) if name[0] == m.MATCHED.name}
    after = {name[3] for name in samples(view(["b", "c", "a"]), most=2) if name[0] == m.MATCHED.name}
    assert before == {"b", "c"}
    assert after == {"b", "c", "others"}


def test_what_is_not_known_is_not_shown() -> None:
    found = view(["a"])
    blind = View(**{**found.__dict__, "sight": Sight(NOW, (Part("kafka", "not answering"),))})
    names = {name[0] for name in samples(blind)}
    assert m.LAG_EVENTS.name not in names
    assert m.OLDEST_WAITING.name not in names
    assert samples(blind)[m.PART_UP.name, "kafka"] == 0


def test_the_worst_comes_first() -> None:
    """Kept promise: a part that is down before a subscription that fails, before one that waits, before warnings."""
    names = ["waits", "parked", "dead", "paused", "unready"]
    found = view(names, warnings=(("orders", "retention takes them in 1 h"),))
    triggers = [*found.resources[:-1], resource("Trigger", "unready", 9, broker="orders", status={
        "conditions": [{"type": "Ready", "status": "False", "reason": "BrokerDoesNotExist", "message": "no broker"}]
    })]  # fmt: skip
    keys = {name: f"Trigger/default/{name}" for name in names}
    ages = {key: Age(0.0) for key in keys.values()}
    ages |= {keys["waits"]: Age(600.0), keys["paused"]: Age(90_000.0)}
    sight = Sight(
        NOW, (Part("receiver", "not answering", "it does not answer", "http://r"),), found.sight.lags, {}, ages,
        dead={"uid-dead": Waiting(3, NOW - 60)},
    )  # fmt: skip
    agreements = {**found.agreements, keys["paused"]: agreed("paused", paused="by hand")}
    report = QueryReport(topic="orders", state="running", apart=("uid-parked",))
    troubled = View(**{
        **found.__dict__, "resources": triggers, "sight": sight, "agreements": agreements,
        "queries": {"uid-parked": report},
    })  # fmt: skip
    items = attention(troubled, document(troubled))
    assert [item["key"].rpartition("/")[2] for item in items] == [
        "receiver", "unready", "waits", "parked", "dead", "paused", "orders",
    ]  # fmt: skip
    by_key = {item["key"]: item for item in items}
    assert by_key[keys["waits"]]["what"] == "1 event waits for 10 m"
    assert by_key[keys["dead"]]["what"] == "3 dead letters"
    assert by_key[keys["paused"]]["what"] == "has been paused for 25 h"
    assert by_key["part/receiver"]["why"] == "it does not answer (http://r)"


def test_a_thousand_subscriptions_are_shown_in_no_time() -> None:
    """Kept promise: a scrape and a snapshot of many subscriptions take a fraction of a second."""
    many = view([f"t{number}" for number in range(1000)])
    began = time.process_time()
    text = render(of_everything(Known(many, [], [], {}, 500)))
    attention(many, document(many))
    assert time.process_time() - began < 2.0  # 0.3 s on an idle machine
    assert text.count(b"penstock_whole_way_seconds_count") == 501


def test_all_is_pushed_again_and_again(sink: Callable[[], Sink]) -> None:
    """Kept promise: with an address of a collector the controller sends what it would show."""
    collector = sink()
    settings = ControllerSettings(otlp_endpoint=collector.url, otlp_interval_seconds=1.0)
    pushing = Pushing(settings, lambda _now: [Sample(m.PART_UP, ("kafka",), 1)]).start()
    try:
        until(lambda: collector.count("/v1/metrics") >= 2, "two pushes", 20)
    finally:
        pushing.stop()
    found = ExportMetricsServiceRequest.FromString(collector.at("/v1/metrics")[0].body)
    assert found.resource_metrics[0].scope_metrics[0].metrics[0].name == "penstock_part_up"
    with pytest.raises(Misconfigured):
        Pushing(ControllerSettings(otlp_endpoint=collector.url, otlp_interval_seconds=0), lambda _: [])
