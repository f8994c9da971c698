"""Promises of the marks: what a worker died of is known to its successor."""

import os
from pathlib import Path

from penstock.pipeline.marks import NOTHING, STATE, Marks, dead_workers


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
    assert dead_workers(tmp_path) == {13}
    alive.close()


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
    assert dead_workers(tmp_path) == set()
    assert STATE.unpack(path.read_bytes()) == (9, NOTHING, 0, os.getpid(), 2)
