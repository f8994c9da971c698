"""A Spark for one command: started, used and ended, with a word to whoever waits."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST_WORDS = 2000  # bytes of the log that are shown when Spark does not start


@contextmanager
def local_spark(doing: str) -> Iterator["SparkSession"]:
    """``doing`` is shown beside a spinner, on a terminal only. What Spark itself has to say goes into a file."""
    from rich.console import Console

    from penstock.errors import PenstockError, Unavailable
    from penstock.kafka import fetch
    from penstock.kafka.java import java_home
    from penstock.pipeline.session import start_session
    from penstock.pipeline.settings import DispatcherSettings

    fetch.fetch_missing()
    terminal = os.fdopen(os.dup(2), "w")  # beside the one that is taken from Spark
    console = Console(file=terminal, quiet=not sys.stderr.isatty())
    with terminal, tempfile.TemporaryDirectory(prefix="penstock-spark-") as folder, console.status(doing):
        log = Path(folder, "spark.log")
        try:
            with _stderr_of_children(log):
                session = start_session(DispatcherSettings(data_dir=folder, master="local[1]"), [], java_home())
        except PenstockError:
            raise
        except Exception as error:
            last = log.read_text(errors="replace")[-LAST_WORDS:].strip()
            raise Unavailable(f"Spark did not start: {error}\n{last}") from error
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def _stderr_of_children(log: Path) -> Iterator[None]:
    """Processes that are started meanwhile write there instead of onto the terminal."""
    sys.stderr.flush()
    ours = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
