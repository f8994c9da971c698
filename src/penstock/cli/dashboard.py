"""``penstock dashboard``: a link that signs in one browser."""

import os
from typing import Annotated

import typer

from penstock.cli import options
from penstock.cli.output import say, show, show_json


def dashboard(
    open_: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the link in a browser. Default: only on a machine with a desktop."
        ),
    ] = None,
    output: options.PlainOutput = "table",
    server: options.Server = options.DEFAULT_SERVER,
) -> None:
    """Prints a link to the dashboard. It works once and expires after two minutes.

    \b
    penstock dashboard
    penstock dashboard --no-open
    penstock dashboard --server http://10.0.0.5:8090 --token-file admin.token

    The link signs in one browser for twelve hours. The browser never gets the token itself.
    """
    from penstock.cli.client import Client

    options.checked(output, "table", "json")
    client = Client(server)
    url = client.server + str(client.post("/api/penstock/login-link", {})["path"])
    if output == "json":
        show_json({"url": url})
        return
    show(url)
    if open_ or (open_ is None and _has_desktop()):
        import webbrowser

        if not webbrowser.open(url):
            say("no browser could be opened: open the link yourself")


def _has_desktop() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
