"""``penstock settings``: every setting, its value here and now, and where the value came from."""

import importlib
from dataclasses import asdict
from typing import Annotated, Any

import typer

from penstock.cli import options
from penstock.cli.output import Column, coloured, say, show, show_json, show_table

# Process, module and class; a process that this installation lacks is left out.
PROCESSES = (
    ("controller", "penstock.control.settings", "ControllerSettings"),
    ("receiver", "penstock.receiver.settings", "ReceiverSettings"),
    ("dispatcher", "penstock.pipeline.settings", "DispatcherSettings"),
    ("up", "penstock.cli.up_settings", "UpSettings"),
)


def settings(
    process: Annotated[
        str | None, typer.Argument(help="Only this one: controller, receiver, dispatcher, up.")
    ] = None,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Shows every process's settings and where each value came from.

    \b
    penstock settings
    penstock settings receiver
    PENSTOCK_DEFAULT_PARTITIONS=8 penstock settings controller -o json

    A controller that runs is asked for its own values; the others are shown as this environment sets them. Secrets
    are masked.
    """
    from penstock.control.kinds import nearest
    from penstock.errors import Misused

    options.checked(output, "table", "json")
    known = {name: rows for name, module, cls in PROCESSES if (rows := _rows(module, cls)) is not None}
    if process is not None and process not in known:
        near = nearest(process, known)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
        raise Misused(f'there is no process "{process}"', hint=hint)
    running = _running_controller(server)
    if running is not None and "controller" in known:
        known["controller"] = running
    chosen = {name: rows for name, rows in known.items() if process in (None, name)}
    if output == "json":
        show_json([{"process": name, **row} for name, rows in chosen.items() for row in rows])
        return
    if running is None and "controller" in chosen:
        say(f"no controller answers at {server}: its settings are shown as this environment sets them")
    elif running is not None and "controller" in chosen:
        say(f"dashboard: `penstock dashboard`; a token {_required(server)}")
    heads = [
        Column("SETTING"),
        Column("VALUE", 99, shorten=True),
        Column("FROM", 90),
        Column("VARIABLE", 50),
        Column("MEANING", 40, shorten=True),
    ]
    for position, (name, rows) in enumerate(chosen.items()):
        show(("\n" if position else "") + coloured(name, "bold"))
        show_table(heads, [[r["name"], r["value"], r["origin"], r["variable"], r["doc"]] for r in rows])


def _rows(module: str, cls: str) -> list[dict[str, Any]] | None:
    from penstock.settings import in_force

    try:
        found = getattr(importlib.import_module(module), cls, None)
    except ModuleNotFoundError:
        return None
    return [asdict(row) for row in in_force(found)] if found is not None else None


def _required(server: str) -> str:
    from penstock.cli.client import Client

    is_required = Client(server).get("/api/penstock/session")["token_required"]
    return "is required" if is_required else "is not required on this machine"


def _running_controller(server: str) -> list[dict[str, Any]] | None:
    from penstock.cli.client import Client, Unauthorized
    from penstock.errors import PenstockError

    client = Client(server, timeout_seconds=2.0)  # outside the try: a token file that cannot be used is an error
    try:
        return list(client.get("/api/penstock/settings"))
    except Unauthorized:
        raise
    except PenstockError:
        return None
