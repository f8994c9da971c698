"""``penstock explain``: received when and where, who wanted it, why the others did not, and what became of it."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from penstock.cli import complete, options
from penstock.cli.output import Column, coloured, say, show, show_json, show_table
from penstock.visible import visible_line

PATIENCE_SECONDS = 1.0  # before a bar is shown
COLUMNS = (
    Column("SUBSCRIPTION"),
    Column("OUTCOME"),
    Column("ATTEMPTS", 40, right=True),
    Column("BECAUSE", shorten=True),
)
COLOURS = {"DELIVERED": "green", "DEAD": "red", "RETRYING": "yellow", "HELD": "yellow"}


def explain(
    id_: Annotated[str | None, typer.Argument(metavar="[ID]", help="The id of the event.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="Its source.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Its subject.")] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            *("--namespace", "-n"),
            help="Only brokers and channels there.",
            metavar="NAME",
            autocompletion=complete.namespaces,
        ),
    ] = None,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Where is my event: partition and offset, a verdict of every subscription, each attempt, the dead letter.

    \b
    penstock explain 4711
    penstock explain 4711 --source /shop -o json
    penstock explain --subject order-17

    Without an id the newest events are shown that fit. Exits with 1 when there is none.
    """
    from penstock.cli.client import Client

    options.checked(output, "table", "json")
    if not (id_ or source or subject):
        raise typer.BadParameter("give an ID, or --source, or --subject")
    asked = {"id": id_, "source": source, "subject": subject, "namespace": namespace}
    query = urlencode({name: value for name, value in asked.items() if value})
    found, searched = _ask(Client(server), f"/api/penstock/explain?{query}")
    if not found:
        raise _nothing(id_, searched)
    for place, event in enumerate(found):
        if output == "json":
            show_json(event)
        else:
            if place:
                show("")
            _show(event)
    if searched and searched["more"]:
        say(f"these are the newest {len(found)} of {searched['matched']:,} or more; narrow it down with an ID")


def _ask(client: Any, path: str) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    from penstock.errors import Unavailable

    with _bar() as tell:
        for raw in client.lines(path):
            line = json.loads(raw)
            if "error" in line:
                raise Unavailable(visible_line(line["error"]), hint=line.get("hint"))
            if "found" in line:
                return line["found"], line["searched"]
            tell(line)
    raise Unavailable("the server ended the search", hint="`penstock status` shows how it is")


@contextmanager
def _bar() -> Iterator[Any]:
    """A bar on a terminal, once it takes longer than a moment; nothing elsewhere."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda line: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[counted]}"),
        TimeElapsedColumn(),
    )
    bars = Progress(*columns, console=Console(stderr=True), transient=True)
    began, task = time.monotonic(), bars.add_task("Searching", total=None, counted="")

    def tell(line: dict[str, Any]) -> None:
        if time.monotonic() - began > PATIENCE_SECONDS and not bars.live.is_started:
            bars.start()
        if "waiting" in line:
            bars.update(task, description=f"Waiting: {line['waiting']}")
        elif "progress" in line:
            at = line["progress"]
            counted = f"{at['scanned']:,} of {at['of']:,} scanned, {at['matched']:,} found"
            bars.update(task, description="Searching", total=at["of"], completed=at["scanned"], counted=counted)

    try:
        yield tell
    finally:
        bars.stop()


def _nothing(id_: str | None, searched: dict[str, Any] | None) -> Exception:
    from penstock.errors import Rejected

    what = f"event {id_}" if id_ else "such event"
    if searched is None or not searched["scanned"]:
        return Rejected(
            f"there is no {what}: no broker or channel holds any event",
            hint="`penstock get brokers,kafkachannels -A` lists them",
        )
    lines = [
        f"there is no {what} among {searched['scanned']:,} records, scanned in {searched['seconds']:g} s",
        f"what is kept goes back to {searched['oldest']}; older events are gone",
        *(f"not searched: {problem}" for problem in searched.get("problems") or []),
    ]
    hint = "ids are compared as they are written; `penstock explain --subject S` or `--source S` finds others"
    return Rejected("\n".join(lines), hint=hint)


def _show(event: dict[str, Any]) -> None:
    show(coloured(visible_line(f"{event['type']}  {event['id']}"), "bold"))
    facts = {
        "source": event["source"],
        "subject": event["subject"],
        "time": event["time"],
        "received": event["received"],
        "at": event["of"],
        "topic": event["topic"],
        "record": f"partition {event['partition']}, offset {event['offset']}",
    }
    for name, value in facts.items():
        if value:
            show(f"  {name + ':':10}{visible_line(value)}")
    subscriptions = event["subscriptions"]
    if not subscriptions:
        show("  nobody has subscribed here")
        return
    wanted = sum(each["matched"] for each in subscriptions)
    show(f"  wanted by {wanted} of {len(subscriptions)}\n")
    rows = []
    for each in subscriptions:
        own = [attempt for attempt in each["attempts"] if not attempt["to_sink"]]
        count = f"{len(own)} of {each['max_attempts']}" if each["matched"] else ""
        rows.append([f"{each['kind'].lower()}/{each['name']}", each["outcome"], count, each["because"]])
    show_table(COLUMNS, rows)
    for each in subscriptions:
        _show_attempts(each)
    for note in event["notes"]:
        say(visible_line(f"note: {note}"))


def _show_attempts(subscription: dict[str, Any]) -> None:
    """A line for each attempt, and between them how long it waited."""
    lines, before = [], None
    for number, attempt in enumerate(subscription["attempts"], start=1):
        began = datetime.fromisoformat(attempt["time"])
        if before is not None:
            lines.append(f"  │ {(began - before).total_seconds():.3g} s later")
        answer = attempt["status"] or "no answer"
        error = f"  {attempt['error']}" if attempt["error"] else ""
        to = "  to the dead letter sink" if attempt["to_sink"] else ""
        lines.append(
            f"  {number} {attempt['time']}{to}  {answer}  {attempt['took_ms']} ms  {attempt['ended']}{error}"
        )
        before = began
    if subscription["next_try"]:
        lines.append(f"  ┆ the next at about {subscription['next_try']}")
    letter = subscription["dead_letter"]
    if letter:
        again = f"; sent again {letter['redriven']}" if letter["redriven"] else ""
        lines.append(f"  ✝ {letter['outcome']} {letter['time']}: {letter['reason']}{again}")
    lines += [f"  {note}" for note in subscription["notes"]]
    if lines:
        name = f"{subscription['kind'].lower()}/{subscription['name']}"
        show(f"\n{name}  {coloured(subscription['outcome'], COLOURS.get(subscription['outcome'], 'bold'))}")
        for line in lines:
            show(visible_line(line))
