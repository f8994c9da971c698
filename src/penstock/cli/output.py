"""What commands print: tables that never wrap, JSON, YAML. Data goes to stdout, all else to stderr.

On a terminal, columns that do not fit are dropped, the least needed first; a pipe gets everything, without colour.
All text passes ``visible`` on its way out: control characters in text from others never reach the terminal.
"""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from penstock.errors import PenstockError
from penstock.visible import colour as visible_colour
from penstock.visible import escaped, is_hidden, visible, visible_line

GAP = 3
COLOURS = {"green": "32", "red": "31", "yellow": "33", "bold": "1"}


@dataclass(frozen=True)
class Column:
    heading: str
    keep: int = 100  # when the line is too long, columns with the smallest number go first
    right: bool = False
    shorten: bool = False  # may be cut at the end, with "…", before a column is dropped for it


def say(text: str) -> None:
    """A message for people, beside the data."""
    typer.echo(visible(text), err=True)


def show(text: str) -> None:
    """Data."""
    typer.echo(visible(text))


def draw(lines: Sequence[str], over: int) -> None:
    """Lines in place of as many that were drawn before."""
    above = f"\x1b[{over}F\x1b[J" if over else ""
    sys.stdout.write(above + "".join(f"{visible(line)}\n" for line in lines))
    sys.stdout.flush()


def show_json(value: Any, *, line: bool = False) -> None:
    typer.echo(escaped(json.dumps(value, ensure_ascii=False, indent=None if line else 2)))


def show_yaml(value: Any) -> None:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Escapes stand only in double quotes."""

    def text(dumper: Dumper, given: str) -> yaml.ScalarNode:
        style = '"' if is_hidden(given) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", given, style)

    Dumper.add_representer(str, text)
    shown = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1000)
    typer.echo(escaped(shown.rstrip("\n")))


def kubernetes_list(items: Sequence[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(items)}


def width() -> int | None:
    """How wide the output may be; None when nobody looks at it line by line."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def coloured(text: str, colour: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return visible_colour(text, COLOURS[colour])


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], limit: int | None = None) -> list[str]:
    """The lines of a table no wider than the limit."""
    rows = [[visible_line(cell) for cell in row] for row in rows]
    kept = list(range(len(columns)))
    widths = [max([len(c.heading), *(len(row[i]) for row in rows)]) for i, c in enumerate(columns)]
    while limit is not None and _line_width(kept, widths) > limit:
        excess = _line_width(kept, widths) - limit
        least = min(kept, key=lambda i: columns[i].keep)
        shortened = max((i for i in kept if columns[i].shorten), key=lambda i: widths[i], default=None)
        if shortened is not None and widths[shortened] - excess >= max(12, len(columns[shortened].heading)):
            widths[shortened] -= excess
        elif len(kept) > 1:
            kept.remove(least)
        else:
            widths[kept[0]] = max(1, limit)
            break
    lines = [_line(columns, [c.heading for c in columns], kept, widths)]
    return lines + [_line(columns, row, kept, widths) for row in rows]


def _line_width(kept: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[i] for i in kept) + GAP * (len(kept) - 1)


def _line(columns: Sequence[Column], cells: Sequence[str], kept: Sequence[int], widths: Sequence[int]) -> str:
    shown = []
    for i in kept:
        text = cells[i] if len(cells[i]) <= widths[i] else cells[i][: widths[i] - 1] + "…"
        shown.append(text.rjust(widths[i]) if columns[i].right else text.ljust(widths[i]))
    return (" " * GAP).join(shown).rstrip()


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    lines = table(columns, rows, width())
    show(coloured(lines[0], "bold"))
    for line in lines[1:]:
        show(painted(line))


def painted(line: str) -> str:
    """The states in a line of a table in their colours: the word says it too."""
    for word, colour in (("True", "green"), ("running", "green"), ("False", "red"), ("not answering", "red")):
        before, found, after = line.partition(f" {word} ")
        if found:
            return f"{before} {coloured(word, colour)} {after}"
    return line


def age(seconds: float) -> str:
    """How long ago, as kubectl shows it: 45s, 3m, 5h, 2d."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size * 2 or (seconds >= size and unit == "d"):
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def complain(error: Exception) -> None:
    """An error on stderr, for a person: what failed and why, and what to do."""
    has_colours = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    label = visible_colour("error:", "1;31") if has_colours else "error:"
    if isinstance(error, PenstockError):
        what, hint = error.message, error.hint
    else:
        what = visible_line(f"{type(error).__name__}: {error}")
        hint = "this is a fault of Penstock; --debug shows where it is"
    say(f"{label} {what}")
    if hint:
        say(visible_line(f"hint: {hint}"))
