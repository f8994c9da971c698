"""``penstock logs``, as it is typed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]
LINES = {
    "dispatcher.log": [
        "2026-11-16T14:20:02.000Z WARNING penstock.delivery: failed event=42 subscription=Trigger/default/billing",
        "2026-11-16T14:20:03.000Z WARNING penstock.delivery: failed event=43 subscription=Trigger/shop/billing",
    ],
    "receiver.log": ["2026-11-16T14:20:01.000Z INFO    penstock.receiver: taking events"],
    "kafka.log": ["2026-11-16T14:20:00.000Z ERROR Broker: away", "\tat somewhere"],
}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    for name, lines in LINES.items():
        (tmp_path / "logs" / name).write_text("".join(line + "\n" for line in lines))
    return tmp_path


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*PENSTOCK, "logs", *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_all_parts_in_one_order(data_dir: Path) -> None:
    """Kept promise: one stream, the oldest first, plain when piped."""
    shown = run("--data-dir", str(data_dir))
    assert shown.returncode == 0
    assert [line.split()[2] for line in shown.stdout.splitlines() if line[0] == "2"] == [
        "kafka",
        "receiver",
        "dispatcher",
        "dispatcher",
    ]
    assert "\x1b" not in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "events"),
    [
        (["--event", "42"], ["42"]),
        (["--subscription", "billing"], ["42", "43"]),
        (["--subscription", "shop/billing"], ["43"]),
        (["--subscription", "trigger/default/billing", "--level", "warning", "dispatcher"], ["42"]),
        (["--event", "42", "receiver"], []),
    ],
)
def test_lines_are_picked_out(data_dir: Path, arguments: list[str], events: list[str]) -> None:
    """By event, subscription, level and part; JSON lines have the documented keys."""
    shown = run(*arguments, "-o", "json", "--data-dir", str(data_dir))
    assert shown.returncode == 0, shown.stderr
    found = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [line["fields"]["event"] for line in found] == events
    assert all(line.keys() == {"time", "level", "part", "logger", "message", "fields"} for line in found)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["recevier"], 2, "did you mean receiver?"),
        (["--level", "wrning"], 2, "did you mean warning?"),
        (["--since", "soon"], 2, "10m"),
        (["-o", "yaml"], 2, "text, json"),
    ],
)
def test_what_is_mistyped_is_explained(data_dir: Path, arguments: list[str], code: int, words: str) -> None:
    """A wrong word gets the right one as a hint."""
    shown = run(*arguments, "--data-dir", str(data_dir))
    assert (shown.returncode, shown.stdout) == (code, "")
    assert words.replace("10m", "2m") in shown.stderr


def test_without_logs_there_is_a_hint(tmp_path: Path) -> None:
    """Nothing there is an error of at most three lines, with what to do."""
    shown = run("--data-dir", str(tmp_path / "none"))
    assert shown.returncode == 1
    assert "hint:" in shown.stderr
    assert len(shown.stderr.splitlines()) <= 3


def test_following_until_it_is_interrupted(data_dir: Path) -> None:
    """What is said later is shown at once; Ctrl-C ends with 130."""
    output = data_dir / "shown.txt"
    with output.open("w") as stdout:
        command = [*PENSTOCK, "logs", "-f", "receiver", "--data-dir", str(data_dir)]
        process = subprocess.Popen(command, stdout=stdout, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        until(lambda: "taking events" in output.read_text(), "what was said before")
        with (data_dir / "logs" / "receiver.log").open("a") as log:
            log.write("2026-11-16T14:21:00.000Z INFO    penstock.receiver: something new\n")
        until(lambda: "something new" in output.read_text(), "what was said later")
    finally:
        process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    assert output.read_text().count("taking events") == 1
