"""What seeing costs: two systems that differ in one setting, under the same load in turns, so that a slow phase of
the machine meets both."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from bench.measure import Arrangement, Bench, Offer, measure, warm_up
from bench.model import WITH_TELEMETRY, WITHOUT_TELEMETRY
from bench.system import System, broker, trigger

NAME = "costs"
TRIGGERS = 10


def telemetry(bench: Bench) -> None:
    """Counting, durations and the log of every attempt, against none of it."""
    in_turns(bench, {WITHOUT_TELEMETRY: {"PENSTOCK_TELEMETRY": "off"}, WITH_TELEMETRY: {}})


def in_turns(bench: Bench, ways: Mapping[str, Mapping[str, str]], triggers: int = TRIGGERS) -> None:
    """By the name of a way, the environment of its system. Every way gets each load as often as the others."""
    with ExitStack() as stack:
        benches, arrangements = {}, {}
        for way, environment in ways.items():
            with bench.step(f"penstock up, {way}"):
                system = stack.enter_context(System(bench.system.keep, environment))
                system.apply(
                    broker(NAME), *(trigger(f"{NAME}-{n}", NAME, bench.sink.url(n)) for n in range(triggers))
                )
            benches[way] = replace(bench, system=system)
            arrangements[way] = Arrangement(way, triggers, system.address(NAME))
        for way, arrangement in arrangements.items():
            benches[way].last_run = bench.last_run = bench.last_run + 2
            warm_up(benches[way], arrangement, bench.profile.warm_seconds / 2)
        full = Offer(seconds=bench.profile.full_seconds, events=bench.profile.full_events_ten // 2)
        for _ in range(bench.profile.cost_rounds):
            for way, arrangement in arrangements.items():
                benches[way].last_run = bench.next_run()
                measure(benches[way], arrangement, full)
