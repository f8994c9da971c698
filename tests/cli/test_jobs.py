"""Dead letters in groups and jobs on the command line, against a real controller and Kafka."""

import json
import os
import signal
import subprocess
from typing import Any

import pytest

from penstock.kafka.connection import KafkaConnection
from tests.cli.conftest import PENSTOCK, Bench
from tests.control.letters import the_fifty, write
from tests.waiting import until

RESOURCES = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: orders}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: audit}
spec:
  broker: orders
  subscriber: {uri: "http://me:hidden@127.0.0.1:9/audit"}
"""


@pytest.fixture
def uid(controller: Bench, kafka: KafkaConnection) -> str:
    """Of a trigger with fifty dead letters."""
    controller.ok("apply", "-f", "-", stdin=RESOURCES)
    controller.ok("wait", "broker/orders", "--for=condition=Ready", "--timeout=60s")
    found = str(json.loads(controller.ok("get", "trigger", "audit", "-o", "json"))["metadata"]["uid"])
    write(kafka, *the_fifty(found))
    until(lambda: sum(each["count"] for each in groups(controller, found)) == 50, "fifty letters")
    return found


def groups(controller: Bench, uid: str) -> list[dict[str, Any]]:
    found = json.loads(controller.ok("deadletters", "list", "--groups", "--trigger", "audit", "-o", "json"))
    return [each for each in found if each["uid"] == uid]


def test_a_plan_a_run_and_its_record(controller: Bench, uid: str) -> None:
    """Kept promise: the dry run says what the run then does; no password is shown; all of it is JSON when asked."""
    table = controller.ok("deadletters", "list", "--groups", "--trigger", "audit").splitlines()
    assert table[0].split()[:4] == ["GROUP", "SUBSCRIPTION", "ERROR", "COUNT"]
    largest = groups(controller, uid)[0]
    assert any(largest["group"] in line and "answered 503" in line and " 40 " in line for line in table)
    planned = controller.run("deadletters", "redrive", "--group", largest["group"], "--dry-run")
    assert planned.stdout.splitlines()[:2] == ["would send again: 40", "rate:             100 a second, 0.4 s in all"]
    assert "hidden" not in planned.stdout
    as_json = json.loads(
        controller.ok("deadletters", "redrive", "--group", largest["group"], "--dry-run", "-o", "json")
    )
    assert as_json["state"] == "planned"
    done = json.loads(controller.ok("deadletters", "redrive", "--group", largest["group"], "-o", "json"))
    assert (done["redriven"], done["problems"], done["job"]["plan"]) == (40, [], as_json["plan"])
    shown = json.loads(controller.ok("jobs", "show", done["job"]["id"], "-o", "json"))
    assert (shown["state"], shown["sent"]) == ("done", 40)
    listed = json.loads(controller.ok("jobs", "list", "-o", "json"))
    assert listed[0]["id"] == done["job"]["id"]
    assert done["job"]["id"] in controller.ok("jobs")
    assert "State:    done" in controller.ok("jobs", "show", done["job"]["id"])
    assert [each["count"] for each in groups(controller, uid)] == [7, 3]


@pytest.mark.usefixtures("uid")
def test_ctrl_c_leaves_the_job_running(controller: Bench) -> None:
    """Kept promise: whoever stops watching is told how to go on, and how to end it."""
    slow = [*PENSTOCK, "deadletters", "redrive", "--all", "--trigger", "audit", "--code", "503", "--rate", "1"]
    watching = subprocess.Popen(
        slow, env={**os.environ, "PENSTOCK_SERVER": controller.server}, stderr=subprocess.PIPE, text=True
    )

    def running() -> dict[str, Any] | None:
        found = json.loads(controller.ok("jobs", "list", "-o", "json"))
        return found[0] if found and found[0]["state"] == "running" and found[0]["sent"] else None

    job = until(running, "the job runs")
    watching.send_signal(signal.SIGINT)
    _, told = watching.communicate(timeout=30)
    assert watching.returncode == 130
    assert f"job {job['id']} goes on" in told
    assert f"penstock jobs show {job['id']} -w" in told
    assert json.loads(controller.ok("jobs", "show", job["id"], "-o", "json"))["state"] == "running"
    ended = json.loads(controller.ok("jobs", "cancel", job["id"], "-o", "json"))
    assert ended["state"] == "cancelled"
    assert ended["sent"] < 40


def test_what_is_wrong_is_named(controller: Bench) -> None:
    assert controller.run("deadletters", "redrive").returncode == 2
    nothing = controller.run("deadletters", "redrive", "--group", "000000000000")
    assert (nothing.returncode, "no dead letter is like that" in nothing.stderr) == (1, True)
    unknown = controller.run("jobs", "show", "00000000")
    assert (unknown.returncode, "there is no job 00000000" in unknown.stderr) == (1, True)
    assert "hint:" in unknown.stderr
