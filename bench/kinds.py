"""Scenarios of resources: broker and channel under the same load, and many resources applied at once."""

import json
import time
from typing import Any

from bench.measure import Arrangement, Bench, Offer, measure, warm_up
from bench.model import BROKER_WAY, CHANNEL_WAY, Many
from bench.system import SystemFailed, broker, trigger

NAME = "side-by-side"
ORDERED = {"kafka.eventing.knative.dev/delivery.order": "ordered"}
MANY_SECONDS = 300.0
CONTROLLER = "controller"


def channel(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "messaging.knative.dev/v1beta1",
        "kind": "KafkaChannel",
        "metadata": {"name": name},
        "spec": {"replicationFactor": 1},
    }


def subscription(name: str, of: str, url: str) -> dict[str, Any]:
    at = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": of}
    return {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "metadata": {"name": name},
        "spec": {"channel": at, "subscriber": {"uri": url}},
    }


def kinds(bench: Bench) -> None:
    """A broker with an ordered trigger, and a channel, whose subscriptions are ordered anyway."""
    reader = trigger(NAME, NAME, bench.sink.url(0))
    reader["metadata"]["annotations"] = ORDERED
    of_channel = f"{NAME}-channel"
    resources = [broker(NAME), reader, channel(of_channel), subscription(of_channel, of_channel, bench.sink.url(0))]
    with bench.step("apply a broker and a channel"):
        bench.system.apply(*resources)
    ways = {
        BROKER_WAY: bench.system.address(NAME),
        CHANNEL_WAY: bench.system.address(of_channel, "kafkachannel"),
    }
    for way, url in ways.items():
        warm_up(bench, Arrangement(way, 1, url), bench.profile.warm_seconds / 2)
    for rate in bench.profile.rates:  # in turns, so that a slow phase of the machine meets both
        for way, url in ways.items():
            measure(bench, Arrangement(way, 1, url), Offer(rate, bench.profile.steady_seconds))
    for each in reversed(resources):
        bench.system.command("delete", each["kind"].lower(), each["metadata"]["name"])


def many(bench: Bench) -> None:
    """500 triggers and 50 channels with a subscription each: from `apply` until every status is true."""
    triggers, channels, brokers = bench.profile.many_triggers, bench.profile.many_channels, 10
    resources: list[dict[str, Any]] = [broker(f"many-{n}") for n in range(brokers)]
    for n in range(triggers):
        made = trigger(f"many-{n}", f"many-{n % brokers}", bench.sink.url(0))
        made["spec"]["filter"] = {"attributes": {"type": f"many.{n}"}}
        resources.append(made)
    for n in range(channels):
        resources += [channel(f"letters-{n}"), subscription(f"letters-{n}", f"letters-{n}", bench.sink.url(0))]
    with bench.step(f"apply {triggers} triggers and {channels} channels"):
        began = time.monotonic()
        bench.system.apply(*resources, seconds=MANY_SECONDS, wait=False)
        applied = time.monotonic() - began
        _await_ready(bench, len(resources), began)
        ready = time.monotonic() - began
    memory = bench.system.snapshot().memory()[CONTROLLER]
    bench.results.many = Many(
        triggers=triggers,
        channels=channels,
        apply_seconds=round(applied, 1),
        ready_seconds=round(ready, 1),
        controller_megabytes=round(memory.resident, 1),
    )
    with bench.step("delete all of them"):
        for word in ("triggers", "subscriptions", "brokers", "kafkachannels"):
            bench.system.command("delete", word, "--all", "--no-wait", seconds=MANY_SECONDS)


def _await_ready(bench: Bench, count: int, began: float) -> None:
    while True:
        shown = bench.system.command("get", "brokers,triggers,kafkachannels,subscriptions", "-o", "json")
        items = json.loads(shown)["items"]
        if sum(_is_ready(each) for each in items) >= count:
            return
        if time.monotonic() - began > MANY_SECONDS:
            raise SystemFailed(f"not all of {count} resources are ready after {MANY_SECONDS:g} s")
        time.sleep(0.5)


def _is_ready(resource: dict[str, Any]) -> bool:
    conditions = resource.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
