"""``penstock down``: ends what ``up`` started, wherever it was started from."""

from pathlib import Path
from typing import Annotated

import typer

PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.1


def down(
    data_dir: Annotated[
        str, typer.Option(envvar="PENSTOCK_DATA_DIR", help="The data directory that `up` was given.", metavar="DIR")
    ] = ".penstock",
) -> None:
    """Ends what `penstock up` started in a data directory. The data stays.

    \b
    penstock down
    penstock down --data-dir /var/lib/penstock

    Exits with 0 also when nothing runs there.
    """
    from penstock.cli.screen import screen
    from penstock.supervisor.rundir import RunDirectory

    directory = RunDirectory(Path(data_dir).expanduser().absolute())
    shown = screen()
    if directory.is_claimed():
        _end(directory)
        shown.say(f"ended what ran in {directory.data_dir}")
        return
    left = directory.end_leftovers()
    directory.forget_state()
    if left:
        shown.say(f"ended {left} processes that a killed `penstock up` had left in {directory.data_dir}")
    else:
        shown.say(f"nothing runs in {directory.data_dir}")


def _end(directory: "RunDirectory") -> None:  # type: ignore[name-defined]  # noqa: F821
    import os
    import signal
    import time

    from penstock.child import is_alive
    from penstock.errors import Unavailable

    state = directory.state()
    pid, birth = state.get("pid"), state.get("birth")
    if pid is None or not is_alive(pid, birth):
        raise Unavailable(
            f"{directory.data_dir} is in use, but not by a `penstock up` that has said its pid", hint="try again"
        )
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while directory.is_claimed():
        if time.monotonic() > deadline:
            raise Unavailable(
                f"`penstock up` (pid {pid}) did not end within {PATIENCE_SECONDS:g} s",
                hint=f"kill -9 {pid}, then `penstock down` again",
            )
        time.sleep(POLL_SECONDS)
