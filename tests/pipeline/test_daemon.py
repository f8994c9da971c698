"""The daemon that workers are forked from."""

import subprocess
import sys

LOOK = """
import os, sys
import penstock.pipeline.daemon
print(len(os.listdir("/proc/self/task")), "pyarrow" in sys.modules, "penstock.delivery.client" in sys.modules)
"""


def test_it_has_everything_but_threads() -> None:
    """Kept promise: a fork of the daemon leaves nothing behind, and a worker has its code at once."""
    seen = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True).stdout
    assert seen.split() == ["1", "False", "True"]
