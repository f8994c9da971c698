"""The results for people (tables on stdout) and for programs (a JSON file)."""

from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.latency import Latency
from bench.model import Results, Run

RESULTS_DIR = Path(__file__).parent / "results"
WIDTH = 160
GROUPS = (
    "receiver",
    "kafka",
    "dispatcher JVM",
    "workers",
    "dispatcher",
    "controller",
    "supervisor",
    "consumer",
    "producer",
    "reader",
    "generator",
    "sink",
)


def show(results: Results, console: Console) -> None:
    machine = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    console.print(f"\n{machine.cores} cores, {machine.cpu}, {machine.memory_gb:g} GB, {machine.system}; {versions}")
    console.print(_runs(results))
    console.print(_cpu(results))
    if results.idle:
        console.print(_idle(results))
    if any(run.memory for run in results.runs):
        console.print(_memory(results))
    if results.drains or results.hour:
        console.print(_drains(results))
    if results.ratios:
        console.print(_ratios(results))
    console.print(_targets(results))


def write(results: Results, suffix: str = "") -> Path:
    RESULTS_DIR.mkdir(exist_ok=True)
    path = RESULTS_DIR / f"{results.date[:10]}-{results.machine.cores}cores{suffix}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    return path


def _runs(results: Results) -> Table:
    table = Table(title="Latency in ms (p50 / p99 / p99.9) and throughput")
    for name in ("arrangement", "triggers", "load"):
        table.add_column(name, no_wrap=True)
    for name in ("ingress", "whole way", "acked/s", "events/s", "deliveries/s", "drain s", "twice", "missing"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in results.runs:
        table.add_row(
            run.scenario,
            str(run.triggers or "–"),
            run.load,
            _latency(run.ingress),
            _latency(run.whole_way),
            f"{run.acknowledged_per_second:,.0f}" + ("" if run.acknowledged == run.sent else " [red]*[/]"),
            _number(run.events_per_second),
            _number(run.deliveries_per_second),
            f"{run.drain_seconds:.1f}" if run.deliveries else "–",
            str(run.duplicates),
            f"[red]{run.missing}[/]" if run.missing else "0",
        )
    refused = [f"{r.scenario} {r.load}: {r.codes}" for r in results.runs if r.acknowledged != r.sent]
    table.caption = "* not all accepted: " + "; ".join(refused) if refused else None
    return table


def _cpu(results: Results) -> Table:
    used = [g for g in GROUPS if any(g in run.cpu_us_per_event for run in results.runs)]
    table = Table(title="CPU, µs per event")
    table.add_column("arrangement", no_wrap=True)
    for group in used:
        table.add_column(group, justify="right")
    for run in results.runs:
        table.add_row(_name(run), *(_number(run.cpu_us_per_event.get(group)) for group in used))
    return table


def _idle(results: Results) -> Table:
    table = Table(title="All of `up`, idle")
    for name in ("when", "% of a core", "resident MB", "proportional MB", "where the CPU goes"):
        table.add_column(name)
    for idle in results.idle:
        busiest = sorted(idle.core_percent_by_group.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{group} {percent:.1f}" for group, percent in busiest if percent >= 0.05)
        table.add_row(
            idle.when, f"{idle.core_percent:.1f}", f"{idle.resident:,.0f}", f"{idle.proportional:,.0f}", shares
        )
    return table


def _memory(results: Results) -> Table:
    """Of the last run that saw each group, and of the idle states: one column each."""
    columns = [(idle.when, idle.memory) for idle in results.idle]
    last = [run for run in results.runs if run.memory][-1]
    columns.append((_name(last), last.memory))
    table = Table(title="Memory, MB resident / proportional (processes)")
    table.add_column("processes", no_wrap=True)
    for title, _ in columns:
        table.add_column(title, justify="right")
    for group in GROUPS:
        sizes = [memory.get(group) for _, memory in columns]
        if any(sizes):
            cells = [f"{m.resident:,.0f} / {m.proportional:,.0f} ({m.processes})" if m else "–" for m in sizes]
            table.add_row(group, *cells)
    return table


def _drains(results: Results) -> Table:
    table = Table(title="Backlogs, from the first arrival to the last")
    table.add_column("trigger")
    for name in ("events", "seconds", "events/s", "twice", "missing", "out of order"):
        table.add_column(name, justify="right")
    for each in results.drains:
        figures = (f"{each.events:,}", f"{each.seconds:.1f}", f"{each.events_per_second:,.0f}", str(each.duplicates))
        table.add_row(each.variant, *figures)
    if hour := results.hour:
        rate = f"{hour.events / hour.drain_seconds:,.0f}" if hour.drain_seconds > 0 else "–"
        counts = (str(hour.twice), str(hour.missing), str(hour.out_of_order))
        table.add_row("ordered, after an hour down", f"{hour.events:,}", f"{hour.drain_seconds:.1f}", rate, *counts)
    return table


def _ratios(results: Results) -> Table:
    table = Table(title="Beside the baselines of this run")
    table.add_column("figure")
    for name in ("penstock", "baseline", "ratio"):
        table.add_column(name, justify="right")
    for ratio in results.ratios:
        table.add_row(ratio.what, f"{ratio.penstock:,.1f}", f"{ratio.baseline:,.1f}", f"{ratio.ratio:.3f}")
    return table


def _targets(results: Results) -> Table:
    table = Table(title="Targets (two cores, everything on one machine)")
    table.add_column("figure")
    for name in ("target", "measured", "met"):
        table.add_column(name, justify="right")
    words = {True: "[green]yes[/]", False: "[red]no[/]", None: "[dim]not run[/]"}
    for target in results.targets:
        measured = "–" if target.measured is None else f"{target.measured:,.2f}"
        table.add_row(target.what, target.target, measured, words[target.met])
    return table


def _name(run: Run) -> str:
    return f"{run.scenario}, {run.triggers}, {run.load}" if run.triggers else f"{run.scenario}, {run.load}"


def _latency(latency: Latency) -> str:
    if not latency.count:
        return "–"
    return " / ".join(
        f"{value:,.0f}" if value >= 100 else f"{value:.1f}" for value in (latency.p50, latency.p99, latency.p99_9)
    )


def _number(value: float | None) -> str:
    return f"{value:,.0f}" if value else "–"
