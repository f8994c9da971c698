"""Two minutes of everything at once. The same for as long as you like: ``make soak``."""

import os
from pathlib import Path

import pytest

from tests.conftest import running_system
from tests.harness.faults import FAULTS
from tests.harness.run import ENVIRONMENT, Harness, report

SECONDS = 120.0
SEED = int(os.environ.get("PENSTOCK_HARNESS_SEED", "20261115"))


@pytest.mark.timeout(600)
def test_nothing_is_lost_or_out_of_order_whatever_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kept promise: all faults mixed lose nothing and break no order; what comes twice was cut off by a fault."""

    def say(text: str) -> None:
        with capsys.disabled():
            print(text)  # noqa: T201 - the numbers belong into the test's output

    with running_system(tmp_path, ENVIRONMENT) as system:
        harness = Harness(system, SEED, say=say)
        findings = harness.run(SECONDS, rate=100.0)
    say(report(findings, harness.logs, SEED))
    assert findings.all == []
    assert {each.name for each in harness.logs.faults} == {kind.name for kind in FAULTS}
