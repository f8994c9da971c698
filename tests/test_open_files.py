"""Promises about open files: a server uses what it may have, and keeps room for files and for Kafka."""

import subprocess
import sys

import pytest

LOOK = """
import resource
from penstock.open_files import connections_that_fit
print(connections_that_fit(4096), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "connections"),
    [(1024, 1024, 896), (256, 1024, 896), (256, 6000, 4096), (100, 100, 50)],
    ids=["one limit", "raised", "enough", "very few"],
)
def test_connections_fit_into_the_highest_limit_of_open_files(soft: int, hard: int, connections: int) -> None:
    """The soft limit becomes the hard one, and 128 of it are never given to connections."""
    command = ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh", sys.executable, "-c", LOOK]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [int(each) for each in found.stdout.split()] == [connections, hard, hard]
    assert (f"may open {hard} files" in found.stderr) == (connections < 4096)
