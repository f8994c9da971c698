"""The processes of a running system."""

import contextlib
import os


def worker_pids(dispatcher: int) -> list[int]:
    """The Python workers of the dispatcher's Spark: grandchildren of its JVM."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    parents[int(entry)] = int(stat.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue

    def children(pid: int) -> list[int]:
        return [child for child, parent in parents.items() if parent == pid]

    return [w for jvm in children(dispatcher) for daemon in children(jvm) for w in children(daemon)]


def worker_niceness(dispatcher: int) -> set[int]:
    """Of those that are there: workers come and go."""
    found = set()
    for pid in worker_pids(dispatcher):
        with contextlib.suppress(ProcessLookupError):
            found.add(os.getpriority(os.PRIO_PROCESS, pid))
    return found
