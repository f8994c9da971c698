"""A part of the system as the supervisor sees it: what to run, when it is ready, and what became of it.

    waiting ──▶ starting ──▶ ready ──▶ (died) ──▶ waiting, with backoff ──▶ …
                                └──▶ stopped

Called by ``supervise``; what the parts are is decided by the command line.
"""

import http.client
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock import child
from penstock.telemetry import logs

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
HEALTHY_AFTER_SECONDS = 60.0
PROBE_TIMEOUT_SECONDS = 1.0

State = Literal["waiting", "starting", "ready", "stopped"]


@dataclass(frozen=True)
class Part:
    """What is known of a part before it runs."""

    command: child.Command
    is_ready: Callable[[int], bool]  # asked with its pid
    log: Path  # where a reason for its death is found
    start_rank: int = 0  # a rank starts when all of the lower ones are ready
    stop_rank: int = 0  # a rank is ended when all of the lower ones have ended
    patience_seconds: float = 20.0  # between asking it to end and killing it
    ready_file: Path | None = None  # removed before each start, so that an old one proves nothing

    @property
    def name(self) -> str:
        return self.command.name


class RunningPart:
    """One part over all its lives."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.state: State = "waiting"
        self.process: subprocess.Popen[bytes] | None = None
        self.birth: int | None = None
        self.restarts = 0
        self.failures = 0  # deaths in a row, without a minute of health between them
        self.reason = ""  # why it died last
        self.next_start = 0.0
        self.since = 0.0
        self._log_size = 0

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None else None

    def start(self, now: float) -> None:
        if self.part.ready_file is not None:
            self.part.ready_file.unlink(missing_ok=True)
        self._log_size = logs.size_of(self.part.log)
        self.process = child.start(self.part.command)
        self.birth = child.birth_of(self.process.pid)
        self.state, self.since = "starting", now

    def has_become_ready(self, now: float) -> bool:
        """Asks a starting part; true once per life."""
        if self.state != "starting" or self.process is None or not self.part.is_ready(self.process.pid):
            return False
        self.state, self.since = "ready", now
        return True

    def has_died(self, now: float) -> bool:
        """Notes a death: its reason, and when to start again. What the dead one left behind is ended."""
        if self.process is None or self.process.poll() is None:
            return False
        code = self.process.wait()
        child.kill_all(child.session_members(self.process.pid))
        healthy = self.state == "ready" and now - self.since >= HEALTHY_AFTER_SECONDS
        self.failures = 1 if healthy else self.failures + 1
        killed = code < 0  # by somebody else: then its last lines are no reason
        said = logs.last_errors(self.part.log, self._log_size, or_last_lines=not killed)
        if not said and not killed:
            said = logs.last_errors(self.part.command.output)
        self.reason = child.exit_words(code) + "".join(f"\n{line}" for line in said)
        self.next_start = now + backoff_seconds(self.failures)
        self.state, self.process, self.restarts = "waiting", None, self.restarts + 1
        return True


def backoff_seconds(failures: int) -> float:
    """How long to wait after this many deaths in a row."""
    return min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (failures - 1))


def answers_ready(host: str, port: int) -> bool:
    """Whether ``GET /readyz`` says 200."""
    connection = http.client.HTTPConnection(host, port, timeout=PROBE_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def says_ready(file: Path, pid: int) -> bool:
    """Whether the process wrote its pid into its ready file."""
    try:
        return file.read_text().strip() == str(pid)
    except OSError:
        return False
