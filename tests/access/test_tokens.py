"""Tokens stay with their owner, and only the right one opens a port."""

from pathlib import Path

import pytest

from penstock.access.tokens import authorization, is_authorized, keep_token, make_token, read_token
from penstock.errors import Misconfigured


def test_only_the_owner_may_read_a_token(tmp_path: Path) -> None:
    path = tmp_path / "run" / "port.token"
    make_token(path)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "port.token"
    make_token(path)
    path.chmod(0o644)
    with pytest.raises(Misconfigured, match="others may read"):
        read_token(path)


def test_a_missing_or_empty_token_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "port.token"
    with pytest.raises(Misconfigured, match="does not exist"):
        read_token(path)
    path.touch(mode=0o600)
    with pytest.raises(Misconfigured, match="is empty"):
        read_token(path)


def test_a_token_is_kept_until_a_new_one_is_made(tmp_path: Path) -> None:
    path = tmp_path / "port.token"
    first = keep_token(path)
    assert keep_token(path) == first
    assert make_token(path) != first


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic x", "Bearer wrong", "Bearer \xe9"])
def test_only_the_right_token_is_authorized(tmp_path: Path, header: str | None) -> None:
    token = make_token(tmp_path / "port.token")
    assert is_authorized(authorization(token), token)
    assert is_authorized(f"bearer {token}", token)
    assert not is_authorized(header, token)
