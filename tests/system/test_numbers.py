"""The numbers that are shown are those that a sender and its subscribers counted themselves."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import System
from tests.sink import Answer, Request, Sink
from tests.system.resources import apply, broker, trigger
from tests.waiting import until

EVENTS = 60
BROKEN = 5  # of them the third trigger gets, and its subscriber fails
BROKER = ("Broker", "default", "numbers")

CONSUMED = ("penstock_records_consumed_total", "knative-broker-default-numbers")
LAG = "penstock_subscription_lag_events"

Samples = dict[tuple[str, ...], float]


def get(system: System, path: str) -> Any:
    return json.loads(urllib.request.urlopen(f"{system.admin_url}/api/penstock/{path}", timeout=20).read())


def metrics(system: System) -> Samples:
    text = urllib.request.urlopen(f"{system.admin_url}/metrics", timeout=20).read().decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def send(system: System, number: int, type_: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": f"n{number}", "ce-source": "/s", "ce-type": type_}
    request = urllib.request.Request(f"{system.ingress_url}/default/numbers", b"{}", headers, method="POST")
    assert urllib.request.urlopen(request, timeout=20).status == 202


def refuse(system: System) -> None:
    """A request that is no event."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{system.ingress_url}/default/numbers", b"no event", timeout=20)
    assert refused.value.code == 400


def of(found: Samples, name: str, trigger_name: str, *more: str) -> float:
    return found[name, "Trigger", "default", trigger_name, *more]


def test_all_numbers_are_true(penstock_up: System, sink: Callable[[], Sink]) -> None:
    """Kept promise: metrics, live snapshot and history agree with the sender and the sink, to the event."""
    subscriber = sink()
    tries: dict[str, int] = {}

    def second_time_lucky(request: Request) -> Answer:
        id_ = request.headers["ce-id"]
        tries[id_] = tries.get(id_, 0) + 1
        return Answer(503 if tries[id_] == 1 and id_ in ("n1", "n2", "n3") else 200)

    subscriber.answer("/retried", with_=second_time_lucky)
    subscriber.answer("/broken", status=500)
    delivery = {"retry": 1, "backoffDelay": "PT0.05S", "backoffPolicy": "linear"}
    resources = [
        broker("numbers"),
        trigger("numbers-all", "numbers", f"{subscriber.url}/all"),
        trigger("numbers-retried", "numbers", f"{subscriber.url}/retried", delivery=delivery),
        trigger(
            "numbers-broken", "numbers", f"{subscriber.url}/broken", filter={"attributes": {"type": "broken"}},
            delivery={**delivery, "deadLetterSink": {"uri": f"{subscriber.url}/dead"}},
        ),
    ]  # fmt: skip
    apply(penstock_up, *resources)
    for number in range(EVENTS):
        send(penstock_up, number, "broken" if number >= EVENTS - BROKEN else "fine")
    refuse(penstock_up)
    subscriber.wait_for(EVENTS, "/all", timeout_seconds=60)
    subscriber.wait_for(EVENTS + 3, "/retried", timeout_seconds=60)
    subscriber.wait_for(BROKEN, "/dead")
    found = _told(penstock_up)
    assert found["penstock_events_accepted_total", *BROKER] == EVENTS
    assert found["penstock_events_produced_total", "knative-broker-default-numbers"] == EVENTS
    assert found["penstock_events_rejected_total", *BROKER, "bad event"] == 1
    assert found["penstock_ingress_seconds_count", *BROKER] >= EVENTS
    consumed = [value for key, value in found.items() if key[:2] == CONSUMED]
    assert sum(consumed) == EVENTS
    _check_triggers(found, subscriber)
    _check_live(get(penstock_up, "live?once=1"), subscriber)
    until(lambda: _history(penstock_up, "Trigger/default/numbers-all", "delivered") == EVENTS, "the history")
    failed = len(subscriber.at("/broken"))
    until(lambda: _history(penstock_up, "Trigger/default/numbers-broken", "failed") == failed, "the history")
    until(lambda: _history(penstock_up, "Broker/default/numbers", "in") == EVENTS, "the history")


