"""The benchmark's own arithmetic: a wrong percentile would be believed by everybody."""

import pytest
from bench.latency import Latency, percentile, summarize
from bench.load import LoadResult
from bench.measure import Arrangement, combine, per_event
from bench.model import (
    AGAIN,
    FULL,
    INGRESS,
    PENSTOCK,
    TEN_TERMS,
    WITH_TRACES,
    WITHOUT_TRACES,
    Machine,
    Memory,
    Results,
    Run,
    Turn,
    without,
)
from bench.processes import Process, Snapshot, classify
from bench.sink import Lane, SinkStats
from bench.targets import ratios, targets
from bench.telling import summed_up
from bench.turns import compared, is_on

MILLISECOND = 1_000_000
MACHINE = Machine(cores=2, cpu="", memory_gb=1.0, system="", versions={})


def test_percentiles_are_values_that_occurred_and_not_a_rank_too_far() -> None:
    ordered = list(range(1, 1001))
    assert [percentile(ordered, p) for p in (50, 99, 99.9, 100)] == [500, 990, 999, 1000]
    assert percentile([7], 50) == percentile([7], 99.9) == 7


def test_latencies_are_given_in_milliseconds() -> None:
    found = summarize(n * MILLISECOND for n in (3, 1, 2))
    assert found == Latency(count=3, p50=2.0, p99=3.0, p99_9=3.0, worst=3.0, mean=2.0)
    assert summarize([]) == Latency()


def test_an_event_that_comes_twice_counts_once_and_is_reported() -> None:
    lane = Lane()
    for number in (0, 5000, 0):
        lane.record(number, sent_ns=100, now_ns=300)
    assert list(lane.latencies) == [200, 200]
    assert lane.duplicates == 1


def test_whole_way_throughput_counts_from_the_first_send_to_the_last_arrival() -> None:
    second = 1000 * MILLISECOND
    load = LoadResult(1000, 1000, {"202": 1000}, 2.0, 500.0, Latency(), 0.0, 10 * second, 12 * second, 0.1)
    stats = SinkStats(lanes=10, arrivals=9991, distinct=9990, duplicates=1, last_arrival_ns=15 * second)
    run = combine(Arrangement(PENSTOCK, 10, ""), FULL, load, stats)
    assert (run.events_per_second, run.deliveries_per_second) == (199.8, 1998.0)
    assert (run.drain_seconds, run.missing, run.duplicates) == (3.0, 10, 1)


def test_cpu_time_is_what_was_used_between_two_looks() -> None:
    def look(**seconds: float) -> Snapshot:
        pids = {"old": 1, "new": 2}
        return Snapshot({(pids[n], 0): Process(pids[n], 0, 0, s, (), group="workers") for n, s in seconds.items()})

    used = look(old=7.5, new=0.5).cpu_since(look(old=5.0))
    assert used == {"workers": 3.0}
    assert per_event(used, 1000) == {"workers": 3000.0}


def test_processes_are_told_apart_by_their_command_lines() -> None:
    assert classify(["java", "-Xmx1g", "kafka.Kafka", "server.properties"]) == "kafka"
    assert classify(["java", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]) == "dispatcher JVM"
    assert classify(["python", "-m", "pyspark.daemon"]) == "workers"
    assert classify(["python", "-m", "penstock.cli.main", "receiver"]) == "receiver"
    assert classify(["penstock", "up", "--detach"]) == "supervisor"


def test_targets_say_yes_no_or_not_run() -> None:
    receiver = {"receiver": Memory(processes=1, resident=90.0, proportional=60.0, largest=90.0)}
    ingress = Run(
        scenario=INGRESS,
        triggers=0,
        load=FULL,
        sent=1,
        acknowledged=1,
        codes={},
        ingress=Latency(),
        acknowledged_per_second=9000.0,
        memory=receiver,
    )
    results = Results(date="", quick=True, machine=MACHINE, runs=[ingress])
    met = {target.what: target.met for target in targets(results)}
    assert met["receiver, acknowledged events/s of a process"] is True
    assert met["receiver, largest process, MB resident"] is False
    assert met["whole way at 1,000/s, p50, ms"] is None


