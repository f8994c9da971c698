"""What telemetry costs: ten triggers in one running system, which is compared with itself.

The whole way is a closed loop (``circle.py``) that takes all the machine has, and telemetry is switched off and on
in it every few seconds. Off means (``switch/``): receivers and workers count, time and log nothing, so that the
controller has nothing to add up, and it does not look at Kafka either. Two systems that are the same differ by more
than all this costs, and so do minutes and seconds of a shared machine, for all processes alike. So there are many
turns, and the processor time that generator and sink take for an event, whose work is always the same, says how
slow the machine was in each. Called by ``scenarios.py``.
"""

import contextlib
import os
import signal
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from bench import telling
from bench.children import Circle
from bench.measure import Bench, per_event
from bench.model import Turn
from bench.system import System, SystemFailed, broker, trigger
from bench.turns import is_on
from penstock.telemetry.metrics import ATTEMPTS

NAME = "seen"
TRIGGERS = 10
UNDER_WAY = 200  # events: enough for all to be busy, too few for a backlog
SWITCH = Path(__file__).parent / "switch"
SWITCHED = ("receiver", "workers", "controller")
TOLD_SECONDS = 1.1  # after a switch: workers tell once a second what they had noted before
SETTLED_SECONDS = 2.5  # until the controller has heard of it too
TOLD_SHARE = (0.4, 0.6)  # of what arrived: half of the turns


def telemetry(bench: Bench) -> None:
    """Counting, durations, the log of every attempt and the looks at Kafka, against none of it."""
    with bench.step("one loop, telling and not"):
        bench.results.telling = telling.cost(bench.sink, bench.next_run(), bench.profile.telling_turns)
    with ExitStack() as stack:
        with bench.step("penstock up, with a switch"):
            path = os.pathsep.join(filter(None, (str(SWITCH), os.environ.get("PYTHONPATH"))))
            system = stack.enter_context(System(bench.system.keep, {"PYTHONPATH": path}))
            circle = stack.enter_context(Circle())
            system.apply(broker(NAME), *(trigger(f"{NAME}-{n}", NAME, circle.url(n)) for n in range(TRIGGERS)))
        with bench.step("warm up"):
            circle.start(system.address(NAME), bench.next_run(), TRIGGERS, UNDER_WAY)
            time.sleep(bench.profile.warm_seconds / 2)
        number = bench.profile.switch_turns
        with bench.step(f"{number} turns of {bench.profile.switch_seconds:g} s, without telemetry and with it"):
            _take_turns(bench, system, circle)


def _take_turns(bench: Bench, system: System, circle: Circle) -> None:
    told, first = _told(system), circle.look()
    try:
        for number in range(bench.profile.switch_turns):
            _switch(system, to=is_on(number))
            time.sleep(TOLD_SECONDS)
            bench.results.turns.append(_turn(system, circle, number, bench.profile.switch_seconds))
    finally:
        _switch(system, to=True)
    last = circle.look()
    time.sleep(SETTLED_SECONDS)
    share = (_told(system) - told) / (last.arrived - first.arrived)
    if last.refused:
        raise SystemFailed(f"{last.refused} events were refused")
    if not TOLD_SHARE[0] < share < TOLD_SHARE[1]:
        raise SystemFailed(f"{share:.0%} of all attempts were told, though telemetry was on half of the time")


def _turn(system: System, circle: Circle, number: int, seconds: float) -> Turn:
    before, began = system.snapshot(), circle.look()
    time.sleep(seconds)
    after, ended = system.snapshot(), circle.look()
    events = (ended.arrived - began.arrived) / TRIGGERS
    if not events:
        raise SystemFailed(f"nothing arrived for {seconds:g} s")
    cpu = per_event(after.cpu_since(before), events)
    ends = (ended.cpu_seconds - began.cpu_seconds) / events * 1e6
    return Turn(is_on(number), round(events / (ended.time - began.time), 1), cpu, round(ends, 2))


def _switch(system: System, *, to: bool) -> None:
    for process in system.snapshot().processes.values():
        with contextlib.suppress(ProcessLookupError):  # a worker that has just ended
            if process.group in SWITCHED:
                os.kill(process.pid, signal.SIGUSR2 if to else signal.SIGUSR1)


def _told(system: System) -> int:
    """Attempts that the controller has heard of."""
    with urllib.request.urlopen(f"{system.server}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(ATTEMPTS.name + "{")))
