"""Files of the owner only."""

import os
import stat
from pathlib import Path

from penstock.access.private_files import tighten


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_rights_of_others_are_taken_from_all_that_is_in_a_folder(tmp_path: Path) -> None:
    """Kept promise: what an earlier version left open is closed at the next start; the owner's rights stay."""
    folder = tmp_path / "data"
    (folder / "logs").mkdir(parents=True)
    script = folder / "logs" / "script"
    script.write_text("")
    for path, mode in ((script, 0o755), (folder / "logs", 0o777), (folder, 0o755)):
        path.chmod(mode)
    tighten(folder)
    assert [mode_of(each) for each in (folder, folder / "logs", script)] == [0o700, 0o700, 0o700]


def test_what_a_link_leads_to_stays_as_it_is(tmp_path: Path) -> None:
    """Kept promise: a link in the data directory changes nothing outside of it."""
    outside = tmp_path / "outside"
    outside.write_text("")
    outside.chmod(0o644)
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    os.symlink(outside, folder / "link")
    tighten(folder)
    assert mode_of(folder) == 0o700
    assert mode_of(outside) == 0o644


def test_a_folder_behind_a_link_is_closed_too(tmp_path: Path) -> None:
    """Kept promise: the data directory may be a link; where it leads is what others must not read."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    os.symlink(folder, tmp_path / "link")
    tighten(tmp_path / "link")
    assert mode_of(folder) == 0o700


def test_a_folder_that_was_closed_is_not_searched_again(tmp_path: Path) -> None:
    """Kept promise: the folder itself is closed last, so a kill in between is noticed and nothing is left open."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    file = folder / "file"
    file.write_text("")
    file.chmod(0o644)
    tighten(folder)
    assert mode_of(file) == 0o644
