"""Makes the archive for quick starts of Spark, by running it once. Called by ``penstock fetch``.

The JVM writes the archive when it ends, so it is run in a process of its own: ``python -m penstock.pipeline.warmup``.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.errors import Unavailable
from penstock.kafka.fetch import spark_connector_jars
from penstock.kafka.java import java_home
from penstock.pipeline.session import class_archive, start_session
from penstock.pipeline.settings import DispatcherSettings
from penstock.pipeline.stream import one_row

LONGEST_SECONDS = 300


def is_made() -> bool:
    return class_archive(java_home()).is_file()


def make() -> None:
    """Raises Unavailable when it cannot be made; every start then takes some seconds longer."""
    archive = class_archive(java_home())
    with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
        draft = Path(scratch, "spark.jsa")
        command = [sys.executable, "-m", "penstock.pipeline.warmup", scratch, str(draft)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
            if ended.returncode != 0:
                raise Unavailable(f"Spark did not run: {ended.stderr.strip().splitlines()[-1:]}")
            archive.parent.mkdir(parents=True, exist_ok=True)
            for outdated in archive.parent.glob("spark-*.jsa"):
                outdated.unlink()
            near = archive.with_suffix(f".{os.getpid()}")
            near.write_bytes(draft.read_bytes() if draft.is_file() else b"")  # empty: this Java makes none
            os.replace(near, archive)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"no archive of Spark's classes: {error}") from error


def run_once(scratch: str, draft: str) -> None:
    options = [f"-XX:ArchiveClassesAtExit={draft}", "-Xlog:cds*=off"]
    settings = DispatcherSettings(data_dir=scratch, master="local[2]")
    session = start_session(settings, spark_connector_jars(), java_home(), options)
    one_row(session)
    session.stop()


if __name__ == "__main__":
    run_once(sys.argv[1], sys.argv[2])
