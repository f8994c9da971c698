"""Looks into running processes: what Python's threads do (py-spy), and Java's (jcmd).

Both may be refused: the kernel lets a process be looked into only by its owner, or not at all; and a Java runtime may
come without jcmd. The errors say which, and the remedy. Called by ``must-gather`` and ``profile``.
"""

import os
import subprocess
import sys
from pathlib import Path

from penstock.errors import Misconfigured, Unavailable

DUMP_SECONDS = 20.0
FAILURES = (Misconfigured, Unavailable)
REFUSED = ("permission denied", "operation not permitted", "ptrace")
PTRACE_HINT = (
    "run it as the owner of the process or root; in a container add the capability SYS_PTRACE; "
    "or: sysctl kernel.yama.ptrace_scope=0"
)
JAVA_HINT = (
    "install a JDK of version 17 or later (Debian: openjdk-17-jdk-headless), set JAVA_HOME, restart `penstock up`"
)


def py_spy() -> str:
    beside = Path(sys.executable).parent / "py-spy"
    if not beside.is_file():
        raise Misconfigured(f"py-spy is not installed beside {sys.executable}", hint="make setup")
    return str(beside)


def python_threads(pid: int) -> str:
    """Where each thread of a Python process is. Values of variables are not shown."""
    return run_py_spy("dump", "--pid", str(pid))


def run_py_spy(*arguments: str, seconds: float = DUMP_SECONDS) -> str:
    answer = _run([py_spy(), *arguments], seconds)
    if answer.returncode == 0:
        return answer.stdout
    raise explained(arguments[0], answer.stderr or answer.stdout)


def explained(doing: str, said: str) -> Misconfigured | Unavailable:
    """What py-spy says when it cannot, in one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("Stack backtrace")]
    reason = next(
        (line for line in lines if line.lower().startswith("error")), lines[0] if lines else "no reason given"
    )
    if any(word in said.lower() for word in REFUSED):
        return Misconfigured(f"the kernel does not allow to look into the process: {reason}", hint=PTRACE_HINT)
    return Unavailable(f"py-spy {doing} failed: {reason}", hint="the process may have ended; try again")


def java_tool(pid: int, tool: str) -> Path:
    """A tool of the Java that this very process runs with. Raises Misconfigured when it comes without."""
    try:
        binary = Path(os.readlink(f"/proc/{pid}/exe"))
    except OSError as error:
        raise Unavailable(f"process {pid} cannot be looked at: {error.strerror}") from error
    found = binary.with_name(tool)
    if not found.is_file():
        home = binary.parent.parent
        raise Misconfigured(f"the Java in use ({home}) comes without {tool}", hint=JAVA_HINT)
    return found


def jcmd(pid: int, *command: str, seconds: float = DUMP_SECONDS) -> str:
    tool = java_tool(pid, "jcmd")
    answer = _run([str(tool), str(pid), *command], seconds)
    text = answer.stdout + answer.stderr
    if answer.returncode != 0:
        raise Unavailable(f"jcmd {command[0]} failed: {text.strip()[:200] or answer.returncode}")
    return text


def java_threads(pid: int) -> str:
    return jcmd(pid, "Thread.print", "-l")


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{Path(command[0]).name} gave no answer within {seconds:g} s") from None
    except OSError as error:
        raise Misconfigured(f"{command[0]} cannot be run: {error.strerror}") from error
