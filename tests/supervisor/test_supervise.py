"""The supervisor: order, restarts with backoff, and nothing left behind however it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import waiting
from tests.processor import processor_seconds

from penstock import child
from penstock.supervisor.part import backoff_seconds

RUN = [sys.executable, str(Path(__file__).with_name("run_supervisor.py"))]


class Trial:
    """A supervisor over fake parts, and what it and they have noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *parts: str) -> subprocess.Popen[bytes]:
        self.started.append(subprocess.Popen([*RUN, str(self.folder), *parts], stderr=subprocess.PIPE))
        return self.started[-1]

    def lines(self, file: str) -> list[str]:
        try:
            return (self.folder / file).read_text().splitlines()
        except OSError:
            return []

    def until(self, holds: Callable[[], Any], timeout_seconds: float = 60.0) -> None:
        try:
            waiting.until(holds, "what was expected", timeout_seconds)
        except AssertionError as error:
            raise AssertionError(self.lines("events")) from error

    def until_ready(self) -> None:
        self.until(lambda: "all ready  " in self.lines("events"))

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "data/run/up.json").read_text())
        return found

    def pid(self, part: str) -> int:
        return int(self.state()["parts"][part]["pid"])

    def alive(self, run_id: str) -> list[int]:
        return child.marked(run_id)


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    trial = Trial(tmp_path)
    yield trial
    for process in trial.started:
        process.kill()
        process.communicate()


def test_parts_start_and_end_in_order(trial: Trial) -> None:
    up = trial.start("store:0:9:later", "taker:1:0", "giver:1:1")
    trial.until_ready()
    up.terminate()
    assert up.wait(60) == 0
    notes = trial.lines("notes")
    assert notes[0] == "store started"
    assert sorted(notes[1:3]) == ["giver started", "taker started"]
    assert notes[3:] == ["taker ended", "giver ended", "store ended"]


def test_a_part_that_dies_comes_back_and_the_reason_is_shown(trial: Trial) -> None:
    trial.start("one:0:0", "other:0:0")
    trial.until_ready()
    first, other = trial.pid("one"), trial.pid("other")
    os.kill(first, signal.SIGKILL)
    trial.until(lambda: trial.lines("events").count("ready one ") == 2)
    assert any(line.startswith("died one killed by SIGKILL") for line in trial.lines("events"))
    assert trial.pid("one") != first
    assert trial.pid("other") == other, "the others run on"


def test_the_last_words_of_a_dead_part_are_shown(trial: Trial) -> None:
    trial.start("unlucky:0:0:die")
    trial.until(lambda: len([line for line in trial.lines("events") if line.startswith("died")]) >= 2)
    deaths = [line for line in trial.lines("events") if line.startswith("died")]
    assert deaths[0] == "died unlucky exit code 3 | ValueError: no luck today | next start in 0.5 s"
    assert deaths[1].endswith("next start in 1 s")


def test_waiting_for_an_earlier_part_costs_nothing(trial: Trial) -> None:
    """Kept promise: while Kafka is between two starts, the supervisor sleeps."""
    up = trial.start("unlucky:0:0:die", "waits:1:0")

    def deaths() -> int:
        return len([line for line in trial.lines("events") if line.startswith("died")])

    trial.until(lambda: deaths() >= 2)
    before = processor_seconds(up.pid)
    trial.until(lambda: deaths() >= 3)  # a second later
    assert processor_seconds(up.pid) - before < 0.4


def test_a_start_that_must_succeed_gives_up_and_leaves_nothing(trial: Trial) -> None:
    up = trial.start("well:0:0", "unlucky:0:0:die", "--patience")
    _, errors = up.communicate(timeout=60)
    assert up.returncode == 1
    assert b"unlucky died 3 times while starting" in errors
    assert trial.lines("notes")[-1] == "well ended"


def test_what_a_part_leaves_behind_ends_with_it(trial: Trial) -> None:
    trial.start("parent:0:0:child")
    trial.until_ready()
    left = int((trial.folder / "parent.child").read_text())
    birth = child.birth_of(left)
    os.kill(trial.pid("parent"), signal.SIGKILL)
    trial.until(lambda: not child.is_alive(left, birth))


def test_a_part_that_does_not_listen_is_killed_with_all_it_started(trial: Trial) -> None:
    up = trial.start("deaf:0:0:stubborn:child")
    trial.until_ready()
    run_id = trial.state()["run_id"]
    up.terminate()
    assert up.wait(60) == 0
    assert trial.alive(run_id) == []


def test_two_supervisors_in_one_directory_are_refused_with_the_pid_of_the_first(trial: Trial) -> None:
    first = trial.start("one:0:0")
    trial.until_ready()
    second = trial.start("two:0:0")
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 1
    assert f"another `penstock up` (pid {first.pid}) runs in".encode() in errors
    assert "two started" not in trial.lines("notes")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_parts_die_with_a_killed_supervisor_and_the_next_one_ends_the_rest(trial: Trial) -> None:
    up = trial.start("parent:0:0:child", "deaf:0:0:stubborn")
    trial.until_ready()
    run_id = trial.state()["run_id"]
    grandchild = int((trial.folder / "parent.child").read_text())
    up.kill()
    up.wait()
    trial.until(lambda: trial.alive(run_id) == [grandchild])
    (trial.folder / "events").unlink()
    trial.start("one:0:0")
    trial.until_ready()
    assert trial.alive(run_id) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the mark is read from /proc")
def test_a_process_without_our_mark_is_never_touched(trial: Trial) -> None:
    up = trial.start("one:0:0")
    trial.until_ready()
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        up.kill()
        up.wait()
        state = trial.state()
        state["parts"]["one"]["pid"] = stranger.pid  # as if the pid had been given to somebody else since
        (trial.folder / "data/run/up.json").write_text(json.dumps(state))
        (trial.folder / "events").unlink()
        trial.start("one:0:0")
        trial.until_ready()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_backoff_doubles_up_to_half_a_minute() -> None:
    assert [backoff_seconds(n) for n in (1, 2, 3, 6, 7, 50)] == [0.5, 1.0, 2.0, 16.0, 30.0, 30.0]
