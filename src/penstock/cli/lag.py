"""``penstock lag``: how far behind subscriptions are, as age and as a number."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import complete, options
from penstock.cli.output import Column, draw, painted, say, show_json, show_table, table, width

if TYPE_CHECKING:
    from penstock.cli.client import Client

REDRAW_SECONDS = 1.0
FIELDS = (
    *("key", "kind", "namespace", "name", "state", "lag", "lag_trend", "lag_seconds"),
    *("oldest_waiting_seconds", "stalled_seconds"),
)
PARTITIONS = (
    Column("TOPIC"),
    Column("PARTITION", right=True),
    Column("POSITION", right=True),
    Column("END", right=True),
    Column("LAG", right=True),
)


def lag(
    of: Annotated[
        str | None,
        typer.Argument(metavar="[KIND/NAME]", help="Only this one, by partition.", autocompletion=complete.receivers),
    ] = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on: redrawn on a terminal, appended elsewhere.")
    ] = False,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """How far behind each subscription is: the age of its oldest waiting event, and how many wait; the worst first.

    \b
    penstock lag
    penstock lag -A -w
    penstock lag trigger/audit
    penstock lag -o json

    OLDEST: since when it has waited. BEHIND: the time between it and the newest event of the topic. STALLED: how long
    the most stuck partition has not moved. The arrow says where it goes.
    """
    from penstock.cli.client import Client

    options.checked(output, "table", "json")
    client = Client(server)
    if of is not None:
        if watch or everywhere:
            raise typer.BadParameter("-w and -A go with all subscriptions, not with one")
        _show_one(client, of, namespace, as_json=output == "json")
        return
    within = None if everywhere else namespace
    if not watch:
        _show(_rows(client, within), within, as_json=output == "json")
        return
    drawn = 0
    while True:
        rows = _rows(client, within)
        if output == "json":
            for row in rows:
                show_json(_picked(row), line=True)
            sys.stdout.flush()
        else:
            drawn = _draw(rows, within, drawn)
        time.sleep(REDRAW_SECONDS)


def _rows(client: "Client", namespace: str | None) -> list[dict[str, Any]]:
    from penstock.cli.live_table import worst_first
    from penstock.errors import Unavailable

    document = client.get("/api/penstock/live?once=1")
    for part in document["parts"]:
        if part["name"] == "kafka" and part["state"] != "running":
            raise Unavailable(
                f"the lag is not known, since Kafka at {part['address']} is {part['state']}\n{part['reason']}",
                hint="`penstock status` shows all parts",
            )
    rows = [row for row in document["subscriptions"] if namespace in (None, row["namespace"])]
    return sorted(worst_first(rows), key=lambda row: (-(row["oldest_waiting_seconds"] or 0.0), -(row["lag"] or 0)))


def _show(rows: list[dict[str, Any]], namespace: str | None, *, as_json: bool) -> None:
    from penstock.cli.live_table import LAG, lag_row

    if as_json:
        show_json([_picked(row) for row in rows])
    elif rows:
        show_table(LAG, [lag_row(row) for row in rows])
    else:
        say(_nothing(namespace))


def _draw(rows: list[dict[str, Any]], namespace: str | None, drawn: int) -> int:
    from penstock.cli.live_table import LAG, lag_row

    is_screen = sys.stdout.isatty()
    lines = table(LAG, [lag_row(row) for row in rows], width()) if rows else [_nothing(namespace)]
    if not is_screen and drawn:
        lines = lines[1:]
    draw([painted(line) for line in lines], over=drawn if is_screen else 0)
    return len(lines) or drawn


def _show_one(client: "Client", of: str, namespace: str, *, as_json: bool) -> None:
    from penstock.cli.targets import one
    from penstock.control.kinds import EGRESS
    from penstock.errors import Misused

    target = one(of)
    if target.kind not in EGRESS:
        have = ", ".join(kind.name.lower() for kind in EGRESS)
        raise Misused(f"a {target.kind.name.lower()} has no lag", hint=f"these have: {have}")
    client.one(target.kind, namespace, str(target.name))  # or it says that there is none
    found = client.lag(target.kind, namespace, str(target.name))
    if as_json:
        show_json(found)
    elif found["partitions"]:
        rows = [
            [p["topic"], *(str(p[f]) for f in ("partition", "position", "end", "lag"))] for p in found["partitions"]
        ]
        show_table(PARTITIONS, rows)
    else:
        say(f"the lag of {target.shown} is not known yet")


def _picked(row: dict[str, Any]) -> dict[str, Any]:
    return {field: row[field] for field in FIELDS}


def _nothing(namespace: str | None) -> str:
    return "no subscriptions" + (f" in namespace {namespace}; `penstock lag -A` looks in all" if namespace else "")
