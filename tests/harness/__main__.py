"""``python -m tests.harness``: the harness for as long as you like. Ends with 1 when a promise was broken."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.conftest import running_system
from tests.harness.faults import FAULTS
from tests.harness.run import ENVIRONMENT, Harness, report


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.harness", description=__doc__)
    options.add_argument("--minutes", type=float, default=30.0)
    options.add_argument("--rate", type=float, default=150.0, help="events per second")
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    options.add_argument("--scale", type=float, default=2.0, help="how long each fault lasts, compared with CI")
    options.add_argument("--gentle", action="store_true", help="no kills and no stops: nothing may come twice at all")
    options.add_argument("--only", default="", metavar="5,6", help="faults of these scenarios")
    asked = options.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        minutes = (time.monotonic() - began) / 60
        sys.stdout.write(f"{minutes:5.1f} of {asked.minutes:g} min  {text}\n")
        sys.stdout.flush()

    say(f"seed {asked.seed}")
    folder = Path(tempfile.mkdtemp(prefix="penstock-harness-"))
    with running_system(folder, ENVIRONMENT) as system:
        harness = Harness(system, asked.seed, asked.scale, say)
        numbers = asked.only.split(",") if asked.only else []
        kinds = tuple(
            kind
            for kind in FAULTS
            if not (asked.gentle and kind.cuts) and (not numbers or kind.name.split()[0] in numbers)
        )
        findings = harness.run(asked.minutes * 60, asked.rate, kinds)
    say(report(findings, harness.logs, asked.seed))
    if findings.all:
        say(f"what the parts said is in {folder / 'logs'}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
