"""``get``: fetching resources and showing them as tables, JSON or YAML, once or again and again."""

import sys
import time
from typing import Any

import typer

from penstock.cli.client import Client
from penstock.cli.columns import LAG, Lags, columns, row
from penstock.cli.output import (
    Column,
    coloured,
    draw,
    kubernetes_list,
    painted,
    say,
    show_json,
    show_table,
    show_yaml,
    table,
    width,
)
from penstock.cli.output import show as show_text
from penstock.cli.targets import Target
from penstock.control.kinds import KINDS, Kind, Resource, name_of
from penstock.errors import PenstockError, Unavailable
from penstock.visible import visible_line

REDRAW_SECONDS = 1.0

Groups = list[tuple[Kind, list[Resource]]]


def fetch(client: Client, asked: list[Target], namespace: str | None) -> Groups:
    """The resources by kind, in the order in which they were asked for."""
    groups: dict[str, tuple[Kind, list[Resource]]] = {}
    for target in asked:
        if target.name is None:
            found = client.listing(target.kind, namespace)
        elif namespace is None:
            found = [each for each in client.listing(target.kind, None) if name_of(each) == target.name]
        else:
            found = [client.one(target.kind, namespace, target.name)]
        groups.setdefault(target.kind.name, (target.kind, []))[1].extend(found)
    return list(groups.values())


def show(groups: Groups, output: str, namespace: str | None, *, single: bool, client: Client) -> None:
    objects = [each for _, found in groups for each in found]
    if output in ("json", "yaml"):
        value: Any = objects[0] if single and len(objects) == 1 else kubernetes_list(objects)
        show_json(value) if output == "json" else show_yaml(value)
    elif output == "name":
        for each in objects:
            show_text(f"{each['kind'].lower()}/{name_of(each)}")
    elif not objects:
        say(_nothing(groups, namespace))
    else:
        shown = [
            (kind, found, columns(kind, wide=output == "wide", with_namespace=namespace is None))
            for kind, found in groups
            if found
        ]
        lags = lags_of(client, [head for _, _, heads in shown for head in heads])
        for position, (kind, found, heads) in enumerate(shown):
            if len(groups) > 1:
                show_text(("\n" if position else "") + coloured(f"{kind.plural}:", "bold"))
            show_table(heads, [row(kind, each, heads, lags) for each in found])


def _nothing(groups: Groups, namespace: str | None) -> str:
    kinds = "resources" if len(groups) == len(KINDS) else " or ".join(kind.plural for kind, _ in groups)
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    word = "all" if len(groups) == len(KINDS) else groups[0][0].plural
    more = "" if namespace is None else f"; `penstock get {word} -A` looks in all"
    return f"no {kinds} {where}{more}"


def lags_of(client: Client, heads: list[Column]) -> Lags:
    """Every lag, if a column asks for it; without an answer the column shows that it is not known."""
    if LAG not in heads:
        return {}
    try:
        return dict(client.get("/api/penstock/status")["lag"])
    except PenstockError as error:
        say(f"the lag is not known: {error.message}")
        return {}


def watch(client: Client, asked: list[Target], namespace: str | None, output: str) -> None:
    if len(asked) != 1 or output == "yaml":
        raise typer.BadParameter("-w follows one kind or one resource, as a table or with -o json")
    if output in ("table", "wide") and sys.stdout.isatty():
        _redraw(client, asked, namespace, output)
    else:
        _append(client, asked[0], namespace, output)


def _redraw(client: Client, asked: list[Target], namespace: str | None, output: str) -> None:
    kind = asked[0].kind
    heads = columns(kind, wide=output == "wide", with_namespace=namespace is None)
    drawn = 0
    while True:
        groups = fetch(client, asked, namespace)
        lags = lags_of(client, heads)
        lines = table(heads, [row(kind, each, heads, lags) for each in groups[0][1]], width())
        draw([painted(line) for line in lines], over=drawn)
        drawn = len(lines)
        time.sleep(REDRAW_SECONDS)


def _append(client: Client, target: Target, namespace: str | None, output: str) -> None:
    heads = columns(target.kind, wide=output == "wide", with_namespace=namespace is None)
    if output in ("table", "wide"):
        show_text("   ".join(head.heading for head in heads))
    for change in client.watch(target.kind, namespace):
        resource = change["object"]
        if target.name is not None and name_of(resource) != target.name:
            continue
        if output == "json":
            show_json(resource, line=True)
        elif output == "name":
            show_text(f"{resource['kind'].lower()}/{name_of(resource)}")
        else:
            lags = lags_of(client, heads)
            gone = ["(deleted)"] if change["type"] == "DELETED" else []
            show_text("   ".join(visible_line(cell) for cell in [*row(target.kind, resource, heads, lags), *gone]))
        sys.stdout.flush()
    raise Unavailable(f"the server at {client.server} has ended the watch", hint="the same command watches again")
