"""Which token the command line sends to which server.

The token of the data directory goes only to the server that ``up`` runs from that directory, at the address where it
listens: another user of the machine may listen on the same port of another loopback address. It is sent only if this
user has started ``up``: the state in another user's folder could name any file and any port. The token of a file that
the user names goes to the server that the user names. Used by ``client``.
"""

import os
from pathlib import Path

from penstock.access.tokens import read_token
from penstock.child import is_alive
from penstock.cli.options import TOKEN_FILE
from penstock.errors import Misconfigured
from penstock.ports import reachable_host
from penstock.supervisor.rundir import RunDirectory

DATA_DIR = "PENSTOCK_DATA_DIR"
DEFAULT_DATA_DIR = ".penstock"


def token_for(host: str, port: int, data_dir: Path | None = None) -> str | None:
    """None if there is no token for this server. Raises Misconfigured if a file that the user named is unusable."""
    named = os.environ.get(TOKEN_FILE)
    if named:
        return read_token(Path(named).expanduser())
    folder = data_dir or Path(os.environ.get(DATA_DIR) or DEFAULT_DATA_DIR).expanduser()
    state = RunDirectory(folder).own_state()
    path = str(state.get("admin_token_file") or "")
    if not path or not _is_server_of(state, host, port) or not Path(path).exists():
        return None
    try:
        return read_token(Path(path))
    except Misconfigured:
        return None  # the file of another user; the server answers 401 if it requires a token


def _is_server_of(state: dict[str, object], host: str, port: int) -> bool:
    """Whether the ``up`` that wrote this state still runs, and this is its admin port."""
    pid, birth = state.get("pid"), state.get("birth")
    if not isinstance(pid, int) or not isinstance(birth, int) or not is_alive(pid, birth):
        return False
    return host == reachable_host(str(state.get("host", ""))) and port == state.get("admin_port")
