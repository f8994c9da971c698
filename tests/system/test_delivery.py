"""Delivery through a running system: replies, dead letters and their second way, batches, JSON, order by key."""

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock.kafka.connection import KafkaConnection
from tests.conftest import System
from tests.sink import Answer, Request, Sink
from tests.system.resources import apply, broker, get, remove, trigger
from tests.waiting import until

MakeSink = Callable[[], Sink]


def send(system: System, broker_name: str, id_: str, type_: str = "order", **attributes: str) -> None:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": id_,
        "ce-source": "/s",
        "ce-type": type_,
        "content-type": "text/plain",
    }
    headers |= {f"ce-{name}": value for name, value in attributes.items()}
    url = f"{system.ingress_url}/default/{broker_name}"
    urllib.request.urlopen(urllib.request.Request(url, f"data of {id_}".encode(), headers)).read()


def ids(requests: list[Request]) -> list[str]:
    return [each.headers["ce-id"] for each in requests]


def outcomes(system: System, name: str) -> dict[str, int]:
    text = urllib.request.urlopen(f"{system.admin_url}/metrics").read().decode()
    found = re.findall(rf'penstock_delivery_outcomes_total\{{.*name="{name}",outcome="(.*?)"\}} (\d+)', text)
    return {outcome: int(count) for outcome, count in found if count != "0"}


def letters(system: System, *arguments: str) -> list[dict[str, Any]]:
    shown = system.run("deadletters", "list", "-o", "json", *arguments).stdout
    return [json.loads(line) for line in shown.splitlines()]


