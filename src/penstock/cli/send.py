"""``penstock send``: events to whatever takes them, one or many."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import complete, options
from penstock.cli.options import SOME_FAILED
from penstock.cli.output import complain, show, show_json
from penstock.visible import visible_line

if TYPE_CHECKING:
    from penstock.cli.sending import Outcome


def send(  # noqa: PLR0913 - one option per attribute of an event
    target: Annotated[str, typer.Argument(help="KIND/NAME or a URL.", autocompletion=complete.addresses)],
    type_: Annotated[str, typer.Option("--type", help="The event's type.", metavar="T")],
    source: Annotated[str, typer.Option("--source", help="The event's source.", metavar="S")],
    id_: Annotated[str | None, typer.Option("--id", help="The id; with --count ID-0, ID-1 …", metavar="I")] = None,
    subject: Annotated[str | None, typer.Option(help="The subject.", metavar="U")] = None,
    data: Annotated[str | None, typer.Option(help="The data: JSON, or @FILE.", metavar="JSON|@FILE")] = None,
    content_type: Annotated[str, typer.Option(help="What the data is.")] = "application/json",
    ext: Annotated[list[str] | None, typer.Option(help="An extension.", metavar="K=V")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many, each with an id of its own.")] = 1,
    rate: Annotated[float | None, typer.Option(min=0.001, help="How many per second; as fast as it goes.")] = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Sends events to a broker, a channel, a sink or a URL.

    \b
    penstock send broker/orders --type order.placed --source /shop --data '{"n": 1}'
    penstock send broker/orders --type order.placed --source /shop --data @order.json --ext region=eu
    penstock send broker/orders --type tick --source /clock --count 10000 --rate 500
    penstock send kafkachannel/jobs --type job.wanted --source /desk --data @job.json
    penstock send http://127.0.0.1:8080/default/orders --type tick --source /clock

    Exits with 1 when all were refused, 3 when only some were.
    """
    from penstock.cli.sending import Events, run

    options.checked(output, "table", "json")
    attributes = {
        "type": type_,
        "source": source,
        **({"subject": subject} if subject else {}),
        **_extensions(ext or []),
    }
    body = _data(data, content_type)
    events = Events(attributes, body, content_type if body is not None else None, id_, count)
    url = target if "://" in target else _address(target, namespace, server)
    with _progress(count) as advance:
        outcome = run(url, events, rate, advance)
    _report(outcome, url, output)


def _report(outcome: "Outcome", url: str, output: str) -> None:
    from penstock.errors import Rejected

    if output == "json":
        show_json(outcome.as_json())
    elif outcome.count == 1 and outcome.accepted:
        show(f"accepted by {url}: id {outcome.first_id}")
    elif outcome.count > 1:
        speed = f" in {outcome.seconds:.1f} s ({outcome.accepted / max(outcome.seconds, 1e-9):,.0f}/s)"
        show(f"{outcome.accepted} accepted, {outcome.refused} refused{speed}")
    if outcome.refused:
        what = f"{outcome.refused} of {outcome.count} events were" if outcome.count > 1 else "the event was"
        reasons = [(visible_line(reason), number) for reason, number in outcome.reasons]
        why = "\n".join(f"{number} × {reason}" if outcome.count > 1 else reason for reason, number in reasons)
        refusal = Rejected(f"{what} not accepted by {url}\n{why}", hint=outcome.hint)
        if not outcome.accepted:
            raise refusal
        complain(refusal)
        raise typer.Exit(SOME_FAILED)


def _extensions(pairs: list[str]) -> dict[str, str]:
    import re

    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch("[a-z0-9]+", name):
            raise typer.BadParameter(f'"{pair}" is not NAME=VALUE with a name of a-z and 0-9', param_hint="--ext")
        found[name] = value
    return found


def _data(text: str | None, content_type: str) -> bytes | None:
    import json
    from pathlib import Path

    from penstock.errors import Rejected

    if text is None:
        return None
    if text.startswith("@"):
        try:
            raw = Path(text[1:]).read_bytes()
        except OSError as error:
            raise Rejected(f"{text[1:]} cannot be read\n{error.strerror}") from None
    else:
        raw = text.encode()
    if content_type == "application/json" or content_type.endswith("+json"):
        try:
            json.loads(raw)
        except (ValueError, RecursionError) as error:
            hint = "put text in quotes, '\"hello\"', or say what it is: --content-type text/plain"
            raise Rejected(f"the data is not JSON\n{error}", hint=hint) from None
    return raw


def _address(target: str, namespace: str, server: str) -> str:
    from penstock.cli.client import Client
    from penstock.cli.targets import one
    from penstock.control.kinds import INGRESS, condition, status_of
    from penstock.errors import Misused, Rejected

    asked = one(target)
    if asked.kind not in INGRESS:
        takers = ", ".join(kind.name.lower() for kind in INGRESS)
        raise Misused(f"a {asked.kind.name.lower()} takes no events", hint=f"these do: {takers}, or a URL")
    resource = Client(server).one(asked.kind, namespace, asked.name or "")
    url = (status_of(resource).get("address") or {}).get("url")
    if not url:
        ready = condition(resource, "Ready")
        why = ready.get("message") or ready.get("reason") or "it has not been looked at yet"
        raise Rejected(f"{asked.shown} has no address to send to\n{why}", hint=f"penstock describe {asked.shown}")
    return str(url)


def _progress(count: int) -> Any:
    """A bar on stderr when somebody looks at it. Gives a function to be called with the number done."""
    import contextlib
    import sys

    if count == 1 or not sys.stderr.isatty():
        return contextlib.nullcontext(lambda done: None)

    @contextlib.contextmanager
    def bar() -> Any:
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("sending", total=count)
            yield lambda done: progress.update(task, completed=done)

    return bar()
