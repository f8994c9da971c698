"""Text of others in what a terminal shows: it stays in its line and sends no commands, in output and in logs."""

import io
import json
import logging
from typing import Any

import pytest

from penstock.cli import client, deadletters, describing, jobs
from penstock.cli.output import complain
from penstock.errors import Rejected, Unavailable
from penstock.telemetry import logs
from penstock.telemetry.log_lines import parse
from tests.control.objects import annotated, broker, config_map, stored

FORGED = "b\nProblems:\n  none"
HOSTILE = "\x1b[2J\x9b31m\x7f\u202eb\r\u2028"
JOB: dict[str, Any] = {
    "id": "1f2e3d4c", "kind": "redrive", "state": "failed", "sent": 1, "error": FORGED, "event_time": None,
    "started": "2026-01-01T00:00:00Z", "ended": None, "problems": [{"id": FORGED, "message": FORGED}],
    "plan": {
        "count": 2, "rate": 0, "first": None, "last": None, "warning": FORGED,
        "target": [{"key": "Trigger/default/audit", "count": 1, "subscriber": FORGED}],
    },
}  # fmt: skip


def described(**status: Any) -> list[str]:
    resource = annotated(stored(broker(), status=status), note=FORGED)
    return describing.text(describing.Described(resource, problems=(f"TopicReady: {FORGED}",))).splitlines()


def test_a_description_has_no_lines_of_others() -> None:
    """An annotation, a name or a condition with newlines cannot add a heading to `penstock describe`."""
    assert described().count("Problems:") == 1
    assert "  none" not in described()
    data = {"default.topic.partitions": FORGED, f"a{FORGED}": "1"}
    text = describing.text(describing.Described(stored({**config_map(), "data": data})))
    assert "Problems:" not in text.splitlines()


def test_dead_letters_and_jobs_have_no_lines_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    """An event's id, an address or an error with newlines stays in its line."""
    jobs.tell(JOB, "table")
    deadletters._show_plan(JOB, "table")
    with pytest.raises(Unavailable) as failed:
        deadletters._end(JOB, "table")
    complain(failed.value)
    found = capsys.readouterr()
    assert not {"Problems:", "  none"} & set((found.out + found.err).splitlines())
    assert "b\\nProblems:\\n  none" in found.err


def test_an_error_of_a_server_has_no_lines_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    """A refusal has a line, each of its reasons has another, and its hint is the last. Further lines are indented."""
    problems = [{"field": f"spec.{FORGED}", "message": FORGED}, {"field": "", "message": HOSTILE}]
    answer = {"error": FORGED, "hint": f"x\nerror: {FORGED}", "problems": problems}
    error = client._explained(400, json.dumps(answer).encode())
    assert isinstance(error, Rejected)
    complain(error)
    complain(ValueError(FORGED))
    lines = capsys.readouterr().err.splitlines()
    assert [line[:6] for line in lines if not line.startswith("  ")] == [
        "error:", "spec.b", "\\x1b[2", "hint: ", "error:", "hint: ",
    ]  # fmt: skip


def logged(form: str, monkeypatch: pytest.MonkeyPatch, *, debug: bool) -> str:
    monkeypatch.setenv(logs.FORMAT_VARIABLE, form)
    root, stream = logging.getLogger(), io.StringIO()
    before, level = root.handlers[:], root.level
    try:
        logs.configure("INFO", debug=debug, stream=stream)
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            logging.getLogger("penstock.test").exception("%s", HOSTILE + FORGED, extra=logs.about(event=HOSTILE))
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    return stream.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("debug", [False, True])
def test_a_log_commands_no_terminal(form: str, debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that runs in the foreground prints no control characters of events, whatever the form of its log."""
    text = logged(form, monkeypatch, debug=debug)
    assert all(each == "\n" or each.isprintable() for each in text)
    assert "Problems:" not in text.splitlines()
    if not debug:
        [line] = text.splitlines()
        found = parse(line, "receiver")
        assert found is not None
        assert found.fields["event"] == HOSTILE


def test_a_line_without_control_characters_is_not_changed() -> None:
    """Ordinary lines stay as they are, also in other scripts."""
    record = logging.LogRecord("penstock", logging.INFO, "", 0, "ä 漢字 שלום \\x1b", None, None)
    line = logs.OneLine(coloured=False, with_traces=False).format(record)
    assert line.endswith("penstock: ä 漢字 שלום \\x1b")
