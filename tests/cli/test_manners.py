"""Every command keeps its manners, on an empty system and on a filled one.

JSON that is JSON, no colours in a pipe, exit codes that say what happened, errors of at most three lines with a hint,
help with an example at once. Commands are found in the table of the command line; how each is called says
``manners.py``.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from penstock.cli import main
from penstock.cli.lazy import load
from tests.cli.manners import CALLS, TRIGGER, Call, Leave
from tests.conftest import PENSTOCK, System
from tests.waiting import until

ANSI = "\x1b"
HELP_SECONDS = 0.3  # of processor time
OUR_SHARE_SECONDS = 0.15  # of it, beside what the library for command lines takes by itself
HEAVY = ("pyspark", "confluent_kafka", "kafka", "pycurl", "starlette", "rich.progress", "yaml")
NAMES = {"broker": "manners", "trigger": "manners", "letter": "manners-1"}
FILLED = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: manners}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: manners}
spec:
  broker: manners
  subscriber: {uri: "http://127.0.0.1:9/nobody-there"}
"""
BAD = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: manners-good}
---
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: NOT_A_NAME}
"""


def all_commands() -> dict[str, Any]:
    """Every command with its words, groups opened."""
    found: dict[str, Any] = {}

    def add(words: str, command: Any) -> None:
        below = getattr(command, "commands", None)
        if not below:
            found[words] = command
        for name, each in (below or {}).items():
            add(f"{words} {name}", each)

    for entry in main.COMMANDS:
        add(entry.name, load(entry.name, entry.target))
    return found


COMMANDS = all_commands()
RUN = [words for words in COMMANDS if isinstance(CALLS.get(words), Call)]


def call_of(words: str) -> Call:
    found = CALLS[words]
    assert isinstance(found, Call)
    return found


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def typed(system: System, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None) -> Done:
    """A command as it is typed, but in this process: half a second of imports each would add up.

    Not so where Spark is started: its Java would stay, as this command wants it, for all tests that come later.
    """
    out, err = io.StringIO(), io.StringIO()
    variables = {"PENSTOCK_SERVER": system.admin_url, "PENSTOCK_DATA_DIR": str(system.data_dir)}
    if arguments[:1] == ("cesql",) or arguments[:2] == ("trigger", "test"):
        told = {**os.environ, **variables, **(environment or {})}
        done = subprocess.run(
            [*PENSTOCK, *arguments], input=stdin, env=told, capture_output=True, text=True, timeout=100, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)
    with (
        mock.patch.dict(os.environ, {**variables, **(environment or {})}),
        mock.patch("sys.stdin", io.StringIO(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main.run(list(arguments))
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def words_of(call: Call, words: str, folder: Path) -> list[str]:
    (folder / "x.yaml").write_text(TRIGGER)
    names = {**NAMES, "nowhere": str(folder / "nowhere"), "file": str(folder / "x")}
    return [*words.split(), *(each.format(**names) if "{" in each else each for each in call.arguments)]


@pytest.fixture(scope="module")
def empty(penstock_up: System) -> System:
    return penstock_up


@pytest.fixture(scope="module")
def filled(penstock_up: System) -> Iterator[System]:
    """With a broker, a trigger, and an event that its subscriber did not take."""
    applied = typed(penstock_up, "apply", "-f", "-", stdin=FILLED)
    assert applied.returncode == 0, applied.stderr
    assert typed(penstock_up, "wait", "trigger/manners", "--timeout", "60s").returncode == 0
    sent = typed(penstock_up, "send", "broker/manners", "--type", "t", "--source", "/manners", "--id", "manners-1")
    assert sent.returncode == 0, sent.stderr
    until(lambda: "manners-1" in typed(penstock_up, "deadletters", "list").stdout, "the event is given up")
    yield penstock_up
    typed(penstock_up, "delete", "-f", "-", stdin=FILLED)


def test_every_command_says_here_how_it_is_called() -> None:
    """For a new one: an entry in manners.py."""
    assert [words for words in COMMANDS if words not in CALLS] == []


def look_at(done: Done, expected: int, what: str) -> None:
    assert done.returncode == expected, f"{what}: {done.stdout}{done.stderr}"
    assert ANSI not in done.stdout + done.stderr, what
    if expected in (1, 2):
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        problem = lines[next((i for i, line in enumerate(lines) if line.startswith("error:")), 0) :]
        assert problem, f"{what} failed without a word"
        assert problem[0].startswith("error: "), f"{what}: {done.stderr}"
        assert len(problem) <= 3, f"{what}: {done.stderr}"
        assert "Traceback" not in done.stderr


def look_at_json(done: Done, call: Call, what: str) -> None:
    if call.json == "lines":
        for line in done.stdout.splitlines():
            json.loads(line)
    elif done.returncode == 0:
        assert json.loads(done.stdout) is not None, what
    else:
        assert not done.stdout or json.loads(done.stdout) is not None, what


def look(system: System, words: str, folder: Path, expected: int) -> None:
    """Runs it as a person does and as a script does."""
    call = call_of(words)
    if not call.is_slow or not call.has_json_flag:
        done = typed(system, *words_of(call, words, folder), stdin=call.stdin)
        look_at(done, expected, words)
    if call.json and call.has_json_flag:
        done = typed(system, *words_of(call, words, folder), "-o", "json", stdin=call.stdin)
        look_at(done, expected, words)
    if call.json:
        look_at_json(done, call, words)


@pytest.mark.parametrize("words", RUN)
def test_on_an_empty_system(empty: System, tmp_path: Path, words: str) -> None:
    look(empty, words, tmp_path, call_of(words).empty)


@pytest.mark.parametrize("words", [each for each in RUN if call_of(each).needs_server])
def test_when_no_server_answers(words: str, tmp_path: Path) -> None:
    away = System("", "http://127.0.0.1:1", "127.0.0.1:1", tmp_path)
    call = call_of(words)
    done = typed(away, *words_of(call, words, tmp_path), stdin=call.stdin)
    look_at(done, 1, words)
    assert "http://127.0.0.1:1 cannot be reached" in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize("words", [each for each in RUN if not call_of(each).is_alike])
def test_on_a_filled_system(filled: System, tmp_path: Path, words: str) -> None:
    look(filled, words, tmp_path, call_of(words).filled)


@pytest.mark.parametrize("words", list(COMMANDS))
def test_wrong_usage_is_two_lines_and_exit_code_2(empty: System, words: str) -> None:
    done = typed(empty, *words.split(), "--no-such-option")
    look_at(done, 2, words)
    assert "--no-such-option" in done.stderr
    assert f"hint: penstock {words} --help" in done.stderr


@pytest.mark.parametrize("words", [each for each in RUN if call_of(each).json and call_of(each).has_json_flag])
def test_an_unknown_format_is_refused_with_the_known_ones(empty: System, tmp_path: Path, words: str) -> None:
    call = call_of(words)
    done = typed(empty, *words_of(call, words, tmp_path), "-o", "xml", stdin=call.stdin)
    look_at(done, 2, words)
    assert "xml" in done.stderr
    assert "json" in done.stderr


def test_near_names_are_suggested(filled: System) -> None:
    for arguments, near in (
        (("statsu",), "status"),
        (("deadletters", "lst"), "list"),
        (("get", "triggrs"), "triggers"),
        (("describe", "trigger", "maners"), "manners"),
        (("settings", "reciever"), "receiver"),
        (("profile", "workr"), "worker"),
    ):
        done = typed(filled, *arguments)
        assert done.returncode in (1, 2), arguments
        assert near in done.stderr, done.stderr
        assert "did you mean" in done.stderr.lower(), done.stderr


def test_some_of_several_failed_is_exit_code_3(filled: System) -> None:
    done = typed(filled, "apply", "-f", "-", stdin=BAD)
    assert done.returncode == 3, done.stderr
    done = typed(filled, "delete", "broker", "manners-good", "manners-missing")
    assert done.returncode == 3, done.stderr


def test_waiting_in_vain_is_exit_code_5(filled: System) -> None:
    done = typed(filled, "wait", "trigger/manners", "--for", "condition=Ready=False", "--timeout", "300ms")
    assert done.returncode == 5, done.stderr


@pytest.mark.parametrize("words", list(COMMANDS))
def test_help_begins_with_what_it_does_and_an_example(empty: System, words: str) -> None:
    done = typed(empty, *words.split(), "--help")
    assert done.returncode == 0
    assert ANSI not in done.stdout
    examples = re.findall(rf"^ +(?:[A-Z_]+=\S+ )?penstock {words}\b.*$", done.stdout, re.MULTILINE)
    assert examples, f"{words} shows no example"
    assert done.stdout.index(examples[0]) < done.stdout.index("Options:"), "examples come first"
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


HELPS = """
import contextlib, io, json, sys, time
from penstock.cli import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main.run([*words.split(), "--help"])
    loaded = [each for each in json.loads(sys.argv[2]) if each in sys.modules]
    assert not loaded, f"{words} loads {loaded}"
print(time.process_time())
"""
LIBRARY = "import time, typer, typer._adapters; print(time.process_time())"


def test_help_loads_nothing_that_it_does_not_need() -> None:
    _python(HELPS, json.dumps(list(COMMANDS)), json.dumps(HEAVY))


@pytest.mark.parametrize("words", ["", "get", "must-gather"])
def test_help_is_there_at_once(words: str) -> None:
    """In processor time, since others may want the machine too; beyond the library's own share when that is slow.

    The least of a few tries: a machine that is slow for a moment makes it more, nothing makes it less."""
    tries = [(_python(LIBRARY), _python(HELPS, json.dumps([words]), "[]")) for _ in range(3)]
    by_itself, helping = (min(float(each.stdout) for each in column) for column in zip(*tries, strict=True))
    assert helping < max(HELP_SECONDS, by_itself + OUR_SHARE_SECONDS)


def _python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran


def test_those_that_are_left_out_say_why() -> None:
    assert all(each.why for each in CALLS.values() if isinstance(each, Leave))