def _told(system: System) -> Samples:
    """The metrics, once all processes have told what they counted and positions have arrived."""

    def look() -> Samples | None:
        found = metrics(system)
        names = ("numbers-all", "numbers-retried", "numbers-broken")
        is_told = (
            of(found, "penstock_events_delivered_total", "numbers-all") >= EVENTS
            and of(found, "penstock_events_delivered_total", "numbers-retried") >= EVENTS
            and of(found, "penstock_events_dead_lettered_total", "numbers-broken") >= BROKEN
            and found["penstock_events_accepted_total", *BROKER] >= EVENTS
            and found.get(("penstock_dead_letters", "Trigger", "default", "numbers-broken")) == BROKEN
            and found["penstock_events_rejected_total", *BROKER, "bad event"]
            and all(
                found.get(("penstock_subscription_lag_events", "Trigger", "default", name)) == 0 for name in names
            )
            and not any(of(found, "penstock_delivery_unfinished_events", name) for name in names)
        )
        return found if is_told else None

    return until(look, "everything is told")


def _check_triggers(found: Samples, subscriber: Sink) -> None:
    for name, matched, delivered, failed in (
        ("numbers-all", EVENTS, EVENTS, 0),
        ("numbers-retried", EVENTS, EVENTS, 3),
        ("numbers-broken", BROKEN, 0, 2 * BROKEN),
    ):
        assert of(found, "penstock_events_matched_total", name) == matched
        assert of(found, "penstock_events_delivered_total", name) == delivered
        assert of(found, "penstock_delivery_outcomes_total", name, "failed_attempts") == failed
        assert of(found, "penstock_delivery_attempts_total", name, "2xx") == delivered
        assert of(found, "penstock_delivery_attempts_total", name, "5xx") == failed
        assert of(found, "penstock_whole_way_seconds_count", name) == delivered
        assert of(found, "penstock_subscriber_seconds_count", name) == delivered + failed
        assert of(found, "penstock_oldest_waiting_seconds", name) == 0
        assert of(found, "penstock_delivery_in_flight", name) == 0
    assert of(found, "penstock_delivery_retries_total", "numbers-retried") == 3
    assert of(found, "penstock_delivery_retries_total", "numbers-broken") == BROKEN
    assert of(found, "penstock_events_dead_lettered_total", "numbers-broken") == len(subscriber.at("/dead"))
    assert of(found, "penstock_dead_letters", "numbers-broken") == BROKEN
    requests = sum(of(found, "penstock_delivery_attempts_total", "numbers-retried", each) for each in ("2xx", "5xx"))
    assert requests == len(subscriber.at("/retried"))


def _check_live(document: dict[str, Any], subscriber: Sink) -> None:
    rows = {row["name"]: row for row in document["subscriptions"]}
    broken = rows["numbers-broken"]
    assert broken["totals"] == {
        "matched": BROKEN, "delivered": 0, "failed_attempts": len(subscriber.at("/broken")), "dead_lettered": BROKEN,
        "given_up": 0, "replies": 0, "retries": BROKEN,
    }  # fmt: skip
    assert (broken["state"], broken["lag"], broken["dead_letters"]) == ("failing", 0, BROKEN)
    assert broken["from"] == "Broker/default/numbers"
    assert rows["numbers-all"]["totals"]["delivered"] == EVENTS
    assert 0 < rows["numbers-all"]["p50_ms"] <= rows["numbers-all"]["p99_ms"]
    (row,) = (row for row in document["ingresses"] if row["name"] == "numbers")
    assert (row["accepted_total"], row["rejected_total"]["bad event"], row["subscriptions"]) == (EVENTS, 1, 3)
    attention = [item for item in document["attention"] if item["key"] == "Trigger/default/numbers-broken"]
    assert attention[0]["severity"] == "bad"
    assert {part["state"] for part in document["parts"]} == {"running"}


def _history(system: System, key: str, field: str) -> int:
    found = get(system, f"history?of={key}&minutes=10")
    total: float = sum(each or 0.0 for each in found["series"][field]) * found["step_seconds"]
    return round(total)