def test_a_filter_is_compared_with_the_turns_beside_it() -> None:
    def turn(scenario: str, seconds: float) -> Run:
        rate = 1000 / seconds
        return Run(
            scenario=scenario, triggers=1, load=FULL, sent=1000, acknowledged=1000, codes={}, ingress=Latency(),
            acknowledged_per_second=0.0, deliveries=1000, events_per_second=rate, deliveries_per_second=rate,
        )  # fmt: skip

    plain = without(TEN_TERMS)
    runs = [turn(PENSTOCK, 9.0), turn(plain, 1.0), turn(TEN_TERMS, 2.0), turn(TEN_TERMS, 2.0), turn(plain, 2.0)]
    results = Results(date="", quick=True, machine=MACHINE, runs=runs)
    measured = {target.what: target.measured for target in targets(results)}
    assert measured["ten-term CESQL filter, events/s over no filter"] == 0.75
    assert measured["1,000 exact filters, events/s over one trigger"] is None


def test_turns_of_telling_are_paired_with_their_neighbours() -> None:
    found = summed_up([50.0, 51.0, 102.0, 100.0, 60.0, 63.0])
    assert (found.without_us, found.with_us, found.ratio) == (60.0, 63.0, 1.02)


def test_telemetry_is_compared_turn_by_turn() -> None:
    """Neighbours in time, so a machine that gets slower favours nobody; turns go off, on, on, off. In the last pair
    it is half as fast with telemetry, for generator and sink too."""
    rates = [1000.0, 980.0, 490.0, 500.0, 100.0, 49.0]
    ends = [10.0, 10.0, 10.0, 10.0, 10.0, 20.0]
    turns = [Turn(is_on(n), rate, {"workers": 1e5 / rate}, ends[n]) for n, rate in enumerate(rates)]
    results = Results(date="", quick=True, machine=MACHINE, turns=turns)
    measured = {target.what: target.measured for target in targets(results)}
    assert measured["telemetry on, events/s over off"] == 0.98
    assert measured["telemetry on, CPU time per event over off"] == 1.0204
    assert [each.what for each in ratios(results)] == [
        "telemetry on over off, events/s (± 0.231 in 3 pairs)",
        "telemetry on over off, CPU µs/event (± 0.231 in 3 pairs)",
        "telemetry on over off, events/s, on a machine that is always as fast (± 0.000 in 3 pairs)",
        "telemetry on over off, CPU µs/event, on a machine that is always as fast (± 0.000 in 3 pairs)",
        "telemetry on over off, CPU µs/event of workers",
    ]


def test_who_stands_still_without_telemetry_is_shown_too() -> None:
    turns = [Turn(is_on(n), 100.0, {"controller": 7.0 * is_on(n)}, 10.0) for n in range(8)]
    found = ratios(Results(date="", quick=True, machine=MACHINE, turns=turns))[-1]
    assert (found.what, found.penstock, found.baseline) == (
        "telemetry on over off, CPU µs/event of controller",
        7.0,
        0.0,
    )


def test_the_error_says_how_far_turns_differ() -> None:
    found = compared([100.0, 110.0, 90.0, 100.0])  # on is a tenth faster in one pair, a tenth slower in the other
    assert found is not None
    assert found.pairs == 2
    assert found.ratio == pytest.approx(0.995, abs=0.001)
    assert found.error == pytest.approx(0.1, abs=0.01)
    assert compared([100.0, 110.0]) is None


def test_what_traces_cost_is_compared_round_by_round() -> None:
    """The median of rounds, so one that was disturbed does not count; the same system again counts with the first."""

    def run(scenario: str, rate: float) -> Run:
        return Run(
            scenario=scenario, triggers=10, load=FULL, sent=1, acknowledged=1, codes={}, ingress=Latency(),
            acknowledged_per_second=0.0, events_per_second=rate, cpu_us_per_event={"workers": 1e5 / rate},
        )  # fmt: skip

    rounds = [(1000.0, 900.0, 1000.0), (500.0, 490.0, 500.0), (600.0, 10.0, 600.0)]
    ways = (WITHOUT_TRACES, WITH_TRACES, WITHOUT_TRACES + AGAIN)
    runs = [run(way, rate) for rates in rounds for way, rate in zip(ways, rates, strict=True)]
    results = Results(date="", quick=True, machine=MACHINE, runs=runs)
    measured = {target.what: target.measured for target in targets(results)}
    assert measured["1 % traced, events/s over nothing traced"] == 0.9
    assert measured["1 % traced, CPU time per event over nothing traced"] == 1.111
    assert measured["telemetry on, events/s over off"] is None
    assert any(each.what.startswith("1 % traced, events/s (mean") and each.ratio == 0.9 for each in ratios(results))