@pytest.mark.scenario(20)
def test_replies_meet_all_triggers_and_loops_end(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: a reply goes through the broker like any event, and a trigger that feeds itself is cut off."""
    subscriber = sink()

    def pong(request: Request) -> Answer:
        again = {name: request.headers[name] for name in ("ce-specversion", "ce-source", "content-type")}
        return Answer(200, b"pong", {**again, "ce-id": request.headers["ce-id"] + "+", "ce-type": "pong"})

    subscriber.answer("/feeds-itself", with_=pong)
    resources = [
        broker("replies"),
        trigger("feeds-itself", "replies", subscriber.url + "/feeds-itself"),
        trigger("pongs", "replies", subscriber.url + "/pongs", filters=[{"exact": {"type": "pong"}}]),
    ]
    apply(penstock_up, *resources)
    send(penstock_up, "replies", "a")
    subscriber.wait_for(17, path="/feeds-itself", timeout_seconds=60)
    subscriber.wait_for(16, path="/pongs", timeout_seconds=60)
    # The topic has several partitions, and nobody asked for an order.
    assert sorted(ids(subscriber.at("/pongs"))) == ["a" + "+" * n for n in range(1, 17)]
    send(penstock_up, "replies", "b", knativebrokerttl="0")  # the last word: the loop above has ended before it
    subscriber.wait_for(18, path="/feeds-itself", timeout_seconds=60)
    assert len(subscriber.at("/pongs")) == 16
    remove(penstock_up, *resources)


def test_what_was_given_up_is_listed_and_brought_once_more(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: redrive brings every event to the subscriber that refused it exactly once more."""
    subscriber = sink()
    subscriber.answer("/refuses", status=400, body=b"not today", headers={"kne-why": "monday"})
    sink_for_dead = {"deadLetterSink": {"uri": subscriber.url + "/dead"}}
    resources = [
        broker("letters"),
        trigger("declines", "letters", subscriber.url + "/refuses"),
        trigger("with-sink", "letters", subscriber.url + "/refuses", delivery=sink_for_dead),
        trigger("takes-all", "letters", subscriber.url + "/takes-all"),
    ]
    apply(penstock_up, *resources)
    sent = [f"l{n}" for n in range(40)]
    for id_ in sent:
        send(penstock_up, "letters", id_)
    until(lambda: len(letters(penstock_up, "--trigger", "declines")) == 40, "all are listed", 60)
    until(lambda: len(letters(penstock_up, "--trigger", "with-sink")) == 40, "all are listed", 60)
    (one,) = [each for each in letters(penstock_up, "--trigger", "declines", "--code", "400") if each["id"] == "l7"]
    told = (one["source"], one["subscription"], one["outcome"], one["reason"], one["code"], one["attempts"])
    assert told == ("/s", "trigger/declines", "given up", "status 400", 400, 1)
    assert letters(penstock_up, "--trigger", "declines", "--code", "503") == []
    shown = json.loads(penstock_up.run("deadletters", "show", "l7", "--trigger", "with-sink", "-o", "json").stdout)
    assert (shown["outcome"], shown["event"]["data_base64"]) == ("dead-lettered", "ZGF0YSBvZiBsNw==")
    (letter,) = [each for each in subscriber.at("/dead") if each.headers["ce-id"] == "l7"]
    assert (letter.headers["ce-knativeerrorcode"], letter.headers["ce-why"]) == ("400", "monday")

    subscriber.answer("/refuses", status=200)
    before = len(subscriber.at("/refuses"))
    assert penstock_up.run("deadletters", "redrive", "l7", "--trigger", "declines").stdout == "sent again: 1\n"
    assert penstock_up.run("deadletters", "redrive", "--all", "--trigger", "declines").stdout == "sent again: 39\n"
    subscriber.wait_for(before + 40, path="/refuses", timeout_seconds=60)
    send(penstock_up, "letters", "last")
    subscriber.wait_for(before + 42, path="/refuses", timeout_seconds=60)  # both triggers have the last one
    again = subscriber.at("/refuses")[before:]
    assert Counter(ids(again)) == Counter({**dict.fromkeys(sent, 1), "last": 2})
    assert {each.body for each in again if each.headers["ce-id"] == "l7"} == {b"data of l7"}
    assert len(subscriber.wait_for(41, path="/takes-all", timeout_seconds=60)) == 41
    assert letters(penstock_up, "--trigger", "declines") == []
    assert len(letters(penstock_up, "--trigger", "declines", "--redriven")) == 40
    until(
        lambda: outcomes(penstock_up, "declines") == {"given_up": 40, "failed_attempts": 40, "delivered": 41},
        "counts",
    )
    until(lambda: outcomes(penstock_up, "with-sink")["dead_lettered"] == 40, "counts")
    remove(penstock_up, *resources)
    gone = penstock_up.run("deadletters", "redrive", "--all", "--trigger", "with-sink")
    assert (gone.returncode, "is no more" in gone.stderr) == (1, True)


def test_batches_json_and_limits(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: many events in a request, the whole event as JSON, and no more than so many a second."""
    subscriber = sink()
    batch = {"penstock.dev/delivery.batch": "20", "penstock.dev/delivery.batch-wait": "PT0.5S"}
    order = {"kafka.eventing.knative.dev/delivery.order": "ordered"}
    resources = [
        broker("forms"),
        trigger("batches", "forms", subscriber.url + "/batches", annotations={**batch, **order}),
        trigger("json", "forms", subscriber.url + "/json", delivery={"format": "json"}),
        trigger("slow", "forms", subscriber.url + "/slow", annotations={"penstock.dev/delivery.max-rate": "20"}),
    ]
    apply(penstock_up, *resources)
    for n in range(60):
        send(penstock_up, "forms", f"e{n}", subject="one partition")
    subscriber.wait_for(60, path="/json", timeout_seconds=60)
    assert {each.headers["content-type"] for each in subscriber.at("/json")} == {"application/cloudevents+json"}
    assert {json.loads(each.body)["id"] for each in subscriber.at("/json")} == {f"e{n}" for n in range(60)}

    def batched() -> list[str]:
        return [event["id"] for each in subscriber.at("/batches") for event in json.loads(each.body)]

    until(lambda: len(batched()) == 60, "all came in batches", 60)
    assert batched() == [f"e{n}" for n in range(60)]
    assert {each.headers["content-type"] for each in subscriber.at("/batches")} == {
        "application/cloudevents-batch+json"
    }
    assert len(subscriber.at("/batches")) < 30
    subscriber.wait_for(60, path="/slow", timeout_seconds=60)
    times = [each.received for each in subscriber.at("/slow")]
    assert times[-1] - times[0] > 59 / 20 * 0.9
    remove(penstock_up, *resources)


def test_order_by_key(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: each key in its order, however often one fails; and the other keys do not wait for it."""
    subscriber = sink()
    failed: Counter[str] = Counter()

    def fails_at_first(request: Request) -> Answer:
        others_wait = not {"good-19", "fine-19"} <= set(ids(subscriber.at("/keys")))
        if request.headers["ce-subject"] == "bad" and (others_wait or failed["bad"] < 6):
            failed["bad"] += 1
            return Answer(503)
        return Answer(200)

    subscriber.answer("/keys", with_=fails_at_first)
    delivery = {"retry": 300, "backoffPolicy": "linear", "backoffDelay": "PT0.3S"}
    order = {"kafka.eventing.knative.dev/delivery.order": "key"}
    resources = [
        broker("keys"),
        trigger("keys", "keys", subscriber.url + "/keys", delivery=delivery, annotations=order),
    ]
    apply(penstock_up, *resources)
    for n in range(20):
        for key in ("bad", "good", "fine"):
            send(penstock_up, "keys", f"{key}-{n}", subject=key)
    until(lambda: len(set(ids(subscriber.at("/keys")))) == 60, "all events of all keys", 120)
    came = subscriber.at("/keys")
    for key in ("bad", "good", "fine"):
        own = [each.headers["ce-id"] for each in came if each.headers["ce-subject"] == key]
        expected = [f"{key}-{n}" for n in range(20)]
        assert own == ["bad-0"] * failed["bad"] + expected if key == "bad" else own == expected
    first_bad = [each.received for each in came if each.headers["ce-id"] == "bad-0"][-1]
    assert all(each.received < first_bad for each in came if each.headers["ce-id"] in ("good-19", "fine-19"))
    remove(penstock_up, *resources)


def test_a_subscriber_that_is_gone_is_disabled_and_resumed(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: after 410 nothing is sent and nothing is lost; the trigger says why, and goes on when told."""
    subscriber = sink()
    subscriber.answer("/gone", status=410)
    resources = [broker("gone"), trigger("gone", "gone", f"{subscriber.url}/gone")]
    apply(penstock_up, *resources)
    send(penstock_up, "gone", "refused")

    def reason() -> str:
        conditions = get(penstock_up, "trigger", "gone")["status"]["conditions"]
        return next(str(each.get("reason")) for each in conditions if each["type"] == "SubscriptionReady")

    until(lambda: reason() == "SubscriberGone", "the trigger is disabled")
    subscriber.answer("/gone", status=200)
    send(penstock_up, "gone", "waiting")
    assert penstock_up.run("resume", "trigger", "gone").returncode == 0
    until(lambda: ids(subscriber.at("/gone")) == ["refused", "waiting"], "what waited has come, once")
    until(
        lambda: [each["id"] for each in letters(penstock_up, "--trigger", "gone")] == ["refused"], "its dead letter"
    )
    until(lambda: reason() == "None", "the trigger is served again")
    remove(penstock_up, *resources)


@pytest.mark.scenario(22)
def test_rubbish_in_a_topic_is_counted_and_passed_over(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: what somebody writes past the receiver stops nothing, and is seen in the metrics."""
    subscriber = sink()
    resources = [broker("littered"), trigger("littered", "littered", f"{subscriber.url}/littered")]
    apply(penstock_up, *resources)
    topic = "knative-broker-default-littered"
    producer = KafkaConnection(penstock_up.bootstrap_servers).producer()
    rubbish: list[tuple[bytes | None, list[tuple[str, bytes]]]] = [
        (None, []),
        (b"just text", []),
        (b"{trunc", [("content-type", b"application/cloudevents+json")]),
        (b"{}", [("ce_x", b"x" * 800_000)]),
    ]
    for value, headers in rubbish:
        producer.produce(topic, value, headers=headers)
    assert producer.flush(30) == 0
    for n in range(4):
        send(penstock_up, "littered", f"e{n}")
    subscriber.wait_for(4, "/littered")

    def counted() -> int:
        text = urllib.request.urlopen(f"{penstock_up.admin_url}/metrics").read().decode()
        return sum(map(int, re.findall(rf'penstock_bad_records_total\{{topic="{topic}"\}} (\d+)', text)))

    until(lambda: counted() >= len(rubbish), "they are counted")  # a query that begins anew counts some again
    assert sorted(ids(subscriber.at("/littered"))) == ["e0", "e1", "e2", "e3"]
    remove(penstock_up, *resources)
