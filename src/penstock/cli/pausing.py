"""``penstock pause`` and ``penstock resume``."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from penstock.cli import complete, options
from penstock.cli.output import show

Kind = Annotated[
    str,
    typer.Argument(
        help="trigger, subscription or kafkasource, or KIND/NAME.",
        metavar="KIND[/NAME]",
        autocompletion=complete.receivers,
    ),
]
Name = Annotated[str | None, typer.Argument(autocompletion=complete.names)]


def pause(
    kind: Kind,
    name: Name = None,
    reason: Annotated[str, typer.Option(help="Shown in its status.")] = "paused by hand",
    until: Annotated[str | None, typer.Option(help="A time, or a length of time such as 2h.", metavar="TIME")] = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Stops delivering to a subscriber, or to the sink of a source.

    What is in flight ends; events stay in Kafka, and none is lost.

    \b
    penstock pause trigger audit --reason "maintenance" --until 2h
    penstock pause trigger/audit --until 2026-12-24T18:00:00Z
    penstock pause kafkasource/orders
    """
    from penstock.control import names

    notes = {names.PAUSED: reason, names.PAUSED_UNTIL: None if until is None else _time(until)}
    shown = _annotate(server, namespace, kind, name, notes)
    show(f"{shown} paused" + (f" until {notes[names.PAUSED_UNTIL]}" if until else ""))


def resume(
    kind: Kind,
    name: Name = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Goes on delivering where it was paused, or disabled since its subscriber was gone (410).

    \b
    penstock resume trigger audit
    """
    from penstock.control import names

    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    notes = {names.PAUSED: None, names.PAUSED_UNTIL: None, names.RESUMED: now}
    shown = _annotate(server, namespace, kind, name, notes)
    show(f"{shown} resumed")


def _annotate(server: str, namespace: str, kind: str, name: str | None, notes: dict[str, str | None]) -> str:
    from penstock.cli.client import Client
    from penstock.cli.targets import named
    from penstock.control.kinds import EGRESS
    from penstock.errors import Misused

    (target,) = named(kind, [name] if name else [])
    if target.kind not in EGRESS:
        can = ", ".join(each.name.lower() for each in EGRESS)
        raise Misused(f"a {target.kind.name.lower()} cannot be paused", hint=f"these can: {can}")
    client = Client(server)
    resource: dict[str, Any] = client.one(target.kind, namespace, str(target.name))
    annotations = dict(resource["metadata"].get("annotations") or {})
    for note, value in notes.items():
        annotations.pop(note, None)
        if value is not None:
            annotations[note] = value
    metadata = {"name": target.name, "namespace": namespace, "annotations": annotations}
    if resource["metadata"].get("labels"):
        metadata["labels"] = resource["metadata"]["labels"]
    body = {each: resource[each] for each in ("apiVersion", "kind", "spec")}
    client.apply(target.kind, {**body, "metadata": metadata})
    return target.shown


def _time(text: str) -> str:
    """A time as it is, a length of time from now."""
    from penstock.control.times import epoch_of
    from penstock.errors import Misused

    try:
        epoch_of(text)
        return text
    except ValueError:
        pass
    try:
        end = datetime.now(UTC) + timedelta(seconds=options.seconds(text))
    except Misused:
        raise Misused(
            f'"{text}" is neither a time nor a length of time', hint="2026-12-24T18:00:00Z, 90m, 2h"
        ) from None
    return end.isoformat(timespec="seconds").replace("+00:00", "Z")
