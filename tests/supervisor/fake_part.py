"""A small part for tests: says ready, notes when it starts and ends, and dies or stays as it is told.

python fake_part.py NAME FOLDER [die | child | stubborn | later]
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

name, folder, ways = sys.argv[1], Path(sys.argv[2]), set(sys.argv[3:])


def note(text: str) -> None:
    with (folder / "notes").open("a") as notes:
        notes.write(f"{name} {text}\n")


def on_term(number: int, frame: FrameType | None) -> None:
    if "stubborn" in ways:
        return
    note("ended")
    sys.exit(0)


signal.signal(signal.SIGTERM, on_term)
note("started")
if "die" in ways:
    sys.stderr.write("ValueError: no luck today\n")
    sys.exit(3)
if "child" in ways:
    # As Spark's workers do: a process of its own group, which does not hear what its parent hears.
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    (folder / f"{name}.child").write_text(str(left.pid))
if "later" in ways:
    time.sleep(0.5)
(folder / f"{name}.ready").write_text(str(os.getpid()))
while True:
    time.sleep(60)
