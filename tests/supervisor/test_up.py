"""The whole system, as ``penstock up --detach`` leaves it."""

import ipaddress
import json
import os
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.conftest import System

from penstock import child

LISTENING = "0A"


def run_id_of(system: System) -> str:
    return str(json.loads((system.data_dir / "run/up.json").read_text())["run_id"])


def test_everything_says_ready(penstock_up: System) -> None:
    for url in (penstock_up.ingress_url, penstock_up.admin_url):
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            assert answer.status == 200
    ready = (penstock_up.data_dir / "run/dispatcher.ready").read_text().strip()
    assert int(ready) == penstock_up.pid("dispatcher")


def test_a_second_up_is_refused_with_the_pid_of_the_first(penstock_up: System) -> None:
    answer = penstock_up.run("up", "--data-dir", str(penstock_up.data_dir))
    assert answer.returncode == 1
    assert "another `penstock up` (pid " in answer.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="sockets are read from /proc")
def test_everything_listens_on_loopback_only(penstock_up: System) -> None:
    pids = child.marked(run_id_of(penstock_up))
    assert len(pids) >= 5, "Kafka, controller, receiver, dispatcher and Spark's JVM"
    sockets = {link for pid in pids for link in _links(pid)}
    open_to_others = {
        address
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for address, inode in _listening(table)
        if f"socket:[{inode}]" in sockets and not _is_loopback(address)
    }
    assert open_to_others == set()


def _links(pid: int) -> list[str]:
    try:
        return [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def _listening(table: str) -> list[tuple[str, str]]:
    rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
    return [(row[1].split(":")[0], row[9]) for row in rows if row[3] == LISTENING]


def _is_loopback(words: str) -> bool:
    """The kernel writes an address as 32-bit words, each with its bytes the wrong way round."""
    raw = b"".join(bytes.fromhex(words[i : i + 8])[::-1] for i in range(0, len(words), 8))
    address = ipaddress.ip_address(raw)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
