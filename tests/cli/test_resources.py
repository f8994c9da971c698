"""apply, get, describe, delete and wait against a real controller."""

import json
import os
import pty
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import PENSTOCK, Bench
from tests.waiting import until

Run = Callable[..., str]

BROKER = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: orders}
"""
TRIGGER = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: audit}
spec:
  broker: orders
  filter: {attributes: {type: order.placed}}
  subscriber: {uri: "http://127.0.0.1:9/a/rather/long/path/that/does/not/fit/into/a/narrow/terminal/window"}
"""
BOTH = f"{BROKER}---{TRIGGER}"


def test_from_yaml_to_ready_and_gone(penstock: Run) -> None:
    assert penstock("apply", "-f", "-", stdin=BOTH) == "broker/orders created\ntrigger/audit created\n"
    assert "condition met" in penstock("wait", "broker/orders", "trigger/audit", "--for=condition=Ready")
    assert penstock("apply", "-f", "-", stdin=BOTH) == "broker/orders unchanged\ntrigger/audit unchanged\n"
    changed = BOTH.replace("order.placed", "order.paid")
    assert penstock("apply", "-f", "-", stdin=changed) == "broker/orders unchanged\ntrigger/audit configured\n"
    shown = penstock("get", "triggers", "-o", "wide")
    heading, row = shown.splitlines()
    assert heading.split() == ["NAME", "READY", "REASON", "BROKER", "SUBSCRIBER", "AGE", "LAG", "FILTER"]
    assert row.split()[-2:] == ["0", "type=order.paid"]
    assert "\x1b" not in shown
    described = penstock("describe", "trigger", "audit")
    assert "knative-trigger-default-audit" in described
    assert "PARTITION   POSITION   END   LAG" in described
    assert penstock("delete", "-f", "-", stdin=BOTH) == "trigger/audit deleted\nbroker/orders deleted\n"


def test_json_and_yaml_have_the_shape_of_kubernetes(penstock: Run) -> None:
    assert json.loads(penstock("get", "brokers", "-o", "json")) == {
        "apiVersion": "v1", "kind": "List", "metadata": {}, "items": [],
    }  # fmt: skip
    penstock("apply", "-f", "-", stdin=BOTH)
    penstock("wait", "broker/orders")
    one = json.loads(penstock("get", "broker/orders", "-o", "json"))
    assert one["status"]["observedGeneration"] == one["metadata"]["generation"]
    assert one["status"]["address"]["url"].endswith("/default/orders")
    assert (
        yaml.safe_load(penstock("get", "broker", "orders", "-o", "yaml"))["metadata"]["uid"] == one["metadata"]["uid"]
    )
    listed = json.loads(penstock("get", "broker,trigger", "-A", "-o", "json"))
    assert [each["kind"] for each in listed["items"]] == ["Broker", "Trigger"]
    assert json.loads(penstock("describe", "trigger/audit", "-o", "json"))["resource"]["kind"] == "Trigger"


def test_wait_and_delete_speak_json_lines(penstock: Run) -> None:
    penstock("apply", "-f", "-", stdin=BROKER)
    waited = penstock("wait", "broker/orders", "-o", "json")
    gone = penstock("delete", "broker/orders", "-o", "json")
    common = {"kind": "Broker", "namespace": "default", "name": "orders"}
    assert json.loads(waited) == {**common, "result": "condition met"}
    assert json.loads(gone) == {**common, "result": "deleted", "dependents": []}


def test_all_problems_of_a_resource_in_one_go(controller: Bench) -> None:
    wrong = TRIGGER.replace("broker: orders", "brokr: orders").replace("uri:", "url:")
    done = controller.run("apply", "-f", "-", stdin=wrong)
    assert done.returncode == 1
    assert "spec.brokr: unknown field; did you mean broker?" in done.stderr
    assert "spec.subscriber.url: unknown field; did you mean uri?" in done.stderr
    assert done.stdout == ""


def test_some_failed_is_3(controller: Bench, penstock: Run) -> None:
    done = controller.run("apply", "-f", "-", stdin=BROKER + "---\nkind: Borker\n")
    assert (done.returncode, done.stdout) == (3, "broker/orders created\n")
    assert "did you mean Broker?" in done.stderr


