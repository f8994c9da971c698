"""Which token the command line sends to which server."""

import json
import os
from pathlib import Path

import pytest

from penstock.access.tokens import make_token
from penstock.child import birth_of
from penstock.cli.credentials import token_for


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The data directory of a server that requires a token: this process, on port 8090."""
    state = {
        "pid": os.getpid(), "birth": birth_of(os.getpid()), "host": "127.0.0.1", "admin_port": 8090,
        "admin_token_file": str(tmp_path / "token"),
    }  # fmt: skip
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "up.json").write_text(json.dumps(state))
    make_token(tmp_path / "token")
    return tmp_path


def test_the_token_of_a_data_directory_goes_to_its_server_only(data_dir: Path) -> None:
    assert token_for("127.0.0.1", 8090, data_dir) == (data_dir / "token").read_text().strip()
    assert token_for("127.0.0.1", 8091, data_dir) is None
    assert token_for("10.0.0.1", 8090, data_dir) is None


@pytest.mark.parametrize("host", ["127.0.0.2", "::1", "localhost", "x.localhost"])
@pytest.mark.parametrize("listens_on", ["127.0.0.1", "0.0.0.0"])
def test_the_token_goes_to_no_other_loopback_address(data_dir: Path, host: str, listens_on: str) -> None:
    """Kept promise: another user who listens on this port of another loopback address does not get the token."""
    state = json.loads((data_dir / "run" / "up.json").read_text())
    (data_dir / "run" / "up.json").write_text(json.dumps({**state, "host": listens_on}))
    assert token_for(host, 8090, data_dir) is None
    assert token_for("127.0.0.1", 8090, data_dir) is not None


def test_a_data_directory_of_another_user_names_no_file(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: a command in a stranger's folder shows no private file of ours to the stranger's server."""
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert token_for("127.0.0.1", 8090, data_dir) is None
