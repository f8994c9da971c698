"""`python -m bench.versions CHECKOUT`: CPU per event of this version beside the one in another checkout.

Three systems run at once: the other version (A), this one (B), and the other version again (A'). In a round the same
load goes to A, B, B and A' in turn; every second round begins with A'. So a phase in which the machine is slow meets
both versions, and A against A' shows by how much two systems that are the same differ. The other checkout needs
`make setup`. The table goes to stdout, one JSON document to ``bench/results``.
"""

import argparse
import contextlib
import datetime
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.children import Sink
from bench.measure import Arrangement, Bench, Offer, measure, warm_up
from bench.model import Results
from bench.profile import WHOLE
from bench.report import RESULTS_DIR, WIDTH
from bench.system import System, broker, trigger

OTHER, THIS, OTHER_AGAIN = "A", "B", "A'"
PENSTOCK_GROUPS = ("kafka", "receiver", "dispatcher", "dispatcher JVM", "workers", "controller", "supervisor")
OFFERS = (Offer(1000.0, 10.0), Offer(seconds=30.0, events=40_000))


@dataclass(frozen=True)
class Side:
    """A system under load."""

    bench: Bench
    arrangement: Arrangement


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.versions", description="CPU per event, version by version."
    )
    parser.add_argument("checkout", type=Path, help="a checkout of the other version, set up with `make setup`")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--triggers", type=int, default=1)
    arguments = parser.parse_args()
    python = arguments.checkout.absolute() / ".venv" / "bin" / "python"
    if not python.exists():
        parser.error(f"{python} does not exist: run `make setup` in {arguments.checkout}")
    pythons = {OTHER: str(python), THIS: sys.executable, OTHER_AGAIN: str(python)}
    rows = _measured(pythons, arguments.rounds, arguments.triggers)
    Console(width=WIDTH).print(_table(rows))
    _write(rows)
    return 0


def _measured(pythons: dict[str, str], rounds: int, triggers: int) -> list["Row"]:
    progress, now = Console(stderr=True), datetime.datetime.now(datetime.UTC)
    results = Results(date=now.isoformat(timespec="seconds"), quick=False, machine=machine.describe())
    taken: dict[tuple[str, str], list[float]] = {}
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(Sink())
        sides = {}
        for name, python in pythons.items():
            with progress.status(f"penstock up, {name}"):
                system = stack.enter_context(System(python=python))
                system.apply(
                    broker("versions"), *(trigger(f"v-{n}", "versions", sink.url(n)) for n in range(triggers))
                )
            bench = Bench(system, sink, WHOLE, results, progress)
            sides[name] = Side(bench, Arrangement(name, triggers, system.address("versions")))
        runs = 0
        for side in sides.values():
            side.bench.last_run = runs
            warm_up(side.bench, side.arrangement, WHOLE.warm_seconds / 2)
            runs = side.bench.last_run
        for number in range(rounds):
            first, last = (OTHER, OTHER_AGAIN) if number % 2 == 0 else (OTHER_AGAIN, OTHER)
            for offer in OFFERS:
                for name in (first, THIS, THIS, last):
                    bench = replace(sides[name].bench, last_run=runs)
                    run = measure(bench, sides[name].arrangement, offer)
                    runs = bench.last_run
                    if run.missing:
                        raise SystemExit(f"{name}: {run.missing} deliveries of acknowledged events are missing")
                    spent = sum(run.cpu_us_per_event.get(group, 0.0) for group in PENSTOCK_GROUPS)
                    taken.setdefault((offer.label, name), []).append(spent)
    return [_row(offer.label, taken) for offer in OFFERS]


class Row(msgspec.Struct, frozen=True):
    """What one load costs, in microseconds of processor time per event."""

    load: str
    before: float
    after: float
    ratio: float  # the median over the rounds of B over A
    ratios: list[float]
    same: float  # the median of A' over A
    same_ratios: list[float]


def _row(load: str, taken: dict[tuple[str, str], list[float]]) -> Row:
    one, again, this = taken[load, OTHER], taken[load, OTHER_AGAIN], taken[load, THIS]
    pairs = [(this[2 * n] + this[2 * n + 1]) / 2 for n in range(len(one))]
    ratios = [round(new / ((a + b) / 2), 4) for new, a, b in zip(pairs, one, again, strict=True)]
    same = [round(b / a, 4) for a, b in zip(one, again, strict=True)]
    return Row(
        load, round(statistics.median([*one, *again]), 1), round(statistics.median(this), 1),
        statistics.median(ratios), ratios, statistics.median(same), same,
    )  # fmt: skip


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="CPU per event, all processes of Penstock", title_justify="left")
    for heading in (
        "load",
        "before, µs",
        "after, µs",
        "after/before: median (range)",
        "the same twice: median (range)",
    ):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            row.load, f"{row.before:.0f}", f"{row.after:.0f}",
            f"{row.ratio:.3f} ({min(row.ratios):.3f} to {max(row.ratios):.3f})",
            f"{row.same:.3f} ({min(row.same_ratios):.3f} to {max(row.same_ratios):.3f})",
        )  # fmt: skip
    return table


def _write(rows: Sequence[Row]) -> None:
    now = datetime.datetime.now(datetime.UTC)
    document = {"date": now.isoformat(timespec="seconds"), "machine": machine.describe(), "rows": rows}
    RESULTS_DIR.mkdir(exist_ok=True)
    path = RESULTS_DIR / f"{now:%Y-%m-%d}-versions.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    print(f"written: {path.name} in bench/results", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
