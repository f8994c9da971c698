"""Scenario: where is my event, among a hundred thousand and among a million, as the API answers it.

The events are written straight into the topic of a broker, as the receiver's records look. The one that is asked for
is among the oldest, and all of the topic is searched; its triggers come later.
"""

import json
import time
import urllib.request
from typing import Any

from bench.measure import Bench
from bench.model import Explained
from bench.system import SystemFailed, broker, trigger
from penstock.event.kafka import encode_record
from penstock.event.model import Event
from penstock.kafka.connection import KafkaConnection

SIZES = (100_000, 1_000_000)
TURNS = 3
TRIGGERS = 10
PRODUCE_SECONDS = 120.0
SETTLE_SECONDS = 5.0  # until the query runs, and it is known where the triggers begin


def explain(bench: Bench) -> None:
    for records in SIZES[:1] if bench.results.quick else SIZES:
        name = f"explain-{records}"
        with bench.step(f"write {records:,} events"):
            bench.system.apply(broker(name))
            _produce(bench, bench.system.topic(f"/default/{name}"), records)
            bench.system.apply(*(_trigger(bench, name, number) for number in range(TRIGGERS)))
            time.sleep(SETTLE_SECONDS)
        with bench.step(f"where is my event, among {records:,}"):
            first, *others = (_ask(bench, name) for _ in range(TURNS + 1))
        bench.results.explained.append(Explained(records=records, first_seconds=first, seconds=others))


def _trigger(bench: Bench, broker_name: str, number: int) -> dict[str, Any]:
    wanted = trigger(f"{broker_name}-{number}", broker_name, bench.sink.url(0))
    wanted["spec"]["filters"] = [{"exact": {"type": f"order.{number}"}}]
    return wanted


def _produce(bench: Bench, topic: str, records: int) -> None:
    settings = {"linger.ms": 50, "queue.buffering.max.messages": 200_000}
    producer = KafkaConnection(bench.system.bootstrap_servers).producer(**settings)
    for number in range(records):
        event = Event(
            {
                "specversion": "1.0",
                "id": f"e-{number}",
                "source": "/shop",
                "type": f"order.{number % 20}",
                "subject": f"s-{number % 1000}",
                "time": "2026-11-16T15:00:00Z",
                "datacontenttype": "application/json",
            },
            b'{"number": %d, "amount": 12.5}' % number,
        )
        record = encode_record(event)
        while True:
            try:
                producer.produce(topic, record.value, record.key, headers=record.headers)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(PRODUCE_SECONDS):
        raise SystemFailed(f"{records} events could not be written within {PRODUCE_SECONDS:g} s")


def _ask(bench: Bench, name: str) -> float:
    """In seconds; the answer is checked."""
    began = time.monotonic()
    with urllib.request.urlopen(f"{bench.system.server}/api/penstock/explain?id=e-7&namespace=default") as answer:
        last = json.loads(answer.read().splitlines()[-1])
    took = round(time.monotonic() - began, 2)
    found = [each for each in last.get("found") or [] if each["of"] == f"Broker/default/{name}"]
    if len(found) != 1 or len(found[0]["subscriptions"]) != TRIGGERS:
        raise SystemFailed(f"event e-7 of {name} was not explained: {last}")
    return took
