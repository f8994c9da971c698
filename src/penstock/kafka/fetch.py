"""What the machine lacks is fetched once: the jars of Apache Kafka and of Spark's Kafka connector.

``kafka_jars`` and ``spark_connector_jars`` only look and are quick; ``fetch_missing`` downloads. A jar reaches its
folder only by a rename after its hash was checked, so a jar that lies there with the right size is a good one.

    missing? ──▶ Ivy ──▶ fetching/ ──▶ sha256 ──▶ jars/GROUP/
                 (resumes with what an earlier run left in fetching/)

Called by the command line (``fetch``, ``up``), the embedded cluster and the dispatcher.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from penstock.errors import Misconfigured, Unavailable
from penstock.kafka import ivy, java
from penstock.kafka.cache import cache_dir, locked, require_own
from penstock.kafka.jars import GROUPS, Group, Jar, folder_of, pinned
from penstock.kafka.progress import Progress, Silent

TITLES: dict[Group, str] = {"kafka-server": "Apache Kafka", "spark-connector": "Spark's Kafka connector"}


def kafka_jars(cache: Path | None = None) -> list[Path]:
    """The jars of the Kafka server; raises Misconfigured when they were not fetched yet."""
    return _look_up("kafka-server", cache)


def spark_connector_jars(cache: Path | None = None) -> list[Path]:
    """The jars that let Spark read Kafka; raises Misconfigured when they were not fetched yet."""
    return _look_up("spark-connector", cache)


def is_complete(cache: Path | None = None) -> bool:
    """Whether nothing needs the network any more."""
    cache = cache or cache_dir()
    return java.find(cache) is not None and not any(_missing(group, cache) for group in GROUPS)


def fetch_missing(progress: Progress | None = None, cache: Path | None = None) -> None:
    """Java, the server's jars and the connector's: whatever of these is missing, and nothing else."""
    progress = progress or Silent()
    cache = cache or cache_dir()
    require_own(cache)
    home = java.find_or_fetch(cache, progress)
    for group in GROUPS:
        fetch_jars(pinned(group), group, home, progress, cache)


def fetch_jars(jars: Iterable[Jar], group: Group, java_home: Path, progress: Progress, cache: Path) -> None:
    """Fetches those of the jars that are not in the group's folder yet."""
    jars = tuple(jars)
    home = folder_of(group, cache)
    if all(jar.is_in(home) for jar in jars):
        return
    with locked(cache, progress):
        home.mkdir(parents=True, exist_ok=True)
        workspace = cache / "fetching" / group
        missing = [jar for jar in jars if not jar.is_in(home)]
        _take_home(ivy.arrived(missing, workspace), home)
        missing = [jar for jar in missing if not jar.is_in(home)]
        if missing:
            _download(missing, group, java_home, progress, cache)
        shutil.rmtree(workspace, ignore_errors=True)


def _download(missing: list[Jar], group: Group, java_home: Path, progress: Progress, cache: Path) -> None:
    workspace, home = cache / "fetching" / group, folder_of(group, cache)
    shutil.rmtree(workspace, ignore_errors=True)  # all that was whole has been taken home
    title = f"{TITLES[group]} ({len(missing)} jars)"
    with progress.step(title, sum(jar.size_bytes for jar in missing)) as step:
        try:
            result = ivy.download(java_home / "bin" / "java", missing, workspace, step)
        except OSError as error:
            raise Unavailable(
                f"{title} could not be fetched into {cache}: {error}",
                hint="is there space and the right to write? PENSTOCK_CACHE_DIR=DIR names another folder",
            ) from error
        wrong = _take_home(result.arrived, home)
    if wrong:
        raise Unavailable(
            f"{_names(wrong)} arrived with another content than the pinned sha256 and was deleted",
            hint="try again; if it stays so, the mirror or proxy in between alters what it hands out",
        )
    absent = [jar for jar in missing if not jar.is_in(home)]
    if absent:
        raise Unavailable(
            f"{_names(absent)} could not be downloaded: {_why(result.complaints)}",
            hint="is the network there? `penstock fetch` goes on from here; PENSTOCK_MAVEN_ROOT names a mirror",
        )


def _take_home(found: dict[Jar, Path], home: Path) -> list[Jar]:
    """Moves what is right into its folder and deletes what is wrong, which it returns."""
    wrong = []
    for jar, file in found.items():
        if jar.matches(file):
            os.replace(file, home / jar.file_name)
        else:
            file.unlink()
            wrong.append(jar)
    return wrong


def _look_up(group: Group, cache: Path | None) -> list[Path]:
    cache = cache or cache_dir()
    require_own(cache, cache / "jars", folder_of(group, cache))
    missing = _missing(group, cache)
    if missing:
        raise Misconfigured(
            f"{TITLES[group]} is not in the cache folder {cache} ({len(missing)} jars are missing)",
            hint="`make setup` or `penstock fetch` fetches what is missing",
        )
    return [folder_of(group, cache) / jar.file_name for jar in pinned(group)]


def _missing(group: Group, cache: Path) -> list[Jar]:
    return [jar for jar in pinned(group) if not jar.is_in(folder_of(group, cache))]


def _names(jars: list[Jar]) -> str:
    rest = f" and {len(jars) - 1} more" if len(jars) > 1 else ""
    return jars[0].coordinate + rest


def _why(complaints: tuple[str, ...]) -> str:
    """The first complaint that gives a cause rather than the fact."""
    causes = [line for line in complaints if "access error" in line.lower() or "exception" in line.lower()]
    chosen = causes or list(complaints) or ["Ivy gave no reason"]
    return chosen[0][:300]
