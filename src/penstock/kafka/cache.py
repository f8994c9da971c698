"""The cache folder: what was fetched once and serves every data directory and every start after that.

Called by ``fetch`` and ``java``. Layout: ``jars/kafka-server``, ``jars/spark-connector``, ``java``, and ``fetching``
for what is on its way.
"""

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import Misconfigured
from penstock.kafka.progress import Progress


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """PENSTOCK_CACHE_DIR, else ``penstock`` in XDG_CACHE_HOME, else ``~/.cache/penstock``."""
    environ = os.environ if environ is None else environ
    if environ.get("PENSTOCK_CACHE_DIR"):
        return Path(environ["PENSTOCK_CACHE_DIR"]).expanduser().absolute()
    home = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser().absolute() / "penstock"


def require_own(*folders: Path) -> None:
    """Refuses a folder where any user of the machine may replace the fetched code."""
    for folder in folders:
        try:
            is_open = bool(folder.stat().st_mode & stat.S_IWOTH)
        except OSError:
            continue  # none yet
        if is_open:
            raise Misconfigured(
                f"every user of this machine may write into the cache folder {folder}; Penstock runs code from it",
                hint=f"chmod -R o-w {folder}, after you have checked its content",
            )


@contextmanager
def locked(cache: Path, progress: Progress) -> Iterator[None]:
    """One fetch at a time per cache folder: a second process waits, and then finds the work done."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = open(cache / "lock", "a")  # noqa: SIM115 (closed below, at the end of the lock)
    except OSError as error:
        raise Misconfigured(
            f"the cache folder {cache} cannot be written: {error.strerror}",
            hint="PENSTOCK_CACHE_DIR=DIR names another folder",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("another process is fetching into this cache folder; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