def test_yaml_that_is_none_names_file_line_and_column(controller: Bench, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("kind: Broker\nmetadata: {name: a\n")
    done = controller.run("apply", "-f", str(path))
    assert done.returncode == 1
    assert f"{path}, line 3, column 1 is not YAML" in done.stderr


def test_a_directory_and_dates_and_doubles(controller: Bench, penstock: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {when: 2026-01-01}\n"
    )
    (tmp_path / "b.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}')
    (tmp_path / "notes.txt").write_text("not for us")
    assert penstock("apply", "-f", str(tmp_path)) == "configmap/a created\nconfigmap/b created\n"
    done = controller.run("apply", "-f", "-", stdin="kind: Broker\nkind: Trigger\n")
    assert "stands here twice" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("get", "borkers"), 2, "did you mean brokers?"),
        (("get", "broker", "nothing"), 1, 'broker "nothing" does not exist'),
        (("get", "brokers", "-o", "xml"), 2, "xml"),
        (("get", "eventquery"), 2, "not served by this version"),
        (("delete", "broker"), 2, "needs a name"),
        (("delete",), 2, "KIND NAME or -f FILE"),
        (("delete", "trigger", "audit", "--all"), 2, "without a name"),
        (("delete", "broker/orders", "--all"), 2, "without a name"),
        (("wait", "broker"), 2, "needs a name"),
        (("wait", "broker/x", "--for=happiness"), 2, "--for=condition=Ready"),
        (("wait", "broker/x", "--timeout=soon"), 2, "not a length of time"),
        (("apply", "-f", "/does/not/exist"), 1, "cannot be read"),
        (("get", "brokers", "--server", "http://127.0.0.1:1"), 1, "penstock up"),
    ],
)
def test_mistakes_are_told_with_the_right_code(
    controller: Bench, arguments: tuple[str, ...], code: int, told: str
) -> None:
    done = controller.run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wait_that_ends_says_why(controller: Bench, penstock: Run) -> None:
    penstock("apply", "-f", "-", stdin=TRIGGER)
    done = controller.run("wait", "trigger/audit", "--for=condition=Ready", "--timeout=300ms")
    assert done.returncode == 5
    assert "BrokerDoesNotExist" in done.stderr
    assert penstock("wait", "trigger/audit", "--for=condition=BrokerReady=False")


def test_near_names_are_suggested(controller: Bench, penstock: Run) -> None:
    penstock("apply", "-f", "-", stdin=BROKER)
    assert "did you mean orders?" in controller.run("describe", "broker", "order").stderr


def test_what_is_immutable_is_refused(controller: Bench, penstock: Run) -> None:
    penstock("apply", "-f", "-", stdin=TRIGGER)
    done = controller.run("apply", "-f", "-", stdin=TRIGGER.replace("broker: orders", "broker: bills"))
    assert done.returncode == 1
    assert "spec.broker: is immutable" in done.stderr


def test_at_80_columns_lines_never_wrap(controller: Bench, penstock: Run) -> None:
    penstock("apply", "-f", "-", stdin=BOTH)
    main, side = pty.openpty()
    env = {**os.environ, "PENSTOCK_SERVER": controller.server, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"}
    subprocess.run([*PENSTOCK, "get", "triggers", "-o", "wide"], env=env, stdout=side, timeout=30, check=True)
    lines = os.read(main, 10_000).decode().splitlines()
    os.close(main)
    os.close(side)
    assert len(lines) == 2
    assert all(len(line) <= 80 for line in lines)
    assert "LAG" in lines[0]
    assert "\x1b" not in "".join(lines)


def test_a_watch_tells_every_change_as_json_lines(controller: Bench, penstock: Run) -> None:
    env = {**os.environ, "PENSTOCK_SERVER": controller.server}
    command = [*PENSTOCK, "get", "brokers", "-w", "-o", "json"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        penstock("apply", "-f", "-", stdin=BROKER)
        for line in watching.stdout:
            conditions = json.loads(line).get("status", {}).get("conditions", [])
            if {"Ready": "True"}.items() <= {c["type"]: c["status"] for c in conditions}.items():
                break
        watching.terminate()


def test_the_status_shows_the_parts(controller: Bench) -> None:
    done = controller.run("status", "-o", "json")
    parts = {part["name"]: part["state"] for part in json.loads(done.stdout)["parts"]}
    assert {name: parts[name] for name in ("kafka", "controller", "receiver")} == {
        "kafka": "running", "controller": "running", "receiver": "running",
    }  # fmt: skip
    assert done.returncode == (0 if parts["dispatcher"] == "running" else 1)


def test_the_settings_say_where_they_came_from(controller: Bench) -> None:
    done = controller.run("settings", "controller", "-o", "json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert (rows["default_partitions"]["value"], rows["default_partitions"]["origin"]) == ("2", "flag")
    assert rows["resync_seconds"]["origin"] == "default"


def test_pages_for_people_and_machines(controller: Bench, penstock: Run) -> None:
    penstock("apply", "-f", "-", stdin=BOTH)
    penstock("wait", "trigger/audit")
    page = urllib.request.urlopen(f"{controller.server}/").read().decode()
    assert "<title>Penstock</title>" in page
    live = json.loads(urllib.request.urlopen(f"{controller.server}/api/penstock/live?once=1").read())
    assert [each["key"] for each in live["ingresses"]] == ["Broker/default/orders"]

    def metrics() -> str:
        return str(urllib.request.urlopen(f"{controller.server}/metrics").read().decode())

    assert 'penstock_resources{kind="Broker",ready="True"} 1' in metrics()
    lag = 'penstock_subscription_lag_events{kind="Trigger",namespace="default",name="audit"} 0'
    until(lambda: lag in metrics(), "its lag")
    assert urllib.request.urlopen(f"{controller.server}/healthz").status == 200
