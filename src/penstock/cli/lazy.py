"""Commands that are imported only when they run, so that ``--help`` costs the import of nothing else.

``app_of`` makes the application from a table of entries; the help shows the line in the table, and the command's
own module is loaded when somebody types its name. Called by ``main``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from penstock.errors import Misconfigured


@dataclass(frozen=True)
class Entry:
    """One command: its name, where its function (or group of commands) is, and its line in the help."""

    name: str
    target: str  # "module:function", below penstock.cli
    help: str
    panel: str


def app_of(entries: Iterable[Entry], help_text: str) -> typer.Typer:
    entries = tuple(entries)
    targets = {entry.name: entry.target for entry in entries}

    class LazyGroup(TyperGroup):
        """Shows the entries; resolves a typed name to the real command."""

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            name, command, rest = super().resolve_command(ctx, args)
            if name in targets:
                command = load(name, targets[name])
            return name, command, rest

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            for panel in dict.fromkeys(entry.panel for entry in entries):
                with formatter.section(panel):
                    formatter.write_dl([(entry.name, entry.help) for entry in entries if entry.panel == panel])

    # Plain help: drawing it with rich would take longer than all the rest of the command.
    app = typer.Typer(cls=LazyGroup, help=help_text, no_args_is_help=True, rich_markup_mode=None)
    for entry in entries:
        app.command(entry.name, help=entry.help)(_placeholder)
    return app


def load(name: str, target: str) -> Any:
    """The real command behind an entry."""
    module_name, _, attribute = target.partition(":")
    full_name = f"penstock.cli.{module_name}"
    try:
        found = getattr(import_module(full_name), attribute)
    except ModuleNotFoundError as error:
        if error.name != full_name:
            raise Misconfigured(
                f"`penstock {name}` needs {error.name}, which is not installed", hint="make setup"
            ) from error
        raise Misconfigured(f"`penstock {name}` is not part of this installation") from error
    if isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name)(found)
        command = typer.main.get_command(alone)
    command.name = name
    return command


def _placeholder() -> None:
    """Stands in the list of commands; never runs."""
