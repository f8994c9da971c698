"""Promises of the marks: what a worker died of is known to its successor."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.pipeline.marks import NOTHING, STATE, Marks, WorkerWatch
from tests.waiting import until


def test_an_event_that_ends_two_workers_is_poison(tmp_path: Path) -> None:
    """Kept promise: twice the same, and it is known; a worker that dies of nothing in particular accuses nobody."""
    path = tmp_path / "marks" / "topic-0"
    Marks(path).touch(7)  # and it was gone
    second = Marks(path)
    assert second.poison == NOTHING
    second.touch(7)
    third = Marks(path)
    assert third.poison == 7
    third.touch(8)
    third.leave()
    assert Marks(path).poison == 7  # killed by somebody while it touched nothing


def test_two_different_ones_are_not(tmp_path: Path) -> None:
    """Kept promise: two kills from outside do not cost an event."""
    path = tmp_path / "topic-0"
    for offset in (7, 8, 7, 9):
        Marks(path).touch(offset)
    assert Marks(path).poison == NOTHING


def test_an_orderly_end_accuses_nobody(tmp_path: Path) -> None:
    """Kept promise: what was touched when a worker ended in order is not counted."""
    path = tmp_path / "topic-0"
    for _ in range(3):
        marks = Marks(path)
        marks.touch(7)
        marks.close()
    assert Marks(path).poison == NOTHING


def test_who_is_gone_without_a_word_is_noticed(tmp_path: Path) -> None:
    """Kept promise: the dispatcher knows of a worker that died, however quiet; not of one that ended in order."""
    alive, ended = Marks(tmp_path / "a", 11), Marks(tmp_path / "b", 12)
    ended.close()
    child = os.fork()
    if not child:
        Marks(tmp_path / "c", 13)
        os._exit(9)
    os.waitpid(child, 0)
    assert WorkerWatch(tmp_path).dead() == {13}
    alive.close()


def test_who_has_failed_is_noticed_though_it_lives(tmp_path: Path) -> None:
    """Kept promise: one that failed waits for Spark to end it; nobody waits for that; what it touched is known."""
    path = tmp_path / "topic-0"
    for query in (11, 12):
        failed = Marks(path, query)
        failed.touch(7)
        failed.fail()
        failed.close()  # too late
        assert WorkerWatch(tmp_path).dead() == {query}
    assert Marks(path).poison == 7


def test_who_failed_after_its_successor_began_says_nothing(tmp_path: Path) -> None:
    """Kept promise: nobody ends a query that goes well."""
    path = tmp_path / "topic-0"
    old = Marks(path, 1)
    path.write_bytes(STATE.pack(NOTHING, NOTHING, 0, os.getppid(), 2, 0))
    old.fail()
    assert WorkerWatch(tmp_path).dead() == set()


def test_a_predecessor_that_is_still_at_work_accuses_nobody(tmp_path: Path) -> None:
    """Kept promise: in a take-over the old worker touches events while the new one begins; and ends after it."""
    path = tmp_path / "topic-0"
    report, orders = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        old = Marks(path, 1)
        old.touch(7)
        os.write(report[1], b"x")
        os.read(orders[0], 1)
        old.close()
        os._exit(0)
    os.read(report[0], 1)
    new = Marks(path, 2)
    new.touch(9)
    os.write(orders[1], b"x")
    os.waitpid(child, 0)
    assert WorkerWatch(tmp_path).dead() == set()
    assert STATE.unpack(path.read_bytes()) == (9, NOTHING, 0, os.getpid(), 2, 0)


def test_whether_a_query_has_begun_to_take_over(tmp_path: Path) -> None:
    """Kept promise: a query that failed while it stood by has taken nothing; one whose worker had rows may have."""
    watch = WorkerWatch(tmp_path)
    Marks(tmp_path / "topic-standby-0", 11).fail()
    ended = Marks(tmp_path / "topic-0", 11)
    (tmp_path / "topic-1").write_bytes(b"half")  # it is being made
    ended.close()
    assert not watch.has_begun(11)
    Marks(tmp_path / "topic-1", 11).fail()
    assert watch.has_begun(11)
    assert not watch.has_begun(12)


class Clock:
    """In the place of the module ``time``, for the watch alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("penstock.pipeline.marks.time", self)

    def monotonic(self) -> float:
        return self.now


@contextmanager
def hanging_worker(path: Path, query: int) -> Iterator[int]:
    """A process that has made its marks and does nothing more."""
    report = os.pipe()
    child = os.fork()
    if not child:
        try:
            mine = Marks(path, query)
            mine.touch(7)
            os.write(report[1], b"x")
            signal.pause()
            mine.close()
        finally:
            os._exit(1)
    os.read(report[0], 1)
    try:
        yield child
    finally:
        if is_running(child):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def is_running(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False  # somebody has waited for it


def test_who_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: a worker that stands still for a minute makes room for another; what it hung on is known."""
    clock, watch = Clock(monkeypatch), WorkerWatch(tmp_path)
    busy = Marks(tmp_path / "busy", 11)
    with hanging_worker(tmp_path / "hangs", 12) as child:
        for _ in range(59):
            clock.now += 1.0
            busy.beat()
            assert watch.dead() == set()
        assert is_running(child)
        for _ in range(3):
            clock.now += 1.0
            busy.beat()
            watch.dead()
        until(lambda: not is_running(child), "it is ended")
    clock.now += 1.0
    assert watch.dead() == {12}
    second = Marks(tmp_path / "hangs", 13)
    second.touch(7)
    assert STATE.unpack((tmp_path / "hangs").read_bytes())[1:3] == (7, 1)


def test_a_dispatcher_that_stood_still_accuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: after all of them were stopped for an hour, everybody may show that it moves."""
    clock, watch = Clock(monkeypatch), WorkerWatch(tmp_path)
    with hanging_worker(tmp_path / "hangs", 12) as child:
        for _ in range(30):
            clock.now += 3600.0
            watch.dead()
        assert is_running(child)


def test_a_stranger_with_the_number_of_a_worker_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: process numbers are used again; who does not have the marks open is no worker."""
    clock, watch = Clock(monkeypatch), WorkerWatch(tmp_path)
    with hanging_worker(tmp_path / "other", 12) as stranger:
        (tmp_path / "worker").write_bytes(STATE.pack(NOTHING, NOTHING, 0, stranger, 11, 4))
        (tmp_path / "other").unlink()
        for _ in range(130):
            clock.now += 1.0
            watch.dead()
        assert is_running(stranger)
