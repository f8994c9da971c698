"""Scenarios of a backlog: events that are in Kafka already, and how fast a trigger that wants them all gets them.

Nothing is sent meanwhile, so this is what the dispatcher alone can do. Each variant is a trigger of its own, applied
when its turn comes, and counted from its first arrival to its last. The subscriber is the bare sink, or an ordinary
service (``ordinary.py``), which costs more than all of Penstock.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bench.children import Sink
from bench.events import DATA, make_id, record_headers
from bench.measure import Bench, wait_for_arrivals
from bench.model import BATCHES, ORDINARY, UNORDERED, Drain
from bench.pacing import NANOSECONDS
from bench.system import SystemFailed, broker, trigger
from penstock.kafka.connection import KafkaConnection

ORDER = "kafka.eventing.knative.dev/delivery.order"
BATCH = "penstock.dev/delivery.batch"
START = {"penstock.dev/start": "earliest"}
ONE_PARTITION = "one-partition"
DRAIN_SECONDS = 240.0


@dataclass(frozen=True)
class Turn:
    """A trigger that gets the whole backlog."""

    variant: str
    annotations: Mapping[str, str]
    sink: Sink


def backlog(bench: Bench) -> None:
    """In turns, as the speed of a shared machine changes."""
    run = _fill(bench, "backlog", broker("backlog"))
    batched = {BATCH: "100"}
    with Sink("ordinary") as service:
        for turn in (
            Turn(UNORDERED, {}, bench.sink),
            Turn(BATCHES, batched, bench.sink),
            Turn(BATCHES, batched, bench.sink),
            Turn(UNORDERED, {}, bench.sink),
            Turn(UNORDERED + ORDINARY, {}, service),
            Turn(BATCHES + ORDINARY, batched, service),
        ):
            _drain(bench, "backlog", run, turn)


def ordered(bench: Bench) -> None:
    """One partition, one event at a time."""
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ONE_PARTITION},
        "data": {"default.topic.partitions": "1", "default.topic.replication.factor": "1"},
    }
    single = broker("single")
    single["spec"] = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": ONE_PARTITION}}
    bench.system.apply(config, wait=False)  # it has no conditions to wait for
    run = _fill(bench, "single", single)
    for _ in range(2):
        _drain(bench, "single", run, Turn("ordered, one partition", {ORDER: "ordered"}, bench.sink))


def _fill(bench: Bench, name: str, resource: dict[str, Any]) -> int:
    """Puts the events into the broker's topic, as its receiver would write them, in a fraction of the time."""
    with bench.step(f"fill {name}"):
        bench.system.apply(resource)
        run = bench.next_run()
        topic = bench.system.topic(urlsplit(bench.system.address(name)).path)
        producer = KafkaConnection(bench.system.bootstrap_servers, "bench").producer(**{"linger.ms": 5})
        for number in range(bench.profile.backlog_events):
            headers = record_headers(make_id(run, number, time.monotonic_ns()))
            while True:
                try:
                    producer.produce(topic, DATA, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        if producer.flush(30.0):
            raise SystemFailed(f"Kafka did not take the backlog of {name}")
        bench.backlogs[run] = bench.profile.backlog_events
    return run


def _drain(bench: Bench, broker_name: str, run: int, turn: Turn) -> None:
    sink, name = turn.sink, f"{broker_name}-{len(bench.results.drains)}"
    with bench.step(f"{broker_name} to a trigger: {turn.variant}"):
        sink.reset(run)
        made = trigger(name, broker_name, sink.url(0))
        made["metadata"]["annotations"] = {**START, **turn.annotations}
        bench.system.apply(made)
        began, expected = time.monotonic(), bench.backlogs[run]
        arrived = wait_for_arrivals(sink, expected, DRAIN_SECONDS)
        stats = sink.stats()
        bench.system.command("delete", "trigger", name)
    if arrived < expected:
        raise SystemFailed(f"{arrived} of {expected} came in {time.monotonic() - began:.0f} s")
    seconds = (stats.last_arrival_ns - stats.first_arrival_ns) / NANOSECONDS
    bench.results.drains.append(
        Drain(
            variant=turn.variant,
            events=stats.distinct,
            duplicates=stats.duplicates,
            seconds=round(seconds, 2),
            events_per_second=round(stats.distinct / seconds, 1),
        )
    )
