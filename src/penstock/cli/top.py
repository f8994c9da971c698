"""``penstock top``: what flows, what waits and what fails, live."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import options
from penstock.cli.output import show, show_json
from penstock.visible import visible_line

if TYPE_CHECKING:
    from penstock.cli.client import Client

LIVE = "/api/penstock/live?once=1"
QUIT = ("q", "Q", "\x03", "\x1b")


def top(
    namespace: options.Namespace = "",
    every: Annotated[str, typer.Option("--every", help="How often it is drawn.", metavar="TIME")] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Show it once and end.")] = False,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """What flows, what waits and what fails, live; the worst subscriptions first.

    \b
    penstock top
    penstock top -n shop --once
    penstock top -o json | jq .totals

    On a terminal it redraws itself until you press q. Elsewhere it prints snapshots as JSON lines, or one table with
    --once.
    """
    from penstock.cli.client import Client

    options.checked(output, "table", "json")
    pause = max(0.2, options.seconds(every))
    client = Client(server)
    is_screen = sys.stdout.isatty() and output == "table"
    if once:
        _show_once(_ask(client, namespace), as_json=output == "json")
    elif is_screen:
        _draw(client, namespace, pause)
    else:
        while True:
            show_json(_ask(client, namespace), line=True)
            sys.stdout.flush()
            time.sleep(pause)


def _ask(client: "Client", namespace: str) -> dict[str, Any]:
    document: dict[str, Any] = client.get(LIVE)
    if namespace:
        for rows in ("ingresses", "subscriptions"):
            document[rows] = [row for row in document[rows] if row["namespace"] == namespace]
    return document


def _show_once(document: dict[str, Any], *, as_json: bool) -> None:
    from penstock.cli.live_table import top as lines
    from penstock.cli.output import width

    if as_json:
        show_json(document, line=True)
    else:
        show("\n".join(lines(document, width())))


def _draw(client: "Client", namespace: str, pause: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from penstock.cli.live_table import top as lines
    from penstock.errors import PenstockError

    console = Console()
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as screen:
        document: dict[str, Any] | None = None
        while True:
            trouble = ""
            try:
                document = _ask(client, namespace)
            except PenstockError as error:
                trouble = error.message.partition("\n")[0]
            width, height = console.size.width, console.size.height
            text = Text(no_wrap=True, overflow="ellipsis")
            if trouble:
                text.append(f"{visible_line(trouble)}; these numbers are old\n"[:width], style="bold red")
            found = lines(document, width, height - 2 - bool(trouble)) if document else []
            for line in found:
                text.append(visible_line(line) + "\n", style=_style(line) if not trouble else "dim")
            text.append(f"{time.strftime('%H:%M:%S')} · q quits"[:width], style="dim")
            screen.update(text, refresh=True)
            if pressed(pause) in QUIT:
                return


def _style(line: str) -> str:
    """The word says it too."""
    word = line.split("   ")[0].strip()
    bad, slow = ("failing", "not ready", "gone"), ("parked", "hanging", "retrying")
    colours = dict.fromkeys(bad, "red") | dict.fromkeys(slow, "yellow")
    if line.startswith("!"):
        return "red"
    return "bold" if line.startswith("STATE ") else colours.get(word, "")


@contextlib.contextmanager
def _keys() -> "Iterator[Any]":
    """A function that waits so long for a key and returns it, or nothing."""
    import termios
    import tty

    if not sys.stdin.isatty():
        yield lambda seconds: time.sleep(seconds)
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def pressed(seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([sys.stdin], [], [], left)[0]:
                return os.read(sys.stdin.fileno(), 1).decode(errors="replace")
        return ""

    try:
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
