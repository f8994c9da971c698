"""The processes of a running system: found from what the supervisor wrote down, and from the kernel's own lists.

    up ─┬─ kafka (Java)   ├─ controller   ├─ receiver   └─ dispatcher ── spark (Java) ── daemon ── workers

Called by ``profile`` and ``must-gather``.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from penstock import child
from penstock.supervisor.rundir import RunDirectory

TICKS = os.sysconf("SC_CLK_TCK")
DAEMON_MODULE = "penstock.pipeline.daemon"


@dataclass(frozen=True)
class Process:
    part: str  # up, kafka, controller, receiver, dispatcher; spark, daemon, worker below the dispatcher
    pid: int
    command: str
    is_java: bool = False

    @property
    def name(self) -> str:
        return f"{self.part}-{self.pid}"


def processes(directory: RunDirectory) -> list[Process]:
    """Those that run now, a part before what it has started."""
    state = directory.state()
    found: list[Process] = []
    if child.is_alive(int(state.get("pid") or 0), state.get("birth")):
        found.append(_process("up", int(state["pid"])))
    parents = _parents()
    for part, told in (state.get("parts") or {}).items():
        pid = int(told.get("pid") or 0)
        if pid and child.is_alive(pid, told.get("birth")):
            found += _family(part, pid, parents)
    return found


def busiest(among: list[Process], seconds: float = 0.5) -> Process:
    """The one that takes most of the processor meanwhile; of several that rest, the one that has taken most ever."""
    before = {each.pid: cpu_seconds(each.pid) for each in among}
    if len(among) > 1:
        time.sleep(seconds)
    return max(among, key=lambda each: (cpu_seconds(each.pid) - before[each.pid], before[each.pid]))


def cpu_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def facts(process: Process) -> dict[str, str | int | float]:
    """What the kernel says of it."""
    status = _lines(Path(f"/proc/{process.pid}/status"))
    try:
        files = len(os.listdir(f"/proc/{process.pid}/fd"))
    except OSError:
        files = -1
    return {
        "part": process.part,
        "pid": process.pid,
        "state": status.get("State", "gone"),
        "memory_kb": int((status.get("VmRSS") or "0").split()[0]),
        "threads": int(status.get("Threads", "0")),
        "cpu_seconds": round(cpu_seconds(process.pid), 2),
        "open_files": files,
        "command": process.command,
    }


def environment(process: Process) -> dict[str, str]:
    """The variables that it was started with. Raises OSError."""
    raw = Path(f"/proc/{process.pid}/environ").read_bytes()
    pairs = (each.partition(b"=") for each in raw.split(b"\0") if each)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def _family(part: str, pid: int, parents: dict[int, int]) -> list[Process]:
    found, waiting = [], [(part, pid)]
    while waiting:
        name, at = waiting.pop(0)
        process = _process(name, at)
        found.append(process)
        below = [each for each, parent in sorted(parents.items()) if parent == at]
        waiting += [(_name_below(process, each), each) for each in below]
    return found


def _name_below(parent: Process, pid: int) -> str:
    if parent.part == "dispatcher" and _process("", pid).is_java:
        return "spark"
    if parent.part == "spark":
        return "daemon" if DAEMON_MODULE in _command(pid) else "spark"
    return "worker" if parent.part == "daemon" else parent.part


def _process(part: str, pid: int) -> Process:
    command = _command(pid)
    try:
        binary = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        binary = os.path.basename(command.split(" ")[0])
    return Process(part, pid, command, binary == "java")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _parents() -> dict[int, int]:
    """The parent of every process there is."""
    found = {}
    for name in os.listdir("/proc"):
        fields = _stat(int(name)) if name.isdigit() else []
        if fields and fields[0] != "Z":  # one that only waits to be reaped has ended
            found[int(name)] = int(fields[1])
    return found


def _stat(pid: int) -> list[str]:
    """The kernel's line about it, from behind the name on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def _lines(path: Path) -> dict[str, str]:
    try:
        rows = (line.partition(":") for line in path.read_text().splitlines())
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in rows}
