"""``penstock jobs …``: work in the background, its progress and end. ``deadletters redrive`` watches its job here.

A watch only looks: Ctrl-C leaves the job running and says how to go on watching, or to cancel it.
"""

import sys
import time
from typing import Annotated, Any

import typer

from penstock.cli import options
from penstock.cli.output import Column, say, show, show_json, show_table
from penstock.visible import visible_line

jobs = typer.Typer(rich_markup_mode=None, add_completion=False)

COLUMNS = (
    Column("ID"),
    Column("KIND", 20),
    Column("STATE"),
    Column("SENT", right=True),
    Column("OF", right=True),
    Column("TARGET", 50, shorten=True),
    Column("STARTED", 30),
    Column("ENDED", 10),
)
LOOK_SECONDS = 0.2
PLAIN_EVERY_SECONDS = 5.0
ACTIVE = ("waiting", "running")

Id = Annotated[str, typer.Argument(metavar="ID", help="Of the job.")]


@jobs.callback(invoke_without_command=True)
def every(
    context: typer.Context,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Work in the background: what runs, how far it is, and cancelling it.

    \b
    penstock jobs
    penstock jobs show 1f2e3d4c -w
    penstock jobs cancel 1f2e3d4c
    """
    if context.invoked_subcommand is None:
        listing(output, server)


@jobs.command("list")
def listing(output: options.PlainOutput = "table", server: options.Server = options.DEFAULT_SERVER) -> None:
    """The jobs since the controller started, the newest first.

    \b
    penstock jobs list
    penstock jobs list -o json
    """
    from penstock.cli.client import Client

    options.checked(output, "table", "json")
    found = Client(server).get("/api/penstock/jobs")
    if output == "json":
        show_json(found)
    elif not found:
        say("there are no jobs; `penstock deadletters redrive` starts one")
    else:
        show_table(COLUMNS, [_row(job) for job in found])


@jobs.command("show")
def show_one(
    id_: Id,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Until it has ended.")] = False,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """How far a job is.

    \b
    penstock jobs show 1f2e3d4c
    penstock jobs show 1f2e3d4c -w
    """
    from penstock.cli.client import Client

    options.checked(output, "table", "json")
    client = Client(server)
    job = client.get(f"/api/penstock/jobs/{id_}")
    tell(watched(client, job) if watch else job, output)


@jobs.command()
def cancel(id_: Id, output: options.PlainOutput = "table", server: options.Server = options.DEFAULT_SERVER) -> None:
    """Ends a job. What it has sent stays sent.

    \b
    penstock jobs cancel 1f2e3d4c
    """
    from penstock.cli.client import Client

    options.checked(output, "table", "json")
    client = Client(server)
    client.post(f"/api/penstock/jobs/{id_}/cancel", {})
    tell(watched(client, client.get(f"/api/penstock/jobs/{id_}")), output)


def watched(client: Any, job: dict[str, Any]) -> dict[str, Any]:
    """The job once it has ended, with a bar on stderr meanwhile."""
    progress = _Bar(job) if sys.stderr.isatty() else _Lines(job)
    try:
        with progress:
            while job["state"] in ACTIVE:
                time.sleep(LOOK_SECONDS)
                job = client.get(f"/api/penstock/jobs/{job['id']}")
                progress.update(job)
    except KeyboardInterrupt:
        say(f"\njob {job['id']} goes on: {job['sent']} of {job['plan']['count']} are sent")
        say(f"hint: `penstock jobs show {job['id']} -w` watches it, `penstock jobs cancel {job['id']}` ends it")
        raise
    return job


def tell(job: dict[str, Any], output: str) -> None:
    if output == "json":
        show_json(job)
        return
    targets = ", ".join(f"{each['key']} at {each['subscriber'] or 'nobody'}" for each in job["plan"]["target"])
    rate = job["plan"]["rate"]
    facts = {
        "Job": f"{job['id']} ({job['kind']})",
        "State": job["state"] + (f": {job['error']}" if job["error"] else ""),
        "Sent": f"{job['sent']} of {job['plan']['count']}",
        "Target": targets,
        "Rate": f"{rate:g} a second" if rate else "no limit",
        "Reached": job["event_time"] or "-",
        "Started": job["started"] or f"not before {job['starts']}",
        "Ended": job["ended"] or "-",
    }
    for name, value in facts.items():
        show(f"{name + ':':<10}{visible_line(value)}")


class _Bar:
    """For a person."""

    def __init__(self, job: dict[str, Any]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, TextColumn("{task.fields[reached]}"), console=Console(stderr=True))
        self._task = self._bars.add_task("Sending again", total=job["plan"]["count"], reached="")

    def __enter__(self) -> "_Bar":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def update(self, job: dict[str, Any]) -> None:
        done = job["sent"] + job["passed_by"]
        self._bars.update(self._task, completed=done, reached=job["event_time"] or "")


class _Lines:
    """For a log: a line now and then, and none when it is quick."""

    def __init__(self, _job: dict[str, Any]) -> None:
        self._due = time.monotonic() + PLAIN_EVERY_SECONDS

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, job: dict[str, Any]) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + PLAIN_EVERY_SECONDS
            say(f"sent again: {job['sent']} of {job['plan']['count']}, up to {job['event_time'] or 'the first'}")


def _row(job: dict[str, Any]) -> list[str]:
    targets = ", ".join(each["key"] for each in job["plan"]["target"])
    return [
        job["id"], job["kind"], job["state"], str(job["sent"]), str(job["plan"]["count"]), targets,
        job["started"] or "-", job["ended"] or "-",
    ]  # fmt: skip
