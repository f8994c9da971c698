"""``penstock logs``: what all parts have said, in one order, with an event's or a subscription's lines picked out."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import options
from penstock.cli.output import coloured, say, show, show_json

if TYPE_CHECKING:
    from penstock.telemetry.log_lines import LogLine

LOOK_SECONDS = 0.2
PARTS = ("controller", "receiver", "dispatcher", "kafka", "up")
COLOURS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


def logs(  # noqa: PLR0913 (one option per question)
    parts: Annotated[
        list[str] | None, typer.Argument(help=f"Of these only: {', '.join(PARTS)}.", metavar="PART…")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is said from now on.")] = False,
    since: Annotated[str, typer.Option(help="Not older than this: 30s, 10m, 2h.", metavar="TIME")] = "",
    level: Annotated[str, typer.Option(help="At least: debug, info, warning, error.", metavar="LEVEL")] = "debug",
    event: Annotated[str, typer.Option(help="About the event with this id.", metavar="ID")] = "",
    subscription: Annotated[
        str, typer.Option(help="About this one: NAME, NAMESPACE/NAME or KIND/NAMESPACE/NAME.", metavar="NAME")
    ] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.", metavar="FORMAT")] = "text",
    data_dir: Annotated[
        str, typer.Option(envvar="PENSTOCK_DATA_DIR", help="The data directory that `up` was given.", metavar="DIR")
    ] = ".penstock",
) -> None:
    """Shows the logs of all parts, merged by time.

    \b
    penstock logs -f
    penstock logs receiver dispatcher --since 10m --level warning
    penstock logs --event 4711 -o json
    penstock logs --subscription default/billing

    Reads the files of a data directory, also while nothing runs there. JSON lines have time, level, part, logger,
    message and fields.
    """
    from penstock.telemetry.log_files import FollowedFolder, chosen, log_files, merged

    options.checked(output, "text", "json")
    wanted = _Wanted(_level(level), event, subscription)
    earliest = time.time() - options.seconds(since) if since else 0.0
    folder = Path(data_dir).expanduser().absolute() / "logs"
    files = _files(folder, log_files(folder), parts or [])
    followed = (
        FollowedFolder(folder, parts or []) if follow else None
    )  # first: nothing is missed, and nothing doubled
    shown = 0
    for line in merged(chosen(files, parts or []), earliest, followed.beginnings if followed else None):
        if wanted.fits(line):
            shown += 1
            _show(line, output)
    if followed is None:
        if not shown:
            say(f"none of the lines in {folder} is meant by this")
        return
    while True:
        for line in followed.new_lines():
            if wanted.fits(line):
                _show(line, output)
        time.sleep(LOOK_SECONDS)


class _Wanted:
    """Which lines are shown."""

    def __init__(self, level: int, event: str, subscription: str) -> None:
        self._level = level
        self._event = event
        self._subscription = subscription

    def fits(self, line: "LogLine") -> bool:
        from penstock.telemetry.log_lines import LEVELS

        if LEVELS.index(line.level) < self._level:
            return False
        if self._event and line.fields.get("event") != self._event:
            return False
        if not self._subscription:
            return True
        named = line.fields.get("subscription", "").split("/")
        asked = self._subscription.split("/")
        return [part.lower() for part in named[-len(asked) :]] == [part.lower() for part in asked]


def _level(name: str) -> int:
    from penstock.control.kinds import nearest
    from penstock.errors import Misused
    from penstock.telemetry.log_lines import LEVELS, OTHER_NAMES

    found = OTHER_NAMES.get(name.upper(), name.upper())
    if found in LEVELS:
        return LEVELS.index(found)
    near = nearest(name.lower(), [each.lower() for each in LEVELS])
    raise Misused(
        f'there is no level "{name}"', hint=f"did you mean {near}?" if near else "debug, info, warning, error"
    )


def _files(folder: Path, found: "list[LogFile]", parts: list[str]) -> "list[LogFile]":  # type: ignore[name-defined]  # noqa: F821
    """Raises when there is nothing to read, or a part is meant that never was."""
    from penstock.control.kinds import nearest
    from penstock.errors import Misconfigured, Misused
    from penstock.telemetry.log_files import chosen

    if not found:
        why = "that directory does not exist" if not folder.parent.is_dir() else "nothing was started there"
        raise Misconfigured(
            f"there are no logs in {folder}: {why}", hint="name the directory of `penstock up` with --data-dir"
        )
    for part in parts:
        if not chosen(found, [part]) and part not in PARTS:
            near = nearest(part, PARTS)
            hint = f"did you mean {near}?" if near else f"known are {', '.join(PARTS)}"
            raise Misused(f'there is no part "{part}"', hint=hint)
    return found


def _show(line: "LogLine", output: str) -> None:
    if output == "json":
        show_json(line.value(), line=True)
        return
    colour = COLOURS.get(line.level)
    show(coloured(line.text(), colour) if colour else line.text())
