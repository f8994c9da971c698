"""Logs: how they are written, read again, merged and followed."""

import io
import json
import logging
import os
import re
import time
from pathlib import Path

import pytest

from penstock.errors import Misconfigured
from penstock.telemetry import logs
from penstock.telemetry.log_files import FollowedFolder, log_files, merged
from penstock.telemetry.log_lines import parse, parse_all

OURS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING penstock\.test: ")


def written(monkeypatch: pytest.MonkeyPatch, form: str, message: str, **fields: object) -> str:
    """What a process would write."""
    monkeypatch.setenv(logs.FORMAT_VARIABLE, form)
    root, stream = logging.getLogger(), io.StringIO()
    before, level = root.handlers[:], root.level
    try:
        logs.configure("INFO", stream=stream)
        logging.getLogger("penstock.test").warning("%s", message, extra=logs.about(**fields))
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    return stream.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_written_is_read_again(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Kept promise: whatever an event's id holds, its line can be found by it."""
    awkward = {"event": 'a "b" c=d\\', "source": "/x y", "topic": "t", "partition": "0", "offset": "5"}
    line = written(monkeypatch, form, "not delivered: event=fake", **awkward, subscription=None)
    assert line.count("\n") == 1
    found = parse(line, "dispatcher")
    assert found is not None
    assert dict(found.fields) == awkward
    assert (found.level, found.part, found.logger) == ("WARNING", "dispatcher", "penstock.test")
    assert abs(found.time - time.time()) < 60


def test_a_line_stays_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time, level, logger, message; the fields stand behind them."""
    line = written(monkeypatch, "text", "given up", event="42", offset=7)
    assert OURS.sub("", line) == "given up event=42 offset=7\n"
    assert written(monkeypatch, "text", "plain").endswith("penstock.test: plain\n")


@pytest.mark.parametrize("form", ["text", "json"])
def test_passwords_are_left_out(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """An address in a log has no user and no password."""
    line = written(monkeypatch, form, "sent to http://me:hush@host/a", source="https://you:hush@there")
    assert "hush" not in line
    assert "http://host/a" in line


def test_an_unknown_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variable is named, with what it may be."""
    monkeypatch.setenv(logs.FORMAT_VARIABLE, "xml")
    with pytest.raises(Misconfigured, match=r"PENSTOCK_LOG_FORMAT.*text, json"):
        logs.configure()


def test_lines_of_others_have_the_same_shape() -> None:
    """Kafka's and Spark's lines, and what follows them, become the same values."""
    lines = [
        "WARNING: Using incubator modules",
        "26/11/16 14:20:41 WARN SparkConf: Note this",
        "2026-11-16T14:25:04.491Z ERROR ReplicaManager: [broker=1] Error topic=x",
        "java.lang.Exception: no",
        "\tat java.base/x",
        "2026-11-16T14:25:05.000Z INFO  Log: on",
    ]
    first, spark, error, last = parse_all(lines, "kafka", 5.0)
    assert (first.time, first.message) == (spark.time, "WARNING: Using incubator modules")
    assert [line.time for line in parse_all(["no time"], "kafka", 5.0)] == [5.0]
    assert spark.time == time.mktime((2026, 11, 16, 14, 20, 41, 0, 0, -1))
    assert (spark.level, spark.logger, spark.message) == ("WARNING", "SparkConf", "Note this")
    assert error.message == "[broker=1] Error topic=x\njava.lang.Exception: no\n\tat java.base/x"
    assert not error.fields
    assert (last.level, last.message) == ("INFO", "on")


def test_the_last_word_of_a_process_is_an_error() -> None:
    """Why a part did not start is found among the errors, with its hint."""
    lines = ["2026-11-16T14:25:05.000Z INFO    penstock: on", "error: port 80 is taken", "hint: take another"]
    before, last = parse_all(lines, "receiver")
    assert (last.time, last.level, last.message) == (before.time, "ERROR", "port 80 is taken\nhint: take another")


def say(path: Path, second: int, what: str, **fields: object) -> None:
    told = f" {logs.logfmt(fields)}" if fields else ""
    with path.open("a") as log:
        log.write(f"2026-11-16T14:20:{second:02d}.000Z INFO    penstock.test: {what}{told}\n")


def test_files_are_merged_by_time(tmp_path: Path) -> None:
    """Also those that were moved aside, the oldest first."""
    receiver, kafka = tmp_path / "receiver.log", tmp_path / "kafka.log"
    say(receiver, 1, "one")
    say(receiver, 3, "three")
    logs.keep_bounded(receiver, max_bytes=10)
    say(receiver, 5, "five")
    say(kafka, 2, "two")
    say(kafka, 4, "four")
    found = list(merged(log_files(tmp_path)))
    assert [line.message for line in found] == ["one", "two", "three", "four", "five"]
    assert [line.part for line in found[:2]] == ["receiver", "kafka"]
    since = list(merged(log_files(tmp_path), found[2].time))
    assert [line.message for line in since] == ["three", "four", "five"]


def test_following_goes_on_when_a_file_is_moved_aside(tmp_path: Path) -> None:
    """By truncation, as the supervisor does it, and by renaming, as Kafka does; nothing is missed or shown twice."""
    ours, kafka, late = (tmp_path / f"{name}.log" for name in ("receiver", "kafka", "up"))
    say(ours, 1, "before " + "x" * 200)
    say(kafka, 1, "before")
    followed = FollowedFolder(tmp_path, [])
    beginnings = followed.beginnings
    assert followed.new_lines() == []
    say(ours, 2, "one")
    assert [line.message for line in merged(log_files(tmp_path), 0.0, beginnings)][-1].startswith("before")
    logs.keep_bounded(ours, max_bytes=10)
    say(ours, 3, "two")
    say(kafka, 4, "three")
    os.rename(kafka, tmp_path / "kafka.log.1")
    say(kafka, 5, "four")
    say(late, 6, "five")
    assert [line.message for line in followed.new_lines()] == ["one", "two", "three", "four", "five"]
    assert followed.new_lines() == []
    with ours.open("a") as log:
        log.write("2026-11-16T14:21:00.000Z INFO    penstock.test: half")
    assert followed.new_lines() == []
    with ours.open("a") as log:
        log.write(" a line\n")
    assert [line.message for line in followed.new_lines()] == ["half a line"]


def test_json_lines_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """One value a line, with the keys that are documented."""
    value = json.loads(written(monkeypatch, "json", "two\nlines", event="1"))
    assert value.keys() == {"time", "level", "logger", "message", "fields"}
    assert value["message"] == "two\nlines"
