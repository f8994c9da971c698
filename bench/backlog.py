"""Scenarios of a backlog: events that are in Kafka already, and how fast a trigger that wants them all gets them.

Nothing is sent meanwhile, so this is what the dispatcher alone can do. Each variant is a trigger of its own, applied
when its turn comes, and counted from its first arrival to its last.
"""

import time
from collections.abc import Mapping
from typing import Any

from bench.children import run_load
from bench.load import LoadPlan
from bench.measure import Bench, wait_for_arrivals
from bench.model import Drain
from bench.pacing import NANOSECONDS
from bench.system import SystemFailed, broker, trigger

ORDER = "kafka.eventing.knative.dev/delivery.order"
BATCH = "penstock.dev/delivery.batch"
START = {"penstock.dev/start": "earliest"}
ONE_PARTITION = "one-partition"
VARIANTS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("unordered", {}),
    ("batches of 100", {BATCH: "100"}),
    ("batches of 100", {BATCH: "100"}),
    ("unordered", {}),
)


def backlog(bench: Bench) -> None:
    """In turns, as the speed of a shared machine changes."""
    run = _fill(bench, "backlog", broker("backlog"))
    for number, (name, annotations) in enumerate(VARIANTS):
        _drain(bench, "backlog", run, name, f"drain-{number}", annotations)


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
    for number in range(2):
        _drain(bench, "single", run, "ordered, one partition", f"ordered-{number}", {ORDER: "ordered"})


def _fill(bench: Bench, name: str, resource: dict[str, Any]) -> int:
    with bench.step(f"fill {name}"):
        bench.system.apply(resource)
        run = bench.next_run()
        profile = bench.profile
        load = run_load(LoadPlan(bench.system.address(name), run, profile.full_seconds, 0.0, profile.full_events_one))
        if not load.acknowledged:
            raise SystemFailed(f"no event was accepted at {name}: {load.codes}")
        bench.backlogs[run] = load.acknowledged
    return run


def _drain(
    bench: Bench, broker_name: str, run: int, variant: str, trigger_name: str, annotations: Mapping[str, str]
) -> None:
    with bench.step(f"{broker_name} to a trigger: {variant}"):
        bench.sink.reset(run)
        made = trigger(trigger_name, broker_name, bench.sink.url(0))
        made["metadata"]["annotations"] = {**START, **annotations}
        bench.system.apply(made)
        began, expected = time.monotonic(), bench.backlogs[run]
        arrived = wait_for_arrivals(bench.sink, expected)
        stats = bench.sink.stats()
        bench.system.command("delete", "trigger", trigger_name)
    if arrived < expected:
        raise SystemFailed(f"{arrived} of {expected} came in {time.monotonic() - began:.0f} s")
    seconds = (stats.last_arrival_ns - stats.first_arrival_ns) / NANOSECONDS
    bench.results.drains.append(
        Drain(
            variant=variant,
            events=stats.distinct,
            duplicates=stats.duplicates,
            seconds=round(seconds, 2),
            events_per_second=round(stats.distinct / seconds, 1),
        )
    )
