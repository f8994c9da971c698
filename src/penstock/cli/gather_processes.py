"""Collectors of what the machine knows: logs, what each process does right now, versions, room on the disk."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

from penstock import __version__
from penstock.cli import dumps
from penstock.cli.gathering import File, Found, Missing, Scene, as_json, attempt, tail
from penstock.kafka.cache import cache_dir
from penstock.supervisor.processes import Process, facts
from penstock.telemetry.logs import last_errors

JAVA_REPORTS = ("VM.version", "VM.flags", "GC.heap_info", "VM.uptime")
LOG_BYTES = 2 * 1024 * 1024  # of the end of each
MOST_WORKERS = 16  # that are looked into


def logs(scene: Scene) -> Iterator[Found]:
    folder = scene.directory.logs
    found = sorted(path for path in folder.glob("*") if path.is_file()) if folder.is_dir() else []
    if not found:
        yield Missing("logs", f"there are none in {folder}")
    for path in found:
        yield attempt(f"log {path.name}", _log, scene, path)


def _log(scene: Scene, path: Path) -> File:
    errors = last_errors(path, or_last_lines=False)
    if errors:
        scene.facts.errors[path.name] = [scene.masking(line) for line in errors]
    return File(f"logs/{path.name}", tail(path, LOG_BYTES))


def processes(scene: Scene) -> Iterator[Found]:
    if not scene.processes:
        yield Missing("processes", f"none of those that were started in {scene.directory.data_dir} runs")
        return
    yield File("processes.json", as_json([facts(each) for each in scene.processes]))


def threads(scene: Scene) -> Iterator[Found]:
    """What every thread of every process does."""
    workers = 0
    for process in scene.processes:
        workers += process.part == "worker"
        if process.part == "worker" and workers > MOST_WORKERS:
            yield Missing(f"threads of {process.name}", f"only {MOST_WORKERS} workers are looked into")
            continue
        yield attempt(f"threads of {process.name}", _threads, process)


def _threads(process: Process) -> File:
    dump = dumps.java_threads if process.is_java else dumps.python_threads
    return File(f"threads/{process.name}.txt", dump(process.pid))


def java(scene: Scene) -> Iterator[Found]:
    """The state of Kafka's and Spark's machines."""
    for process in scene.processes:
        if not process.is_java:
            continue
        told = []
        for report in JAVA_REPORTS:
            try:
                told.append(f"== {report}\n{dumps.jcmd(process.pid, report)}")
            except dumps.FAILURES as error:
                yield Missing(f"{report} of {process.name}", error.message)
                break
        if told:
            yield File(f"{'kafka' if process.part == 'kafka' else 'spark'}/{process.name}.txt", "\n".join(told))


def spark(scene: Scene) -> Iterator[Found]:
    """What Spark keeps on the disk, and its queries as the dispatcher told them."""
    scratch = scene.directory.data_dir / "scratch"
    lines = []
    for folder, _, names in os.walk(scratch):
        for name in names:
            path = Path(folder, name)
            try:
                lines.append(f"{path.stat().st_size:>12}  {path.relative_to(scratch)}")
            except OSError:
                continue  # deleted meanwhile
    yield File("spark/scratch.txt", "\n".join(sorted(lines, key=lambda line: line[14:])[:5000]) + "\n")
    yield File("spark/queries.json", as_json(scene.facts.queries))


def versions(scene: Scene) -> Iterator[Found]:
    packages = {str(each.metadata["Name"]).lower(): each.version for each in distributions()}
    jars = sorted({path.name for path in cache_dir().glob("jars/**/*.jar")})
    kafka = next((jar for jar in jars if jar.startswith(("kafka_2", "kafka-server-"))), "")
    javas = sorted({str(_binary(each.pid)) for each in scene.processes if each.is_java})
    scene.facts.versions = {
        "Penstock": __version__,
        "Python": platform.python_version(),
        "Spark": packages.get("pyspark", "not installed"),
        "Kafka": kafka.removesuffix(".jar") or "not fetched",
        "Java": ", ".join(javas) or "does not run",
    }
    told = {**scene.facts.versions, "interpreter": sys.executable, "packages": packages, "jars": jars}
    yield File("versions.json", as_json(told))


def _binary(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return "unknown"


def machine(scene: Scene) -> Iterator[Found]:
    folder = scene.directory.data_dir
    room = shutil.disk_usage(folder if folder.exists() else Path.cwd())
    memory = {
        name: value.strip()
        for name, _, value in (line.partition(":") for line in _read("/proc/meminfo").splitlines())
        if name in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
    }
    yield File(
        "machine.json",
        as_json(
            {
                "system": platform.platform(),
                "processors": os.cpu_count(),
                "usable_processors": len(os.sched_getaffinity(0)),
                "load": os.getloadavg(),
                "memory": memory,
                "disk": {"folder": str(folder), "total": room.total, "free": room.free},
                "container_memory_limit": _read("/sys/fs/cgroup/memory.max").strip(),
                "open_files_limit": _read("/proc/self/limits").splitlines(),
            }
        ),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
