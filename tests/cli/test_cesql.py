"""``penstock cesql`` as people and programs use it."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PENSTOCK

QUESTIONS = [
    ({"expression": "1 + 1"}, {"result": 2, "error": None}),
    ({"expression": "subject", "event": {"subject": "ä"}}, {"result": "ä", "error": None}),
    ({"expression": "n = 5", "event": {"n": 5}}, {"result": True, "error": None}),
    ({"expression": "missing = 5"}, {"result": False, "error": "missingAttribute"}),
    ({"expression": "ABC("}, {"result": False, "error": "parse"}),
    ({"expression": "EXISTS id"}, {"result": True, "error": None}),
]


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PENSTOCK, "cesql", *arguments], input=stdin, capture_output=True, text=True, timeout=100, check=False
    )


def test_lines_in_lines_out() -> None:
    """Kept promise: one answer for each question, in order, all in one Spark."""
    done = run("--stdin", stdin="".join(json.dumps(question) + "\n\n" for question, _ in QUESTIONS))
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [answer for _, answer in QUESTIONS]


def test_one_expression_on_an_event_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text('{"specversion": "1.0", "id": "1", "source": "/s", "type": "order.placed", "data": {"n": 1}}')
    done = run("type LIKE 'order.%'", "--event", str(path))
    assert json.loads(done.stdout) == {"result": True, "error": None}


def test_what_cannot_be_read_is_shown_with_its_place() -> None:
    done = run("type = 'a' AND )")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "parse"
    assert "  type = 'a' AND )\n                 ^" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "told"),
    [
        ((), "", 2, "EXPRESSION or --stdin"),
        (("1", "--stdin"), "", 2, "EXPRESSION or --stdin"),
        (("1", "--event", "/does/not/exist"), "", 1, "/does/not/exist cannot be read"),
        (("1", "--event", "-"), "{", 1, "cannot be read as an event"),
        (("--stdin",), "{}\n", 1, "line 1 of stdin"),
        (("--stdin",), '{"expression": 1}\n', 1, "line 1 of stdin"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], stdin: str, code: int, told: str) -> None:
    done = run(*arguments, stdin=stdin)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr
