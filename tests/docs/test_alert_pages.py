"""Every alert has a page that says what to do, and the commands on it exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.lazy import load
from penstock.cli.main import COMMANDS
from penstock.telemetry.alerts import Alert, all_alerts

PAGES = Path(__file__).parents[2] / "docs" / "alerts"
COMMAND = re.compile(r"^penstock .*$|`(penstock [^`]+)`", re.MULTILINE)


def test_there_is_a_page_for_each_alert_and_none_besides() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {"README", *(each.page for each in all_alerts())}


def test_the_list_of_alerts_names_them_all_with_their_severity() -> None:
    text = (PAGES / "README.md").read_text()
    assert [
        each.name for each in all_alerts() if f"[{each.name}]({each.page}.md) | {each.severity} |" not in text
    ] == []


@pytest.mark.parametrize("alert", all_alerts(), ids=lambda each: each.page)
def test_a_page_says_what_the_alert_means_and_what_to_do_with_commands_that_exist(alert: Alert) -> None:
    text = (PAGES / f"{alert.page}.md").read_text()
    assert text.startswith(f"# {alert.name}\n")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## What it means", "## See more", "## What to do"]
    shown = [found.group(1) or found.group(0) for found in COMMAND.finditer(text)]
    assert shown
    assert [(each, problem) for each in shown if (problem := unknown(each))] == []
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert [link for link in links if not (PAGES / link).exists()] == []


def unknown(command: str) -> str:
    """What in a command line this Penstock does not know; empty when it knows all of it."""
    _, name, *words = shlex.split(command.replace("…", ""), comments=True)
    targets = {entry.name: entry.target for entry in COMMANDS}
    if name not in targets:
        return f"no command {name}"
    at: Any = load(name, targets[name])
    while words and words[0] in getattr(at, "commands", {}):
        at = at.commands[words.pop(0)]
    options = {option for parameter in at.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
    return next((f"{at.name} has no {word}" for word in given if word not in options), "")


def test_a_command_that_does_not_exist_would_be_noticed() -> None:
    assert unknown("penstock fly --high") == "no command fly"
    assert unknown("penstock deadletters list --loud") == "list has no --loud"
    assert unknown("penstock trigger reset NAME --to latest --dry-run") == ""
