"""The data directory is ours or it is refused, untouched."""

import json
from pathlib import Path

import pytest

from penstock.errors import Misconfigured
from penstock.supervisor.rundir import RunDirectory


def test_a_directory_with_other_files_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("keep me")
    with pytest.raises(Misconfigured, match="did not put there"):
        RunDirectory(tmp_path).claim()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="is not a directory"):
        RunDirectory(tmp_path / "file").claim()


def test_a_directory_of_a_newer_penstock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "penstock.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(Misconfigured, match="newer Penstock"):
        RunDirectory(tmp_path).claim()


def test_a_directory_that_was_let_go_can_be_taken_again(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "data")
    with directory.claim():
        assert directory.is_claimed()
    assert not directory.is_claimed()
    directory.claim().close()
