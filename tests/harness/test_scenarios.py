"""Every scenario of the list of faults that belongs to one machine has a test; which, ``scenario(N)`` says there."""

import re
from pathlib import Path

from tests.harness.faults import FAULTS

# 10 to 12 need three brokers, 35 is the mix of all for hours: ``make soak``.
ON_ONE_MACHINE = {*range(1, 10), *range(13, 35)}
MARKER = re.compile(r"mark\.scenario\(([\d, ]+)\)")


def test_every_scenario_has_a_test() -> None:
    """Kept promise: nobody takes a test of the list away unnoticed."""
    found = {int(fault.name.split()[0]) for fault in FAULTS if fault.name[0].isdigit()}
    for path in Path(__file__).parents[1].rglob("test_*.py"):
        for numbers in MARKER.findall(path.read_text()):
            found |= {int(number) for number in numbers.split(",")}
    assert ON_ONE_MACHINE - found == set()
