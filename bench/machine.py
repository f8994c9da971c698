"""What the figures were measured on: enough to compare, nothing that tells whose machine it is."""

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

from bench.model import Machine
from bench.processes import Snapshot

UNKNOWN = "unknown"


def describe(running: Snapshot | None = None) -> Machine:
    versions = {
        "python": platform.python_version(),
        "spark": metadata.version("pyspark"),
        "librdkafka client": metadata.version("confluent-kafka"),
        "penstock": metadata.version("penstock"),
    }
    kafka = running.first("kafka") if running else None
    if kafka is not None:
        versions["java"] = _java_version(kafka.pid)
        versions["kafka"] = _kafka_version(kafka.arguments)
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        cpu=_field(Path("/proc/cpuinfo"), "model name"),
        memory_gb=round(int(_field(Path("/proc/meminfo"), "MemTotal").split()[0]) / 1024 / 1024, 1),
        system=f"{platform.system()} {platform.release().split('-')[0]}",
        versions=versions,
    )


def _field(path: Path, name: str) -> str:
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0" if name == "MemTotal" else UNKNOWN


def _java_version(pid: int) -> str:
    """Asked of the very program that runs Kafka; there may be several on a machine."""
    try:
        java = os.readlink(f"/proc/{pid}/exe")
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20).stderr
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    found = re.search(r'version "([^"]+)"', said)
    return found.group(1) if found else UNKNOWN


def _kafka_version(arguments: tuple[str, ...]) -> str:
    """From the name of the server's jar, on the class path or in a folder on it."""
    pattern = re.compile(r"kafka_2\.1\d[-+_]([\d.]+\d)\.jar")
    for word in arguments:
        if found := pattern.search(word):
            return found.group(1)
        for entry in word.split(":"):
            folder = Path(entry.removesuffix("*"))
            if entry.endswith("*") and folder.is_dir():
                for jar in folder.iterdir():
                    if found := pattern.search(jar.name):
                        return found.group(1)
    return UNKNOWN
