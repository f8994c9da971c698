"""A file system of its own, in memory, that a test can fill; who may not mount one skips the test. And what the files
of a running system hold."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tools import tool


@contextmanager
def small_disk(folder: Path, count: int) -> Iterator[Path]:
    """Of so many bytes, over this folder."""
    tool("mount")
    folder.mkdir(exist_ok=True)
    mounted = _mount(folder, f"size={count}")
    if mounted.returncode != 0:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def leave_free(disk: Path, count: int) -> None:
    resized = _mount(disk, f"remount,size={shutil.disk_usage(disk).used + count}")
    assert resized.returncode == 0, resized.stderr


def _mount(folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Of all files in a folder that somebody works in: they come and go meanwhile."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            try:
                content = path.read_bytes()
            except OSError:
                continue
            yield path, content
