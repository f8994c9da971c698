"""CPU time and memory of Penstock's processes, read from /proc (Linux).

Comes in: a marker (the data directory of this run, which stands on the command line or in the environment of what
``up`` starts) and pids of the benchmark's own helpers. Goes out: a Snapshot; two of them give the CPU time between.
Called by ``system.py``.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.model import Memory

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
OTHER = "other"


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    started: int  # with the pid it names a process for good
    cpu_seconds: float
    arguments: tuple[str, ...]
    marked: bool = False
    group: str = OTHER


@dataclass(frozen=True)
class Snapshot:
    processes: Mapping[tuple[int, int], Process] = field(default_factory=dict)

    def cpu_since(self, before: "Snapshot") -> dict[str, float]:
        """Seconds by group. What a process did that began and ended in between is not seen."""
        seconds: dict[str, float] = defaultdict(float)
        for key, process in self.processes.items():
            earlier = before.processes.get(key)
            seconds[process.group] += process.cpu_seconds - (earlier.cpu_seconds if earlier else 0.0)
        return dict(seconds)

    def memory(self) -> dict[str, Memory]:
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for process in self.processes.values():
            if (sizes := _memory_of(process.pid)) is not None:
                found[process.group].append(sizes)
        return {
            group: Memory(
                processes=len(sizes),
                resident=round(sum(resident for resident, _ in sizes), 1),
                proportional=round(sum(proportional for _, proportional in sizes), 1),
                largest=round(max(resident for resident, _ in sizes), 1),
            )
            for group, sizes in found.items()
        }

    def first(self, group: str) -> Process | None:
        return next((p for p in self.processes.values() if p.group == group), None)


def snapshot(marker: str, helpers: Mapping[int, str] | None = None) -> Snapshot:
    """All processes that carry the marker, all that descend from them, and the helpers under the names given."""
    everything = {process.pid: process for process in _all(marker.encode())}
    helpers = helpers or {}
    chosen = {}
    for process in everything.values():
        if process.pid in helpers:
            group = helpers[process.pid]
        elif process.pid != os.getpid() and _belongs(process, everything):
            group = _group(process, everything)
        else:
            continue
        chosen[process.pid, process.started] = replace(process, group=group)
    return Snapshot(chosen)


def classify(arguments: Iterable[str]) -> str:
    """The group of a process by its command line alone."""
    words = list(arguments)
    if "kafka.Kafka" in words:
        return "kafka"
    if any("SparkSubmit" in word for word in words):
        return "dispatcher JVM"
    if any("pyspark.daemon" in word or "pyspark.worker" in word or "pyspark/daemon" in word for word in words):
        return "workers"
    for part in ("receiver", "dispatcher", "controller"):
        if part in words:
            return part
    return "supervisor" if "up" in words else OTHER


def _group(process: Process, everything: Mapping[int, Process]) -> str:
    """A process that says nothing of itself (a fork, a helper) counts with the one that started it."""
    seen = process
    while (group := classify(seen.arguments)) == OTHER and seen.parent in everything:
        seen = everything[seen.parent]
    return group


def _belongs(process: Process, everything: Mapping[int, Process]) -> bool:
    seen: Process | None = process
    while seen is not None and seen.pid not in (1, os.getpid()):
        if seen.marked:
            return True
        seen = everything.get(seen.parent)
    return False


def _all(marker: bytes) -> Iterable[Process]:
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (process := _read(entry, marker)) is not None:
            yield process


def _read(entry: Path, marker: bytes) -> Process | None:
    try:
        # The name in brackets may hold spaces and brackets; the fields are counted behind the last one.
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        arguments = (entry / "cmdline").read_bytes()
    except OSError:
        return None
    ticks = int(fields[11]) + int(fields[12])
    return Process(
        pid=int(entry.name),
        parent=int(fields[1]),
        started=int(fields[19]),
        cpu_seconds=ticks / TICKS_PER_SECOND,
        arguments=tuple(arguments.decode(errors="replace").rstrip("\0").split("\0")),
        marked=marker in arguments or marker in _environment(entry),
    )


def _environment(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:  # somebody else's process, or gone
        return b""


def _memory_of(pid: int) -> tuple[float, float] | None:
    """Resident and proportional size in MB; None when the process has gone."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    kilobytes = {line.split(":")[0]: line.split()[1] for line in lines[1:] if ":" in line}
    return int(kilobytes.get("Rss", 0)) / 1024, int(kilobytes.get("Pss", 0)) / 1024
