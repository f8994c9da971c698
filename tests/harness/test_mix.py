"""Two minutes of everything at once, then a test for each fault and each promise. Longer: ``make soak``."""

import os

import pytest

from tests.conftest import running_system
from tests.harness.checker import Findings
from tests.harness.faults import FAULTS
from tests.harness.logs import Logs
from tests.harness.run import ENVIRONMENT, Harness, report

# Nothing runs beside it: a worker that had no processor for 5 s is rightly replaced, and events are delivered twice.
pytestmark = pytest.mark.alone
SECONDS = 120.0
SEED = int(os.environ.get("PENSTOCK_HARNESS_SEED", "20261115"))


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> tuple[Findings, Logs]:
    """One run for all tests here; what it did and found is printed with the seed that repeats it."""
    said: list[str] = []
    with running_system(tmp_path_factory.mktemp("mix"), ENVIRONMENT) as system:
        harness = Harness(system, SEED, say=said.append)
        findings = harness.run(SECONDS, rate=100.0)
    said.append(report(findings, harness.logs, SEED))
    print("\n".join(said))  # noqa: T201 - pytest shows it with a failure
    return findings, harness.logs


@pytest.mark.timeout(600)
def test_nothing_is_lost(mix: tuple[Findings, Logs]) -> None:
    """Kept promise: every acknowledged event reached everybody who wanted it, or is in the record of the given up."""
    findings, logs = mix
    assert findings.lost == []
    assert sum(each.outcome == "ok" for each in logs.sent) > 3000


def test_nothing_is_made_up(mix: tuple[Findings, Logs]) -> None:
    """Kept promise: nobody got what was not sent, was refused, was altered, or was for others."""
    assert mix[0].phantoms == []


def test_no_order_is_broken(mix: tuple[Findings, Logs]) -> None:
    """Kept promise: ordered and key stay so, through retries, kills, parking and taking over."""
    assert mix[0].disorder == []


def test_only_what_a_fault_cut_off_comes_twice(mix: tuple[Findings, Logs]) -> None:
    """Kept promise: without a kill or a stop nothing is delivered twice."""
    assert mix[0].repeated == []


def test_the_ledger_is_right(mix: tuple[Findings, Logs]) -> None:
    """Kept promise: positions never go back, and at the end all of them are at the end."""
    assert mix[0].ledger == []


@pytest.mark.parametrize("name", [kind.name for kind in FAULTS])
def test_every_fault_was_there(mix: tuple[Findings, Logs], name: str) -> None:
    """Kept promise: with this fault among the others all of the above holds."""
    findings, logs = mix
    assert name in {fault.name for fault in logs.faults}
    assert findings.all == []
