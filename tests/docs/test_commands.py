"""The commands that the documentation shows are run as they stand, so that they stay true."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import System
from tests.waiting import until

ROOT = Path(__file__).parent.parent.parent
LISTEN_PORT = 3000
# Started by the fixtures instead: the system itself, and the listener.
LEFT_OUT = re.compile(r"make |penstock up|penstock down|export |\.venv/bin/python docs/listen\.py")


def commands(page: str) -> list[str]:
    """Every command in the shell blocks of a page; a backslash joins lines."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not LEFT_OUT.match(line)]


@pytest.fixture
def listener() -> Iterator[Path]:
    """docs/listen.py as the README starts it; yields the file that it prints into."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", LISTEN_PORT)) == 0:
            pytest.skip(f"port {LISTEN_PORT}, which the README uses, is taken on this machine")
    output = ROOT / ".pytest_cache" / "listen.txt"
    output.parent.mkdir(exist_ok=True)
    with output.open("w") as stdout:
        command = [sys.executable, str(ROOT / "docs" / "listen.py"), str(LISTEN_PORT)]
        with subprocess.Popen(command, stdout=stdout) as process:
            yield output
            process.terminate()


@pytest.mark.parametrize(
    "page",
    [
        *("README.md", "docs/using.md", "docs/kinds.md", "docs/filters.md", "docs/delivery.md", "docs/operating.md"),
        *("docs/logs.md", "docs/tracing.md", "docs/observing.md", "docs/explain.md"),
    ],
)
def test_the_commands_of_a_page_work(penstock_up: System, listener: Path, page: str) -> None:
    """Kept promise: what the documentation tells people to type does what it says."""
    shown = commands(page)
    assert shown, f"{page} shows no command"
    script = "\n".join(["set -euo pipefail", *shown]).replace("http://127.0.0.1:8080", penstock_up.ingress_url)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PENSTOCK_SERVER": penstock_up.admin_url,
        "PENSTOCK_DATA_DIR": str(penstock_up.data_dir),
    }
    ran = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    if page == "README.md":
        assert "202 Accepted" in ran.stdout
        until(lambda: listener.read_text().count("order.created") >= 101, "the events reach the listener", 60)
        penstock_up.run("delete", "-f", "docs/first-event.yaml")
