"""``penstock status``: the whole system on one screen."""

from typing import Any

import typer

from penstock.cli import options
from penstock.cli.output import Column, coloured, say, show, show_json, show_table
from penstock.visible import visible_line


def status(
    namespace: options.Namespace = "",
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Shows what runs, what is ready and what is waiting.

    \b
    penstock status
    penstock status -n shop
    penstock status -o json

    Exits with 1 when a part of the system does not run.
    """
    from penstock.cli.client import Client
    from penstock.control.kinds import WITH_STATUS

    options.checked(output, "table", "json")
    client = Client(server)
    system = client.get("/api/penstock/status")
    found = [(kind, client.listing(kind, namespace or None)) for kind in WITH_STATUS]
    if output == "json":
        show_json({**system, **{kind.plural: resources for kind, resources in found}})
    else:
        _show(system, found)
    if any(part["state"] != "running" for part in system["parts"]):
        raise typer.Exit(1)


def _show(system: dict[str, Any], resources: list[tuple[Any, list[Any]]]) -> None:
    from penstock.cli.columns import LAG, columns, row

    heads = [Column("PART"), Column("STATE"), Column("ADDRESS", 50), Column("REASON", 60, shorten=True)]
    show_table(heads, [[p["name"], p["state"], p["address"], p["reason"]] for p in system["parts"]])
    required = "is required" if system.get("token_required") else "is not required on this machine"
    say(f"dashboard: `penstock dashboard`; a token {required}")
    if system.get("problems"):
        show("\n" + coloured("stored objects with problems", "bold"))
        for each in system["problems"]:
            show(visible_line(f"{each['key']}: {each['why']}"))
    if not any(found for _, found in resources):
        say("\nno resources yet: `penstock apply -f FILE` makes some")
    for kind, found in resources:
        if not found:
            continue
        show("\n" + coloured(kind.plural, "bold"))
        shown = columns(kind, wide=False, with_namespace=True)
        if LAG not in shown and LAG in columns(kind, wide=True, with_namespace=True):
            shown.append(LAG)
        show_table(shown, [row(kind, each, shown, system["lag"]) for each in found])
    troubled = [
        [query["topic"], query["state"], query["reason"]]
        for query in system["queries"]
        if query["state"] in ("refused", "failed")
    ]
    troubled += [
        [f"{query['topic']}, isolated {name}", "failed", why]
        for query in system["queries"]
        for name, why in query.get("failures", {}).items()
    ]
    if troubled:
        show("\n" + coloured("queries that do not run", "bold"))
        heads = [Column("TOPIC"), Column("STATE"), Column("REASON", 60, shorten=True)]
        show_table(heads, troubled)
    apart = [(query["topic"], name) for query in system["queries"] for name in query["apart"]]
    if apart:
        show("\n" + coloured("slow subscribers, each in a query of its own", "bold"))
        show_table([Column("SUBSCRIPTION"), Column("TOPIC")], [[name, topic] for topic, name in apart])
