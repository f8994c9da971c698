"""Child processes that leave nothing behind: started, stopped, and found again after their parent was killed.

Every child is the leader of a session of its own, so that a Ctrl-C in the terminal reaches only its parent, which
then ends the children in order. It dies with its parent even if that is killed with -9. All of its descendants carry
RUN_VARIABLE in their environment: by this mark the ones that outlived their parent can be proven to be ours.
Called by the supervisor and by the embedded cluster.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

RUN_VARIABLE = "PENSTOCK_RUN_ID"
PR_SET_PDEATHSIG = 1
PRIVATE_UMASK = 0o077  # only the owner can read what a child process writes
POLL_SECONDS = 0.05

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Command:
    """What to run, and where its output goes."""

    name: str
    arguments: Sequence[str]
    output: Path  # stdout and stderr, appended
    environment: Mapping[str, str] = field(default_factory=dict)  # on top of ours
    signal_at_parents_death: int = signal.SIGKILL


def start(command: Command) -> subprocess.Popen[bytes]:
    """Starts it. Call from a thread that lives as long as the child should: its end counts as the parent's."""
    command.output.parent.mkdir(parents=True, exist_ok=True)
    with command.output.open("ab") as output:
        return subprocess.Popen(
            list(command.arguments),
            env={**os.environ, **command.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=PRIVATE_UMASK,
            preexec_fn=dies_with_parent(command.signal_at_parents_death),
        )


def dies_with_parent(signal_number: int = signal.SIGKILL) -> Callable[[], None] | None:
    """A ``preexec_fn`` after which the kernel sends this signal when the parent is gone (Linux only)."""
    if _libc is None:
        return None
    libc, parent = _libc, os.getpid()

    def before_exec() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
        if os.getppid() != parent:  # it died before the request above
            os.kill(os.getpid(), signal.SIGKILL)

    return before_exec


def stop(process: subprocess.Popen[bytes], patience_seconds: float) -> int:
    """Asks it to end, waits, then insists; what it started and left behind goes too. Returns its exit code."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    code = process.wait()
    kill_all(session_members(process.pid))
    return code


def exit_words(code: int) -> str:
    """An exit code as a person says it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def session_members(session: int) -> list[int]:
    """Processes of the session that this pid leads or led. Spark's workers change their group but not this."""
    return [pid for pid in _pids() if _stat_field(pid, 3) == session]


def marked(run_id: str) -> list[int]:
    """Processes that carry the mark of this run, wherever they went. Never this process itself."""
    mark = f"{RUN_VARIABLE}={run_id}\0".encode()
    found = []
    for pid in _pids():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if mark in environment + b"\0" and pid != os.getpid():
            found.append(pid)
    return found


def kill_all(pids: Sequence[int], patience_seconds: float = 5.0) -> None:
    """Kills them and waits until they are gone."""
    births = {pid: birth_of(pid) for pid in pids}
    for pid in pids:
        _signal(pid, signal.SIGKILL)
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline and any(is_alive(pid, birth) for pid, birth in births.items()):
        time.sleep(POLL_SECONDS)


def birth_of(pid: int) -> int | None:
    """When it was started, in the kernel's ticks: tells it from a later process of the same pid."""
    return _stat_field(pid, 19)


def is_alive(pid: int, birth: int | None) -> bool:
    """Whether this very process still runs; one that only waits to be reaped does not."""
    if sys.platform != "linux":
        return _signal(pid, 0)
    return birth is not None and birth_of(pid) == birth and _stat_text(pid, 0) != "Z"


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _stat_text(pid: int, number: int) -> str | None:
    """A field of the kernel's line about a process, counted from the one behind its name."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()[number]


def _stat_field(pid: int, number: int) -> int | None:
    text = _stat_text(pid, number)
    return None if text is None else int(text)


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
