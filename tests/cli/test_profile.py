"""``profile`` on a running system: a flame graph of each part; and clear words where it cannot be had."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.cli import dumps
from penstock.errors import Misconfigured
from penstock.supervisor.processes import busiest, processes
from penstock.supervisor.rundir import RunDirectory
from tests.conftest import System
from tests.sink import Sink
from tests.system.sender import Sender
from tests.waiting import until

RESOURCES = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: profiled}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: profiled}
spec:
  broker: profiled
  subscriber: {uri: "%s"}
"""


@pytest.fixture(scope="module")
def busy(penstock_up: System) -> Iterator[System]:
    """With events on their way, so that there is something to see."""
    sink = Sink().start()
    wanted = RESOURCES % f"http://127.0.0.1:{sink.port}/"
    applied = penstock_up.run("apply", "-f", "-", stdin=wanted)
    assert applied.returncode == 0, applied.stderr
    penstock_up.run("wait", "trigger/profiled", "--for", "condition=Ready", "--timeout", "60s")
    sender = Sender(f"{penstock_up.ingress_url}/default/profiled", 200).start()
    try:
        until(lambda: sink.requests, "events arrive")
        yield penstock_up
    finally:
        sender.stop()
        penstock_up.run("delete", "-f", "-", stdin=wanted)
        sink.stop()


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (("receiver",), "penstock/receiver"),
        (("worker",), "penstock/delivery"),
        (("dispatcher", "--jvm"), "org.apache."),
    ],
)
def test_a_flame_graph_shows_what_the_process_does(
    busy: System, tmp_path: Path, arguments: tuple[str, ...], seen: str
) -> None:
    path = tmp_path / "graph.svg"
    done = busy.run(
        "profile", *arguments, "--seconds", "4" if "--jvm" in arguments else "2", "--out", str(path), "-o", "json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["path"] == str(path)
    ElementTree.fromstring(path.read_text())
    assert seen in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_all_processes_of_a_running_system_are_known(busy: System) -> None:
    found = {(each.part, each.is_java) for each in processes(RunDirectory(busy.data_dir))}
    python = {"up", "controller", "receiver", "dispatcher", "daemon", "worker"}
    assert found == {*((part, False) for part in python), ("kafka", True), ("spark", True)}


def test_the_busiest_worker_is_one_of_the_workers(busy: System) -> None:
    workers = [each for each in processes(RunDirectory(busy.data_dir)) if each.part == "worker"]
    assert busiest(workers) in workers


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("receivr",), 2, "did you mean receiver?"),
        (("receiver", "--jvm"), 2, "has no Java"),
        (("receiver", "--seconds", "0"), 2, "--seconds"),
        (("receiver",), 1, "nothing runs in"),
    ],
)
def test_what_cannot_be_is_said_with_a_hint(tmp_path: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = System("", "", "", tmp_path).run("profile", *arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert "hint:" in done.stderr


def test_a_refused_look_is_explained() -> None:
    """As py-spy says it where the kernel refuses."""
    error = dumps.explained(
        "record", "Error: Permission Denied: Try running again with elevated permissions\n\nStack…"
    )
    assert isinstance(error, Misconfigured)
    assert "kernel does not allow" in error.message
    assert "SYS_PTRACE" in str(error.hint)


def test_a_java_without_its_tools_is_named_with_the_remedy() -> None:
    """This process stands for a Java whose folder has no jcmd."""
    with pytest.raises(Misconfigured, match="comes without jcmd") as caught:
        dumps.java_tool(os.getpid(), "jcmd")
    assert "JAVA_HOME" in str(caught.value.hint)
