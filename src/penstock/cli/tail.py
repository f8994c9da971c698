"""``penstock tail``: events of a broker or channel as they come."""

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from penstock.cli import complete, options
from penstock.cli.output import say, show, show_json, width
from penstock.visible import visible_line


def tail(  # noqa: PLR0913 - options
    target: Annotated[
        str,
        typer.Argument(metavar="KIND/NAME", help="Such as broker/orders.", autocompletion=complete.addresses),
    ],
    type_: Annotated[str | None, typer.Option("--type", help="Only events of this type; * is any text.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="Only events of this source.")] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", help="Only those that match it.", metavar="CESQL")
    ] = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Shows events from now on, at most 50 a second; how many were left out is said.

    \b
    penstock tail broker/orders
    penstock tail broker/orders --type 'order.*'
    penstock tail broker/orders --filter "subject LIKE 'order-%'" -o json

    With -o json each is a line, {"event": …} or {"skipped": n}. Ctrl-C ends it.
    """
    from penstock.cli.client import Client
    from penstock.cli.targets import one

    options.checked(output, "table", "json")
    what = one(target)
    asked = {"of": f"{what.kind.name}/{namespace}/{what.name}", "type": type_, "source": source, "filter": filter_}
    query = urlencode({name: value for name, value in asked.items() if value})
    for name, value in messages(Client(server).lines(f"/api/penstock/tail?{query}")):
        _take(name, value, output == "json")
    from penstock.errors import Unavailable

    raise Unavailable("the server ended the tail", hint="`penstock status` shows how it is")


def messages(lines: Iterable[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of a stream of server-sent events."""
    name = ""
    for line in lines:
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
        elif line.startswith(b"data: "):
            yield name, json.loads(line[6:])


def _take(name: str, value: dict[str, Any], as_json: bool) -> None:
    from penstock.errors import Unavailable

    if name == "problem":
        raise Unavailable(visible_line(value["error"]), hint=value.get("hint"))
    if name == "begun":
        say(f"events of {value['of']} from now on; Ctrl-C ends this")
    elif name == "skipped":
        if as_json:
            show_json({"skipped": value["count"]}, line=True)
        else:
            say(f"… {value['count']:,} more were not shown: they came faster than 50 a second")
    elif name == "event":
        if as_json:
            show_json({"event": value}, line=True)
        else:
            show(_line(value))


def _line(event: dict[str, Any]) -> str:
    data = event["data"] if isinstance(event["data"], str) else json.dumps(event["data"], ensure_ascii=False)
    clock = event["received"][11:23]
    subject = f" {event['subject']}" if event["subject"] else ""
    line = f"{clock}  {event['partition']}/{event['offset']}  {event['type']}  {event['id']}{subject}  {data}"
    line = visible_line(line.replace("\n", " ").replace("\r", " "))
    limit = width()
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"
