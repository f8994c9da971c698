"""``python -m tests.harness``: the harness for as long as you like. Ends with 1 when a promise was broken."""

import argparse
import random
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
    asked = options.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        minutes = (time.monotonic() - began) / 60
        sys.stdout.write(f"{minutes:5.1f} of {asked.minutes:g} min  {text}\n")
        sys.stdout.flush()

    say(f"seed {asked.seed}")
    with (
        tempfile.TemporaryDirectory(prefix="penstock-harness-") as folder,
        running_system(Path(folder), ENVIRONMENT) as system,
    ):
        harness = Harness(system, asked.seed, asked.scale, say)
        kinds = tuple(kind for kind in FAULTS if not (asked.gentle and kind.cuts))
        findings = harness.run(asked.minutes * 60, asked.rate, kinds)
    say(report(findings, harness.logs, asked.seed))
    return 1 if findings.all else 0


if __name__ == "__main__":
    sys.exit(main())
