"""``penstock pause`` and ``penstock resume``."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from penstock.cli import complete, options
from penstock.cli.output import show, show_json

Kind = Annotated[
    str,
    typer.Argument(
        help="trigger, subscription or kafkasource, or KIND/NAME.",
        metavar="KIND[/NAME]",
        autocompletion=complete.receivers,
    ),
]
Name = Annotated[str | None, typer.Argument(autocompletion=complete.names)]


def pause(  # noqa: PLR0913 (one option per question)
    kind: Kind,
    name: Name = None,
    reason: Annotated[str, typer.Option(help="Shown in its status.")] = "paused by hand",
    until: Annotated[str | None, typer.Option(help="A time, or a length of time such as 2h.", metavar="TIME")] = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Stops delivering to a subscriber, or to the sink of a source.

    What is in flight ends; events stay in Kafka, and none is lost.

    \b
    penstock pause trigger audit --reason "maintenance" --until 2h
    penstock pause trigger/audit --until 2026-12-24T18:00:00Z
    penstock pause kafkasource/orders
    """
    options.checked(output, "table", "json")
    end = None if until is None else _time(until)
    shown = _post(server, namespace, (kind, name), "pause", {"reason": reason, "until": end})
    if output == "json":
        show_json({"subscription": shown, "namespace": namespace, "paused": True, "until": end, "reason": reason})
    else:
        show(f"{shown} paused" + (f" until {end}" if end else ""))


def resume(
    kind: Kind,
    name: Name = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Goes on delivering where it was paused, or disabled since its subscriber was gone (410).

    \b
    penstock resume trigger audit
    """
    options.checked(output, "table", "json")
    shown = _post(server, namespace, (kind, name), "resume", {})
    if output == "json":
        show_json({"subscription": shown, "namespace": namespace, "paused": False})
    else:
        show(f"{shown} resumed")


def _post(server: str, namespace: str, words: tuple[str, str | None], verb: str, body: dict[str, Any]) -> str:
    """What was paused or resumed, as people call it."""
    from penstock.cli.client import Client
    from penstock.cli.targets import named
    from penstock.control.kinds import EGRESS
    from penstock.errors import Misused

    kind, name = words
    (target,) = named(kind, [name] if name else [])
    if target.kind not in EGRESS:
        can = ", ".join(each.name.lower() for each in EGRESS)
        raise Misused(f"a {target.kind.name.lower()} cannot be paused", hint=f"these can: {can}")
    client = Client(server)
    client.one(target.kind, namespace, str(target.name))  # suggests near names when there is none
    client.post(f"/api/penstock/{target.kind.plural}/{namespace}/{target.name}/{verb}", body)
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
