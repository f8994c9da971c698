"""The data directory as the supervisor uses it: whose it is, who runs in it, and what an earlier run left behind.

    penstock.json   marks the directory as ours
    run/up.lock     held while a supervisor runs
    run/up.json     its pid, the pids of the parts, where they listen
    logs/           a log per part

Called by ``up``, ``down`` and the supervisor.
"""

import fcntl
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from penstock import child
from penstock.access.private_files import make_private_folder, tighten
from penstock.errors import Misconfigured

FORMAT = 1
OURS_BEFORE_THE_MARK = frozenset({"logs", "run", "scratch"})  # may be there before a first start
LEFTOVER_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class RunDirectory:
    data_dir: Path

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"

    @property
    def run(self) -> Path:
        return self.data_dir / "run"

    def require_ours(self) -> None:
        """Raises Misconfigured for a directory that holds something else, or was written by a newer Penstock."""
        mark = self.data_dir / "penstock.json"
        if mark.exists():
            try:
                found = int(json.loads(mark.read_text())["format"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise Misconfigured(f"{mark} cannot be understood", hint="name another --data-dir") from error
            if found > FORMAT:
                raise Misconfigured(
                    f"{self.data_dir} was written by a newer Penstock (format {found}, this one knows {FORMAT})",
                    hint="use the newer one, or another --data-dir",
                )
            return
        if self.data_dir.exists() and not self.data_dir.is_dir():
            raise Misconfigured(f"{self.data_dir} is not a directory", hint="name another --data-dir")
        if self.data_dir.is_dir() and {path.name for path in self.data_dir.iterdir()} - OURS_BEFORE_THE_MARK:
            raise Misconfigured(
                f"{self.data_dir} holds files that Penstock did not put there",
                hint="name an empty or new directory with --data-dir",
            )

    def claim(self) -> TextIO:
        """Takes the directory for this process until the returned lock is closed; refuses when another has it."""
        self.require_ours()
        tighten(self.data_dir)
        try:
            make_private_folder(self.data_dir)
            self.run.mkdir(parents=True, exist_ok=True)
            self.logs.mkdir(exist_ok=True)
            lock = open(self.run / "up.lock", "a")  # noqa: SIM115 (held as long as the supervisor runs)
        except OSError as error:
            raise Misconfigured(
                f"the data directory {self.data_dir} cannot be written: {error.strerror}",
                hint="name another --data-dir",
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            pid = self.state().get("pid", "unknown")
            raise Misconfigured(
                f"another `penstock up` (pid {pid}) runs in {self.data_dir}",
                hint=f"`penstock down --data-dir {self.data_dir}` ends it",
            ) from None
        (self.data_dir / "penstock.json").write_text(json.dumps({"format": FORMAT}) + "\n")
        return lock

    def is_claimed(self) -> bool:
        """Whether a supervisor runs here."""
        try:
            with open(self.run / "up.lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def state(self) -> dict[str, Any]:
        """What the last supervisor wrote about itself; empty when there was none."""
        return self._state(None)

    def own_state(self) -> dict[str, Any]:
        """The same, but only if this user wrote it: another user could have written any path into it."""
        return self._state(os.geteuid())

    def _state(self, owner: int | None) -> dict[str, Any]:
        try:
            with open(self.run / "up.json") as file:
                if owner is not None and os.fstat(file.fileno()).st_uid != owner:
                    return {}
                found: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return {}
        return found

    def write_state(self, state: dict[str, Any]) -> None:
        draft = self.run / "up.json.new"
        draft.write_text(json.dumps(state, indent=1) + "\n")
        draft.replace(self.run / "up.json")

    def forget_state(self) -> None:
        (self.run / "up.json").unlink(missing_ok=True)

    def end_leftovers(self) -> int:
        """Ends what a killed supervisor left running, as far as it is proven to be its own. Returns how many."""
        run_id = str(self.state().get("run_id", ""))
        left = child.marked(run_id) if run_id else []
        if not left:
            return 0
        for pid in left:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + LEFTOVER_PATIENCE_SECONDS
        while child.marked(run_id) and time.monotonic() < deadline:
            time.sleep(child.POLL_SECONDS)
        child.kill_all(child.marked(run_id))
        return len(left)
