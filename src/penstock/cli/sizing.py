"""``penstock sizing``: the memory that deliveries may take at most."""

import re
from dataclasses import asdict
from typing import Annotated, Any

import typer

from penstock.cli import options
from penstock.cli.output import Column, say, show_json, show_table

COLUMNS = (
    Column("BROKER"),
    Column("TRIGGERS", right=True),
    Column("PARTITIONS", right=True),
    Column("WORKERS", right=True),
    Column("BUFFERS", right=True),
    Column("BESIDES", right=True),
    Column("BASE", right=True),
    Column("TOTAL", right=True),
)


def sizing(
    subscriptions: Annotated[int | None, typer.Option(help="Triggers of a broker that is planned.", min=0)] = None,
    partitions: Annotated[int | None, typer.Option(help="Its partitions.", min=1)] = None,
    event_size: Annotated[str, typer.Option(help="Of an event's data: 800, 10k, 1m.", metavar="SIZE")] = "10k",
    slow: Annotated[int, typer.Option(help="Subscribers that are slow at the same time.", min=0)] = 0,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """The memory that deliveries take at most, for what runs or for what you plan. It is bounded by settings.

    \b
    penstock sizing
    penstock sizing --subscriptions 10 --partitions 4 --event-size 10k
    penstock sizing --subscriptions 10 --partitions 4 --slow 1

    In MB. BUFFERS are events that not everybody has had yet; each is kept once, however many want it.
    """
    from penstock.delivery.sizing import Bounds
    from penstock.delivery.sizing import sizing as estimated
    from penstock.pipeline.settings import DispatcherSettings
    from penstock.settings import load

    options.checked(output, "table", "json")
    settings = load(DispatcherSettings)
    bounds = Bounds(settings.delivery_window, settings.unfinished_rows, settings.unfinished_megabytes)
    size = _bytes(event_size)
    if subscriptions is None and partitions is None:
        wanted = _running(server)
    else:
        wanted = [("planned", 10 if subscriptions is None else subscriptions, partitions or 4)]
    found = [(name, count, each, estimated(count, each, size, slow, bounds)) for name, count, each in wanted]
    if output == "json":
        for name, count, each, of in found:
            shown: dict[str, Any] = {"broker": name, "triggers": count, "partitions": each, **asdict(of)}
            show_json({**shown, "total": of.total}, line=True)
        return
    rows = [
        [name, str(count), str(each), str(of.workers), *(f"{value:.0f}" for value in _parts(of))]
        for name, count, each, of in found
    ]
    show_table(COLUMNS, rows)
    total = sum(of.total for *_, of in found)
    say(f"at most {total:,.0f} MB beside Spark's heap of {settings.driver_memory}; a quiet broker takes nothing")


def _parts(of: Any) -> tuple[float, ...]:
    return of.buffers, of.besides, of.base, of.total


def _running(server: str) -> list[tuple[str, int, int]]:
    """Name, triggers and partitions of every broker."""
    from penstock.cli.client import Client
    from penstock.control.kinds import BROKER, TRIGGER, name_of, namespace_of, noted, spec_of
    from penstock.control.names import NOTED_PARTITIONS

    client = Client(server)
    triggers = [(namespace_of(each), str(spec_of(each)["broker"])) for each in client.listing(TRIGGER, None)]
    return [
        (
            f"{namespace_of(each)}/{name_of(each)}",
            triggers.count((namespace_of(each), name_of(each))),
            int(noted(each).get(NOTED_PARTITIONS, 0)),
        )
        for each in client.listing(BROKER, None)
    ]


def _bytes(text: str) -> int:
    from penstock.errors import Misused

    units = {"k": 1024, "m": 1024 * 1024}
    number, factor = (text[:-1], units[text[-1].lower()]) if text[-1:].lower() in units else (text, 1)
    if not re.fullmatch("[0-9]{1,12}", number) or not int(number):
        raise Misused(f'"{text}" is no size', hint="800, 10k or 1m")
    return int(number) * factor
