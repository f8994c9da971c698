"""``penstock trigger …``: what concerns triggers alone."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import complete, options
from penstock.cli.output import Column, coloured, say, show, show_json, table, width

if TYPE_CHECKING:
    from penstock.event.model import Event

trigger = typer.Typer(
    help="What concerns triggers alone.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)

COLUMNS = (Column("ID"), Column("MATCHED"), Column("BECAUSE", shorten=True))


@trigger.command("test")
def try_filter(
    filename: Annotated[
        str,
        typer.Option(
            "--filename", "-f", help="The trigger; other resources beside it are skipped.", metavar="FILE|-"
        ),
    ],
    event: Annotated[str | None, typer.Option(help="One event as JSON.", metavar="FILE|-")] = None,
    events: Annotated[str | None, typer.Option(help="Events, one JSON object per line.", metavar="FILE|-")] = None,
    output: options.PlainOutput = "table",
) -> None:
    """Which events a trigger would get, and for each of the others which part of the filter says no.

    \b
    penstock trigger test -f trigger.yaml --event order.json
    penstock trigger test -f trigger.yaml --events orders.jsonl -o json

    Nothing has to run for this. Exits with 0 whether or not events match.
    """
    from penstock.cli.files import read_text
    from penstock.cli.local_spark import local_spark
    from penstock.control.triggers import filters_of
    from penstock.pipeline.trial import try_filters

    options.checked(output, "table", "json")
    if (event is None) == (events is None):
        raise typer.BadParameter("give either --event or --events")
    if filename == (event or events) == "-":
        raise typer.BadParameter("the trigger and the events cannot both come from stdin")
    filters = filters_of(_trigger(filename)["spec"])
    asked = [_event(read_text(event), event)] if event is not None else _events(str(events))
    with local_spark("Starting Spark") as session:
        verdicts = try_filters(session, filters, asked)
    found = [(each.attributes["id"], *verdict) for each, verdict in zip(asked, verdicts, strict=True)]
    if output == "json":
        show_json([dict(zip(("id", "matched", "because"), row, strict=True)) for row in found])
        return
    rows = [(id_, "yes" if matched else "no", because) for id_, matched, because in found]
    head, *lines = table(COLUMNS, rows, width())
    show(coloured(head, "bold"))
    for line in lines:
        show(line)
    if len(found) > 1:
        say(f"{sum(matched for _, matched, _ in found)} of {len(found)} match")


@trigger.command()
def reset(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete.names)],
    to: Annotated[
        str, typer.Option(help="earliest, latest, a time, or offsets such as 0=1200,1=900.", metavar="WHERE")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would mean.")] = False,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Moves a trigger: what lies behind the new position comes again, what lies before it is passed over.

    \b
    penstock trigger reset audit --to earliest --dry-run
    penstock trigger reset audit --to 2026-11-15T18:00:00Z
    penstock trigger reset audit --to 0=1200,1=900

    In force within seconds, also while it is paused.
    """
    from penstock.cli.client import Client

    options.checked(output, "table", "json")
    path = f"/api/penstock/triggers/{namespace}/{name}/reset"
    rows = Client(server).post(path, {"to": to, "dryRun": dry_run})["partitions"]
    if output == "json":
        for row in rows:
            show_json(row, line=True)
        return
    heads = (Column("PARTITION"), Column("FROM"), Column("TO"), Column("EVENTS"))
    for line in table(heads, [[str(row[each.heading.lower()]) for each in heads] for row in rows], width()):
        show(line)
    events = sum(row["events"] for row in rows)
    what = f"{events:,} events come again" if events >= 0 else f"{-events:,} events are passed over"
    say(f"{what}{' if you leave out --dry-run' if dry_run else ''}")


def _trigger(filename: str) -> dict[str, Any]:
    """The one trigger in the file, checked as ``apply`` would."""
    from penstock.cli.manifests import read
    from penstock.control import validate
    from penstock.errors import Rejected

    found = [
        each.body for each in read([filename]) if isinstance(each.body, dict) and each.body.get("kind") == "Trigger"
    ]
    if len(found) != 1:
        raise Rejected(f"{filename} holds {len(found)} triggers; one is expected")
    problems = validate.problems(found[0])
    if problems:
        lines = [f"{problem.field}: {problem.message}" for problem in problems]
        raise Rejected("\n".join(["the trigger is invalid", *lines]))
    return dict(found[0])


def _events(path: str) -> "list[Event]":
    from penstock.cli.files import read_text
    from penstock.errors import Rejected

    lines = [(number, line) for number, line in enumerate(read_text(path).split("\n"), start=1) if line.strip()]
    if not lines:
        raise Rejected(f"there is no event in {path}")
    return [_event(line, f"line {number} of {path}") for number, line in lines]


def _event(text: str, where: str | None) -> "Event":
    from penstock.errors import Rejected
    from penstock.event.json_form import decode_event

    try:
        json.loads(text)
        return decode_event(text.encode())
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{where} is no JSON\n{error}") from None
    except Rejected as error:
        raise Rejected(f"{where} is no event\n{error.message}", hint=error.hint) from None
