"""What was promised against what was measured, and Penstock against the baselines of the same run (pure)."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import mean, median, stdev

from bench.model import (
    AGAIN,
    BATCHES,
    BESIDE_HANGING,
    BROKER_WAY,
    CESQL_100,
    CHANNEL_WAY,
    CONSUMER,
    EXACT_1000,
    FULL,
    HOUR_AFTER,
    HOUR_BEFORE,
    HOUR_MEANWHILE,
    INGRESS,
    KAFKA,
    ORDINARY,
    PENSTOCK,
    TEN_TERMS,
    UNDISTURBED,
    UNORDERED,
    WITH_TRACES,
    WITHOUT_TRACES,
    Compared,
    Idle,
    Ratio,
    Results,
    Run,
    Target,
    Turn,
    without,
)
from bench.turns import compared

DISPATCH_GROUPS = ("dispatcher", "dispatcher JVM", "workers")


def targets(results: Results) -> list[Target]:
    """The figures of the "Speed" section, for two cores with everything on one machine."""
    steady = results.find(PENSTOCK, 1, "1000/s")
    full, ten = results.find(PENSTOCK, 1, FULL), results.find(PENSTOCK, 10, FULL)
    ingress = results.find(INGRESS, 0, FULL)
    started = _idle(results, "just started")
    with_trigger = _idle(results, "one trigger")
    idle = results.idle_brokers if results.idle_brokers and results.idle_brokers.brokers >= 100 else None
    many = results.many if results.many and results.many.triggers >= 500 else None
    return [
        _at_most("whole way at 1,000/s, p50, ms", 3, steady.whole_way.p50 if steady else None),
        _at_most("whole way at 1,000/s, p99, ms", 25, steady.whole_way.p99 if steady else None),
        _at_least("full load, one trigger, events/s end to end", 5000, full.events_per_second if full else None),
        _at_least("full load, ten triggers, deliveries/s", 12000, ten.deliveries_per_second if ten else None),
        _at_least("receiver, acknowledged events/s of a process", 8000, _per_receiver(ingress) if ingress else None),
        _at_most("receiver, largest process, MB resident", 80, _receiver_memory(results)),
        _at_most("idle, just started, MB resident", 2048, started.resident if started else None),
        _at_most("idle, just started, % of a core", 5, started.core_percent if started else None),
        _at_most("idle, one trigger, MB resident", 2048, with_trigger.resident if with_trigger else None),
        _at_most("idle, one trigger, % of a core", 5, with_trigger.core_percent if with_trigger else None),
        _at_most("up to ready, s", 25, results.up_seconds),
        _at_least("ten-term CESQL filter, events/s over no filter", 0.9, _share(results, TEN_TERMS)),
        _at_least("1,000 exact filters, events/s over one trigger", 0.5, _share(results, EXACT_1000)),
        _at_least("100 CESQL filters, events/s over one trigger", 0.33, _share(results, CESQL_100)),
        _at_most("change among 1,000 triggers in force, s", 3, max(results.change_seconds, default=None)),
        _at_least("ordered, events/s of a partition", 2000, _rounded(results.drain_rate("ordered, one partition"))),
        _at_least("batches of 100, events/s over one by one, to an ordinary service", 5, _batched(results, ORDINARY)),
        _at_least("batches of 100, events/s over one by one, to the bare sink", 5, _batched(results)),
        _at_most("one of ten hangs, p99 of the nine over theirs undisturbed", 2, _disturbed(results)),
        _at_most("down for an hour of traffic: lost or out of order", 0, _spoilt(results)),
        _at_most("while it is down, p99 of the others over theirs before", 2, _beside(results, HOUR_MEANWHILE)),
        _at_most("while it catches up, p99 of the others over theirs before", 2, _beside(results, HOUR_AFTER)),
        _at_most("one of ten hangs, memory of the workers over the estimate", 1, _over_estimate(results)),
        _at_most("100 idle brokers, dispatcher, MB", 1536, idle.megabytes if idle else None),
        _at_most("100 idle brokers, dispatcher, % of a core", 20, idle.core_percent if idle else None),
        _at_most(
            "first event of an idle broker, slowest of five, ms", 1000, max(idle.first_event_ms) if idle else None
        ),
        _at_most("500 triggers and 50 channels, apply, s", 60, many.apply_seconds if many else None),
        _at_most("500 triggers and 50 channels, all of them ready, s", 60, many.ready_seconds if many else None),
        _at_most("500 triggers and 50 channels, controller, MB", 300, many.controller_megabytes if many else None),
        _at_most("events accepted and delivered, shown but not seen outside, or the reverse", 0, _untrue(results)),
        _at_most("whole way, mean, shown against seen by the sink, off by", 0.1, _off(results, "whole_way_mean")),
        _at_most("whole way, p50, shown against seen by the sink, off by", 0.1, _off(results, "whole_way_p50")),
        _at_most("whole way, p99, shown against seen by the sink, off by", 0.1, _off(results, "whole_way_p99")),
        _at_most("where is my event, among 100,000, slowest of three, s", 1, _explained(results, 100_000)),
        _at_most("where is my event, among 1,000,000, slowest of three, s", 10, _explained(results, 1_000_000)),
        _at_least("telemetry on, events/s over off", 0.97, _telemetry(results, EVENTS + ALIKE)),
        _at_most("telemetry on, CPU time per event over off", 1.03, _telemetry(results, CPU + ALIKE)),
        _at_least("1 % traced, events/s over nothing traced", 0.95, _events_of(results, WITH_TRACES, WITHOUT_TRACES)),
        _at_most(
            "1 % traced, CPU time per event over nothing traced", 1.05, _cpu_of(results, WITH_TRACES, WITHOUT_TRACES)
        ),
    ]


def _explained(results: Results, records: int) -> float | None:
    found = [each for each in results.explained if each.records == records]
    return max(found[0].seconds) if found else None


def _untrue(results: Results) -> int | None:
    """At all rates together."""
    if not results.truth:
        return None
    accepted = sum(abs(each.accepted_shown - each.accepted_sent) for each in results.truth)
    return accepted + sum(abs(each.delivered_shown - each.delivered_seen) for each in results.truth)


def _off(results: Results, figure: str) -> float | None:
    """By which share of it, at the rate at which it is worst."""
    shares = []
    for each in results.truth:
        shown, seen = getattr(each, f"{figure}_shown"), getattr(each, f"{figure}_seen")
        shares.append(abs(shown - seen) / seen if seen else 1.0)
    return round(max(shares), 3) if shares else None


def _events_of(results: Results, way: str, other: str) -> float | None:
    """Events a second of one way over those of another, under full load."""
    return _middle(_by_rounds(results, _events, way, other))


def _cpu_of(results: Results, way: str, other: str) -> float | None:
    """The same for all processor time that our own processes take for an event, under the load at which it is worse:
    full, or steady."""
    found = [_middle(_by_rounds(results, measure, way, other)) for measure in (_full_cpu, _cpu)]
    return max((each for each in found if each is not None), default=None)


def _events(results: Results, way: str) -> list[float]:
    return [run.events_per_second for run in results.runs if run.scenario == way and run.load == FULL]


def _cpu(results: Results, way: str, *, is_full: bool = False) -> list[float]:
    return [
        sum(us for group, us in run.cpu_us_per_event.items() if group not in ("generator", "sink"))
        for run in results.runs
        if run.scenario == way and (run.load == FULL) == is_full
    ]


_full_cpu = partial(_cpu, is_full=True)
Measure = Callable[[Results, str], list[float]]
MEASURES: dict[str, Measure] = {"events/s": _events, "CPU µs/event, full": _full_cpu, "CPU µs/event, 500/s": _cpu}


def _by_rounds(results: Results, measure: Measure, way: str, other: str) -> list[float]:
    """For each round, in which runs are neighbours in time: one way over the other. Both may be there twice."""
    mine, theirs = (
        [
            mean(runs)
            for runs in zip(*filter(None, (measure(results, name) for name in (each, each + AGAIN))), strict=True)
        ]
        for each in (way, other)
    )
    return [a / b for a, b in zip(mine, theirs, strict=True)]


def _middle(values: Sequence[float]) -> float | None:
    return round(median(values), 3) if values else None


EVENTS, CPU, ALIKE = "events/s", "CPU µs/event", ", on a machine that is always as fast"
TURNS: dict[str, Callable[[Turn, float], float]] = {  # of a turn, and of how slow the machine was in it: usually 1
    EVENTS: lambda turn, _: turn.events_per_second,
    CPU: lambda turn, _: sum(turn.cpu_us_per_event.values()),
    EVENTS + ALIKE: lambda turn, slow: turn.events_per_second * slow,
    CPU + ALIKE: lambda turn, slow: sum(turn.cpu_us_per_event.values()) / slow,
}


def _telemetry(results: Results, what: str) -> float | None:
    found = _compared(results, what)
    return None if found is None else found.ratio


def _compared(results: Results, what: str) -> Compared | None:
    usual = mean(turn.ends_us_per_event for turn in results.turns) if results.turns else 1.0
    return compared([TURNS[what](turn, turn.ends_us_per_event / usual) for turn in results.turns])


def _switched(results: Results) -> Iterator[Ratio]:
    """What telemetry costs all processes together, and by which of them it is paid."""
    for what in TURNS:
        found = _compared(results, what)
        if found is not None:
            named = f"telemetry on over off, {what} (± {found.error:.3f} in {found.pairs} pairs)"
            yield Ratio(named, found.on, found.off, found.ratio)
    for group in sorted({group for turn in results.turns for group in turn.cpu_us_per_event}):
        off, on = (
            round(mean(turn.cpu_us_per_event.get(group, 0.0) for turn in results.turns if turn.is_on == is_on), 1)
            for is_on in (False, True)
        )
        yield _ratio(f"telemetry on over off, {CPU} of {group}", on, off)


def _tracing(results: Results) -> Iterator[Ratio]:
    """What traces cost by each measure, with the standard error of it; and what two runs differ by that are the
    same: a cost below that is not seen in one of them."""
    way, other = WITH_TRACES, WITHOUT_TRACES
    for what, measure in MEASURES.items():
        found = _by_rounds(results, measure, way, other)
        if len(found) > 1:
            error = stdev(found) / len(found) ** 0.5
            with_, without_ = (median(measure(results, each)) for each in (way, other))
            named = f"{way}, {what} (mean {mean(found):.3f} ± {error:.3f} in {len(found)} rounds)"
            yield Ratio(named, round(with_, 1), round(without_, 1), round(median(found), 3))
        one, again = measure(results, other), measure(results, other + AGAIN)
        if one and again:
            ratio = median(b / a for a, b in zip(one, again, strict=True))
            named = f"{other}, the same again: {what}"
            yield Ratio(named, round(median(again), 1), round(median(one), 1), round(ratio, 3))


def ratios(results: Results) -> list[Ratio]:
    found: list[Ratio] = []
    for run in results.runs:
        if run.scenario == PENSTOCK:
            found += _against_consumer(run, results.find(CONSUMER, run.triggers, run.load))
            if run.triggers == 1:
                found += _against_kafka(run, results.find(KAFKA, 1, run.load))
        elif run.scenario == CHANNEL_WAY:
            found += _against_broker(run, results.find(BROKER_WAY, run.triggers, run.load))
        elif run.scenario == INGRESS:
            found += _ingress_against_kafka(run, results.find(KAFKA, 1, run.load))
    if (of := results.telling) is not None:
        found.append(Ratio("one loop, CPU µs/delivery: telemetry over none", of.with_us, of.without_us, of.ratio))
    return [*found, *_switched(results), *_tracing(results)]


def dispatch_cpu(run: Run) -> float:
    """CPU microseconds per event of all that stands between Kafka and the subscribers."""
    return round(sum(run.cpu_us_per_event.get(group, 0.0) for group in DISPATCH_GROUPS), 1)


def _against_consumer(run: Run, other: Run | None) -> Iterator[Ratio]:
    if other is None:
        return
    name = f"{run.triggers} trigger{'s' if run.triggers > 1 else ''}, {run.load}"
    if run.load == FULL:
        deliveries = run.deliveries_per_second, other.deliveries_per_second
        yield _ratio(f"{name}: deliveries/s over simple consumer", *deliveries)
    else:
        yield _ratio(f"{name}: whole way p50 over simple consumer", run.whole_way.p50, other.whole_way.p50)
        yield _ratio(f"{name}: whole way p99 over simple consumer", run.whole_way.p99, other.whole_way.p99)
    cpu = dispatch_cpu(run), other.cpu_us_per_event.get("consumer", 0.0)
    yield _ratio(f"{name}: dispatch CPU µs/event over simple consumer", *cpu)


def _against_kafka(run: Run, other: Run | None) -> Iterator[Ratio]:
    if other is None:
        return
    if run.load == FULL:
        yield _ratio(
            f"{run.load}: events/s end to end over kafka alone", run.events_per_second, other.events_per_second
        )
    else:
        yield _ratio(f"{run.load}: whole way p50 over kafka alone", run.whole_way.p50, other.whole_way.p50)
        yield _ratio(f"{run.load}: whole way p99 over kafka alone", run.whole_way.p99, other.whole_way.p99)


def _against_broker(run: Run, other: Run | None) -> Iterator[Ratio]:
    if other is not None:
        yield _ratio(f"channel, {run.load}: whole way p50 over broker", run.whole_way.p50, other.whole_way.p50)
        yield _ratio(f"channel, {run.load}: whole way p99 over broker", run.whole_way.p99, other.whole_way.p99)


def _ingress_against_kafka(run: Run, other: Run | None) -> Iterator[Ratio]:
    if other is None:
        return
    if run.load == FULL:
        rates = run.acknowledged_per_second, other.acknowledged_per_second
        yield _ratio(f"{run.load}: acknowledged/s over kafka alone", *rates)
    else:
        yield _ratio(f"{run.load}: ingress p50 over kafka's acknowledgement", run.ingress.p50, other.ingress.p50)


def _ratio(what: str, penstock: float, baseline: float) -> Ratio:
    return Ratio(what, penstock, baseline, round(penstock / baseline, 2) if baseline else 0.0)


def _share(results: Results, scenario: str) -> float | None:
    filtered, plain = results.events_per_second(scenario), results.events_per_second(without(scenario))
    return round(filtered / plain, 2) if filtered and plain else None


def _disturbed(results: Results) -> float | None:
    load = "200/s"
    before, beside = results.find(UNDISTURBED, 9, load), results.find(BESIDE_HANGING, 9, load)
    return round(beside.whole_way.p99 / before.whole_way.p99, 2) if before and beside else None


def _spoilt(results: Results) -> float | None:
    return results.hour.missing + results.hour.out_of_order if results.hour else None


def _beside(results: Results, scenario: str) -> float | None:
    before, beside = results.find(HOUR_BEFORE, 3, "200/s"), results.find(scenario, 3, "200/s")
    return round(beside.whole_way.p99 / before.whole_way.p99, 2) if before and beside else None


def _over_estimate(results: Results) -> float | None:
    measured, estimated = results.hanging_worker_megabytes, results.hanging_estimate_megabytes
    return round(measured / estimated, 2) if measured and estimated else None


def _batched(results: Results, whom: str = "") -> float | None:
    batched, single = results.drain_rate(BATCHES + whom), results.drain_rate(UNORDERED + whom)
    return round(batched / single, 2) if batched and single else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _per_receiver(run: Run) -> float:
    memory = run.memory.get("receiver")
    return round(run.acknowledged_per_second / (memory.processes if memory else 1), 1)


def _receiver_memory(results: Results) -> float | None:
    sizes = [memory.largest for run in results.runs if (memory := run.memory.get("receiver"))]
    return max(sizes, default=None)


def _idle(results: Results, when: str) -> Idle | None:
    return next((idle for idle in results.idle if idle.when == when), None)


def _at_most(what: str, bound: float, measured: float | None) -> Target:
    return Target(what, f"≤ {bound:,}", measured, None if measured is None else measured <= bound)


def _at_least(what: str, bound: float, measured: float | None) -> Target:
    return Target(what, f"≥ {bound:,}", measured, None if measured is None else measured >= bound)
