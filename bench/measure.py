"""One load on one arrangement, measured from both ends and from the side.

Comes in: a Bench (the running system and the sink), an Arrangement and an Offer. Goes out: a Run. Called by
``scenarios.py`` and ``baselines.py``.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec.structs import replace
from rich.console import Console

from bench.children import Sink, run_load
from bench.load import LoadPlan, LoadResult
from bench.model import FULL, Idle, Results, Run
from bench.pacing import NANOSECONDS
from bench.profile import Profile
from bench.sink import SinkStats
from bench.system import System, SystemFailed

SILENCE_SECONDS = 12.0  # longer than any gap between Spark's batches
DRAIN_SECONDS = 90.0
WARM_RATE = {1: 1500.0, 10: 500.0}  # by triggers


@dataclass(frozen=True)
class Offer:
    """A load: a rate for some seconds, or everything the connections can carry."""

    rate: float = 0.0
    seconds: float = 10.0
    events: int = 0
    connections: int = 64
    is_stamped_when_sent: bool = False  # see LoadPlan

    @property
    def label(self) -> str:
        return f"{self.rate:g}/s" if self.rate else FULL


@dataclass(frozen=True)
class Arrangement:
    """What stands between the generator and the sink."""

    scenario: str
    triggers: int  # subscribers that each event goes to; 0: none waits for it
    url: str
    helpers: Mapping[int, str] = field(default_factory=dict)  # processes of ours to account for, by pid
    types: int = 0  # of events, in turn: see LoadPlan


@dataclass
class Bench:
    """What all scenarios share."""

    system: System
    sink: Sink
    profile: Profile
    results: Results
    console: Console
    last_run: int = 0
    triggers_applied: int = 0
    plain_topic: str = ""
    backlogs: dict[int, int] = field(default_factory=dict)  # how many events a run has put into Kafka

    def next_run(self) -> int:
        self.last_run += 1
        return self.last_run

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        with self.console.status(what):
            yield
        self.console.print(f"[green]✓[/] {what} [dim]({time.monotonic() - began:.0f} s)[/]")


def measure(bench: Bench, arrangement: Arrangement, offer: Offer) -> Run:
    """Offers the load, waits until everything acknowledged has arrived, and adds the run to the results."""
    many = "" if arrangement.triggers == 1 else "s"
    with bench.step(f"{arrangement.scenario}, {arrangement.triggers} trigger{many}, {offer.label}"):
        bench.sink.reset(run := bench.next_run())
        before = bench.system.snapshot(arrangement.helpers)
        load = run_load(_plan(arrangement, offer, run))
        wait_for_arrivals(bench.sink, load.acknowledged * arrangement.triggers)
        after = bench.system.snapshot(arrangement.helpers)
        stats = bench.sink.stats()
    cpu = {**after.cpu_since(before), "generator": load.cpu_seconds, "sink": stats.cpu_seconds}
    found = combine(arrangement, offer.label, load, stats)
    found = replace(found, cpu_us_per_event=per_event(cpu, load.acknowledged), memory=after.memory())
    bench.results.runs.append(found)
    return found


def _plan(arrangement: Arrangement, offer: Offer, run: int) -> LoadPlan:
    return LoadPlan(
        arrangement.url,
        run,
        offer.seconds,
        offer.rate,
        offer.events,
        offer.connections,
        arrangement.types,
        offer.is_stamped_when_sent,
    )


def wait_for_arrivals(sink: Sink, expected: int, most_seconds: float = DRAIN_SECONDS) -> int:
    """Until all are there, or nothing has come for a while, or it takes too long. Returns how many there are."""
    began = last_progress = time.monotonic()
    count = -1
    while expected:
        seen = sink.count()
        now = time.monotonic()
        if seen > count:
            count, last_progress = seen, now
        if count >= expected or now - last_progress > SILENCE_SECONDS or now - began > most_seconds:
            break
        time.sleep(0.1)
    return max(count, 0)


def combine(arrangement: Arrangement, load_label: str, load: LoadResult, stats: SinkStats) -> Run:
    """The generator's and the sink's views of one run as one."""
    subscribers = max(arrangement.triggers, 1)
    span = max(stats.last_arrival_ns - load.first_sent_ns, 0) / NANOSECONDS
    return Run(
        scenario=arrangement.scenario,
        triggers=arrangement.triggers,
        load=load_label,
        sent=load.sent,
        acknowledged=load.acknowledged,
        codes=load.codes,
        ingress=load.latency,
        whole_way=stats.whole_way,
        acknowledged_per_second=load.rate,
        deliveries=stats.distinct,
        duplicates=stats.duplicates,
        missing=max(load.acknowledged * arrangement.triggers - stats.distinct, 0),
        events_per_second=round(stats.distinct / subscribers / span, 1) if span else 0.0,
        deliveries_per_second=round(stats.distinct / span, 1) if span else 0.0,
        drain_seconds=round(max(stats.last_arrival_ns - load.last_answer_ns, 0) / NANOSECONDS, 2) if span else 0.0,
        generator_lag_p99=load.lag_p99,
    )


def per_event(cpu_seconds: Mapping[str, float], events: float) -> dict[str, float]:
    return {group: round(seconds / max(events, 1) * 1e6, 1) for group, seconds in cpu_seconds.items()}


def warm_up(bench: Bench, arrangement: Arrangement, seconds: float) -> None:
    """Load that is not measured: both virtual machines compile what is used often.

    First a burst, which tells them what that is, then a steady rate, during which they get to it.
    """
    with bench.step("warm up"):
        burst = bench.profile.burst_events // max(1, arrangement.triggers)
        bench.sink.reset(run := bench.next_run())
        load = run_load(_plan(arrangement, Offer(seconds=bench.profile.full_seconds, events=burst), run))
        wait_for_arrivals(bench.sink, load.acknowledged * arrangement.triggers)
        bench.sink.reset(run := bench.next_run())
        rate = WARM_RATE.get(arrangement.triggers, 1000.0)
        load = run_load(_plan(arrangement, Offer(rate, seconds), run))
        if not load.acknowledged:
            raise SystemFailed(f"no event was accepted at {arrangement.url}: {load.codes}")
        expected = load.acknowledged * arrangement.triggers
        if wait_for_arrivals(bench.sink, expected) == 0 < expected:
            raise SystemFailed(f"{load.acknowledged} events were accepted and none arrived at the subscriber")


def measure_idle(bench: Bench, when: str) -> None:
    """CPU and memory of the whole of ``up`` while nothing is sent."""
    seconds = bench.profile.idle_seconds
    with bench.step(f"idle, {when}"):
        time.sleep(bench.profile.settle_seconds)
        before, began = bench.system.snapshot(), time.monotonic()
        time.sleep(seconds)
        after, took = bench.system.snapshot(), time.monotonic() - began
        memory = after.memory()
    if not memory:
        raise SystemFailed("none of the processes of `penstock up` was found in /proc")
    percent = {group: round(cpu / took * 100, 2) for group, cpu in after.cpu_since(before).items()}
    bench.results.idle.append(
        Idle(
            when=when,
            seconds=round(took, 1),
            core_percent=round(sum(percent.values()), 2),
            core_percent_by_group=percent,
            resident=round(sum(m.resident for m in memory.values()), 1),
            proportional=round(sum(m.proportional for m in memory.values()), 1),
            memory=memory,
        )
    )
