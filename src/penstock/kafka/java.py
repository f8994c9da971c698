"""Which Java runs Kafka and Spark: the machine's own where it is recent enough, else one from PyPI in the cache.

``java_home`` and ``find`` only look; ``find_or_fetch`` installs a runtime when there is none. All give a JAVA_HOME.
A runtime without the module ``jdk.incubator.vector``, which Spark's launcher always asks for, gets a ``java`` in
front of it that drops this one argument. Called by the command line, ``fetch``, the embedded cluster, the dispatcher.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.errors import Misconfigured
from penstock.kafka import runtime
from penstock.kafka.cache import cache_dir, locked, require_own
from penstock.kafka.progress import Progress

OLDEST_VERSION = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
PROBE_TIMEOUT_SECONDS = 30.0

WRAPPER = """#!/bin/sh
# Runs the Java behind it without the one argument that this runtime does not know.
for argument in "$@"; do
  shift
  [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """What a ``java`` said of itself when it was run."""

    home: str
    version: int
    has_vector_module: bool


def java_home(cache: Path | None = None) -> Path:
    """The JAVA_HOME to use; raises Misconfigured when there is none yet."""
    cache = cache or cache_dir()
    require_own(cache, cache / "java")
    home = find(cache)
    if home is None:
        raise Misconfigured(
            f"there is no Java {OLDEST_VERSION} or later, neither in JAVA_HOME nor on PATH nor fetched",
            hint="`make setup` or `penstock fetch` fetches one",
        )
    return home


def find(cache: Path, environ: Mapping[str, str] | None = None) -> Path | None:
    """A JAVA_HOME that will do: JAVA_HOME, then ``java`` on PATH, then the one that was fetched."""
    environ = os.environ if environ is None else environ
    wrapped = _wrapped_home(cache)
    if environ.get("JAVA_HOME") == str(wrapped) and (wrapped / "bin" / "java").is_file():
        return wrapped  # a part of ours was started with it; behind the wrapper lies what it must not see
    for binary in _candidates(cache, environ):
        java = _ask(binary, cache)
        if java is not None and java.version >= OLDEST_VERSION:
            home = Path(java.home)
            return home if java.has_vector_module else _home_with_wrapper(home, cache)
    return None


def find_or_fetch(cache: Path, progress: Progress) -> Path:
    """The same, and where there is none, a runtime is installed into the cache folder first."""
    home = find(cache)
    if home is not None:
        return home
    with locked(cache, progress):
        home = find(cache)
        if home is None:
            runtime.install(_runtime_folder(cache), progress)
            home = find(cache)
    if home is None:
        raise Misconfigured(
            f"the Java runtime that was fetched into {_runtime_folder(cache)} does not run here",
            hint=f"install Java {OLDEST_VERSION} or later and set JAVA_HOME",
        )
    return home


def _candidates(cache: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield Path(on_path)
    yield runtime.java_in(_runtime_folder(cache))


def _runtime_folder(cache: Path) -> Path:
    return cache / "java" / "runtime"


def _wrapped_home(cache: Path) -> Path:
    return cache / "java" / "home"


def _ask(binary: Path, cache: Path) -> Java | None:
    """What this ``java`` says of itself. Asking takes a quarter second, so the answer is kept."""
    try:
        real = binary.resolve(strict=True)
        found = real.stat()
    except OSError:
        return None
    key = f"{real}:{found.st_mtime_ns}:{found.st_size}"
    notes = cache / "java" / "known.json"
    known = _read_notes(notes)
    if key in known:
        return Java(**known[key])
    java = _probe(binary)
    if java is not None:
        known[key] = asdict(java)
        _write_notes(notes, known)
    return java


def _probe(binary: Path) -> Java | None:
    for has_vector_module in (True, False):
        extra = [VECTOR_MODULE] if has_vector_module else []
        try:
            answer = subprocess.run(
                [str(binary), *extra, "-XshowSettings:properties", "-version"],
                capture_output=True, text=True, errors="replace", timeout=PROBE_TIMEOUT_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        text = answer.stderr + answer.stdout
        home = re.search(r"^\s*java\.home = (.+)$", text, re.MULTILINE)
        version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
        if answer.returncode == 0 and home and version:
            return Java(home.group(1).strip(), int(version.group(1)), has_vector_module)
    return None


def _home_with_wrapper(home: Path, cache: Path) -> Path:
    """A JAVA_HOME whose ``bin/java`` drops the argument that the runtime does not know."""
    wrapped = _wrapped_home(cache)
    text = WRAPPER.format(dropped=VECTOR_MODULE, java=home / "bin" / "java")
    binary = wrapped / "bin" / "java"
    if not binary.is_file() or binary.read_text() != text:
        binary.parent.mkdir(parents=True, exist_ok=True)
        draft = binary.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        os.replace(draft, binary)
    return wrapped


def _read_notes(notes: Path) -> dict[str, dict[str, Any]]:
    try:
        found: dict[str, dict[str, Any]] = json.loads(notes.read_text())
    except (OSError, ValueError):
        return {}
    return found


def _write_notes(notes: Path, known: dict[str, dict[str, Any]]) -> None:
    """A cache folder that cannot be written costs the quarter second each time, nothing else."""
    try:
        notes.parent.mkdir(parents=True, exist_ok=True)
        draft = notes.with_name(f"known.{os.getpid()}")
        draft.write_text(json.dumps(known, indent=1))
        os.replace(draft, notes)
    except OSError:
        pass
