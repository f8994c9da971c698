"""Which share of its processor time Penstock spends on being seen, found by sampling it under load.

Two systems side by side differ by more than telemetry costs, for reasons of the machine; samples of one system do not
care how fast the machine is just now. What it leaves out: Kafka's part, some ten records a second, and the threads
of its client. Calls py-spy, one for each process; called by ``costs.py``.
"""

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from bench.processes import Snapshot
from bench.system import SystemFailed
from penstock.cli.dumps import py_spy

GROUPS = ("workers", "receiver", "controller", "dispatcher")
SAMPLES_PER_SECOND = 100
LATE_SECONDS = 60.0
Result = TypeVar("Result")
# Everything that is not called, or has nothing to do, when telemetry is off.
OF_TELEMETRY = re.compile(
    r"penstock/(delivery/tally|receiver/tally|pipeline/delivery_counts|kafka/telemetry|contract/telemetry"
    r"|control/telemetry|telemetry/\w+)\.py|_received \(penstock/pipeline/handover\.py"
)


class Samples:
    """By group of processes: how often they were seen at work, and how often at telling."""

    def __init__(self) -> None:
        self.all: Counter[str] = Counter()
        self.telling: Counter[str] = Counter()

    def add(self, group: str, lines: Iterable[str]) -> None:
        """Lines of py-spy's raw format: a stack, and how often it was seen."""
        for line in lines:
            stack, _, times = line.rpartition(" ")
            self.all[group] += int(times)
            if OF_TELEMETRY.search(stack):
                self.telling[group] += int(times)

    def share(self, cpu: Mapping[str, float]) -> float:
        """Of all processor time, given what each group has taken, also those that were not sampled."""
        told = sum(cpu.get(group, 0.0) * self.telling[group] / seen for group, seen in self.all.items() if seen)
        return told / sum(cpu.values())


def sampled(processes: Snapshot, seconds: float, load: Callable[[], Result]) -> tuple[Result, Samples]:
    """What the load gives, and what the processes were seen at meanwhile."""
    samples = Samples()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        running = []
        for each in processes.processes.values():
            if each.group in GROUPS:
                raw = folder / f"{each.pid}.txt"
                command = (py_spy(), "record", "--pid", str(each.pid), "--format", "raw", "--output", str(raw))
                often = ("--rate", str(SAMPLES_PER_SECOND), "--duration", str(int(seconds)), "--nonblocking")
                process = subprocess.Popen(command + often, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                stack.callback(process.kill)
                running.append((each.group, raw, process))
        result = load()
        for group, raw, process in running:
            if process.wait(seconds + LATE_SECONDS) == 0 and raw.is_file():  # of one that has ended there is nothing
                samples.add(group, raw.read_text().splitlines())
    if not samples.all["workers"]:
        raise SystemFailed(
            "py-spy has seen no worker at work; it needs to be root, or the same user with ptrace allowed"
        )
    return result, samples
