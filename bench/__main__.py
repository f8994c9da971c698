"""`python -m bench [--quick] [--only NAME …]`: runs the benchmark, shows the tables, writes the JSON file.

Progress goes to stderr, tables to stdout. Exit codes: 0 measured (whether or not targets are met), 1 something failed
or acknowledged events are missing, 130 interrupted. Whatever happens, everything that was started is stopped.
"""

import argparse
import contextlib
import datetime
import signal
import sys
import time

from rich.console import Console
from rich.markup import escape

from bench import machine, report
from bench.children import ChildFailed, Sink
from bench.measure import Bench
from bench.model import Results
from bench.profile import QUICK, WHOLE, Profile
from bench.scenarios import SCENARIOS, generator
from bench.system import System, SystemFailed
from bench.targets import ratios, targets
from penstock.errors import PenstockError

GENERATOR_ONLY = "generator"  # it is part of every run; alone it needs no Penstock


def main() -> int:
    arguments = _arguments()
    progress = Console(stderr=True)
    # As Ctrl-C, so that everything is stopped on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = Results(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        quick=arguments.quick,
        machine=machine.describe(),
    )
    code = _run(arguments, results, progress)
    if code == 130:
        return code
    results.ratios, results.targets = ratios(results), targets(results)
    table_console = Console()
    if table_console.width < report.WIDTH:
        table_console = Console(width=report.WIDTH)
    report.show(results, table_console)
    if code == 0:
        suffix = "-partial" if arguments.only else "-quick" if arguments.quick else ""
        progress.print(f"written: {report.write(results, suffix).name} in bench/results")
    return code


def _run(arguments: argparse.Namespace, results: Results, progress: Console) -> int:
    began = time.monotonic()
    try:
        _measure(arguments, results, progress)
    except KeyboardInterrupt:
        progress.print("[yellow]interrupted; everything is stopped[/]")
        return 130
    except (SystemFailed, ChildFailed, PenstockError, OSError) as error:
        progress.print("[red]failed:[/] " + escape(str(error)), highlight=False, soft_wrap=True)
        for note in getattr(error, "__notes__", []):
            progress.print(note, markup=False, highlight=False, soft_wrap=True)
        return 1
    finally:
        results.seconds = round(time.monotonic() - began, 1)
    missing = sum(run.missing for run in results.runs)
    if missing:
        progress.print(f"[red]failed:[/] {missing} deliveries of acknowledged events are missing")
        return 1
    return 0


def _measure(arguments: argparse.Namespace, results: Results, progress: Console) -> None:
    profile: Profile = QUICK if arguments.quick else WHOLE
    chosen = [name for name in SCENARIOS if not arguments.only or name in arguments.only]
    with Sink() as sink:
        results.runs.append(generator(sink, profile))
        progress.print(
            f"[green]✓[/] generator to bare sink: {results.runs[0].acknowledged_per_second:,.0f} requests/s"
        )
        if not chosen:
            return
        with contextlib.ExitStack() as stack:
            with progress.status("penstock up"):
                system = stack.enter_context(System(arguments.keep))
            progress.print(f"[green]✓[/] penstock up: ready in {system.up_seconds:.1f} s")
            results.up_seconds = round(system.up_seconds, 1)
            results.machine = machine.describe(system.snapshot())
            bench = Bench(system, sink, profile, results, progress)
            for name in chosen:
                SCENARIOS[name](bench)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures Penstock beside two baselines.")
    parser.add_argument("--quick", action="store_true", help="a short look, about a minute and a half")
    parser.add_argument(
        "--only",
        action="append",
        choices=[GENERATOR_ONLY, *SCENARIOS],
        metavar="NAME",
        help=f"only this scenario, may be repeated: {', '.join([GENERATOR_ONLY, *SCENARIOS])}",
    )
    parser.add_argument("--keep", action="store_true", help="leave the data directory, with its logs, where it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
