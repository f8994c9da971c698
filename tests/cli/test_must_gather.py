"""``must-gather`` on a running system: everything is in it but the secrets; and it works when nothing runs."""

import base64
import json
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from penstock.telemetry.metrics import (
    DEAD_LETTERS_BY_REASON,
    FILTER_ERRORS,
    INGRESS_CONNECTIONS,
    INGRESS_IN_FLIGHT,
    KAFKA_DISK_FREE,
    METRICS,
    RETENTION,
    SUBSCRIPTION,
)
from tests.conftest import System
from tests.waiting import until

IN_SECRET, IN_URL, IN_QUERY = "Tr0ub4dor-and-3", "hunter2hunter2", "tok-9f8e7d6c"
SIGNING = "whsec_" + base64.b64encode(b"a key of thirty-two bytes at all").decode()
RESOURCES = f"""
apiVersion: v1
kind: Secret
metadata: {{name: gathered}}
stringData: {{user: alice, password: {IN_SECRET}}}
---
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {{name: gathered}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata:
  name: gathered
  annotations: {{penstock.dev/delivery.signing-secret: gathered-key}}
spec:
  broker: gathered
  subscriber: {{uri: "http://bob:{IN_URL}@127.0.0.1:9/orders?token={IN_QUERY}"}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {{name: orphan}}
spec:
  broker: nowhere
  subscriber: {{uri: "http://127.0.0.1:9/"}}
"""


@pytest.fixture(scope="module")
def system(penstock_up: System) -> Iterator[System]:
    """With a Secret, a password in a URL, a signing secret, an event that fails, and a resource that is not well."""
    key = penstock_up.data_dir / "secrets" / "default" / "gathered-key"
    key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key.write_text(SIGNING + "\n")
    key.chmod(0o600)
    applied = penstock_up.run("apply", "-f", "-", stdin=RESOURCES)
    assert applied.returncode == 0, applied.stderr
    penstock_up.run("wait", "trigger/gathered", "--for", "condition=Ready", "--timeout", "60s")
    sent = penstock_up.run("send", "broker/gathered", "--type", "t", "--source", "/must-gather", "--data", "{}")
    assert sent.returncode == 0, sent.stderr
    until(lambda: "gathered" in penstock_up.run("deadletters", "list").stdout, "the delivery fails")
    yield penstock_up
    penstock_up.run("delete", "-f", "-", stdin=RESOURCES)
    key.unlink()


@pytest.fixture(scope="module")
def gathered(system: System, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of the zip."""
    path = tmp_path_factory.mktemp("gathered") / "support.zip"
    done = system.run("must-gather", "--out", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{path}\n"
    return _files(path)


def _files(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as opened:
        assert opened.testzip() is None
        return {name: opened.read(name).decode() for name in opened.namelist()}


def test_no_secret_is_anywhere_in_it(gathered: dict[str, str]) -> None:
    values = [IN_SECRET, IN_URL, IN_QUERY, SIGNING, SIGNING.removeprefix("whsec_")]
    values += [base64.b64encode(each.encode()).decode() for each in values]
    values.append(base64.b64encode(f"bob:{IN_URL}".encode()).decode())
    assert [(name, each) for name, text in gathered.items() for each in values if each in text] == []


def test_everything_that_tells_how_the_system_is_is_in_it(gathered: dict[str, str]) -> None:
    trigger = yaml.safe_load(gathered["resources/trigger/default/gathered.yaml"])
    assert {each["type"] for each in trigger["status"]["conditions"]} >= {"Ready", "BrokerReady"}
    assert "resources/secret/default/gathered.yaml" in gathered
    agreed = yaml.safe_load(gathered["contract.yaml"])
    assert agreed["Trigger/default/gathered"]["subscriptions"][0]["topic"] == "knative-broker-default-gathered"
    assert "dispatcher" in yaml.safe_load(gathered["reports.yaml"])
    topics = {each["topic"]: each for each in json.loads(gathered["kafka/topics.json"])}
    assert sum(each["end"] for each in topics["knative-broker-default-gathered"]["partitions"]) == 1
    groups = {each["group"]: each for each in json.loads(gathered["kafka/groups.json"])}
    assert groups["knative-trigger-default-gathered"]["positions"]
    assert json.loads(gathered["kafka/brokers.json"])["offline_partitions"] == 0
    assert json.loads(gathered["versions.json"]).keys() >= {
        "Penstock",
        "Python",
        "Java",
        "Kafka",
        "Spark",
        "packages",
    }
    assert "penstock_part_up" in gathered["metrics/controller.prom"]
    assert {"logs/controller.log", "logs/receiver.log", "logs/dispatcher.log", "logs/kafka.log"} <= gathered.keys()
    assert any(row["process"] == "receiver" and row["runs"] for row in json.loads(gathered["settings.json"]))


def test_the_controller_tells_every_metric_of_the_list(gathered: dict[str, str]) -> None:
    """The alerts and dashboards stand on this."""
    text = gathered["metrics/controller.prom"]
    told = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    told |= {name.removesuffix("_count") for name in told}
    now_and_then = {FILTER_ERRORS, KAFKA_DISK_FREE, INGRESS_IN_FLIGHT, INGRESS_CONNECTIONS}  # where there are any
    assert {each.name for each in METRICS} - told <= {each.name for each in now_and_then}
    mine = [line for line in text.splitlines() if 'kind="Trigger",namespace="default",name="gathered"' in line]
    told = {line.split("{")[0].removesuffix("_count") for line in mine}
    wanted = [each for each in METRICS if each.labels[:3] == SUBSCRIPTION and each.part != "receiver"]
    assert [each.name for each in wanted if each.name not in told] == [FILTER_ERRORS.name]
    assert f'{RETENTION.name}{{topic="penstock-deadletters"}} 1209600' in text
    assert (
        f'{DEAD_LETTERS_BY_REASON.name}{{kind="Trigger",namespace="default",name="gathered",reason="error"}} 1'
        in text
    )


def test_every_process_tells_what_its_threads_do(gathered: dict[str, str]) -> None:
    parts = {name.removeprefix("threads/").rpartition("-")[0] for name in gathered if name.startswith("threads/")}
    listed = {each["part"] for each in json.loads(gathered["processes.json"])}
    assert parts == listed >= {"up", "controller", "receiver", "dispatcher", "spark", "kafka"}
    (receiver,) = [text for name, text in gathered.items() if name.startswith("threads/receiver")]
    assert "MainThread" in receiver
    (kafka,) = [text for name, text in gathered.items() if name.startswith("threads/kafka")]
    assert "Full thread dump" in kafka


def test_the_first_page_says_what_is_not_well_and_links_to_everything(gathered: dict[str, str]) -> None:
    page = gathered["index.html"]
    assert "Trigger default/orphan" in page
    assert "BrokerDoesNotExist" in page or "BrokerNotFound" in page
    assert [name for name in gathered if name != "index.html" and f'href="{name}"' not in page] == []
    assert page.index("Parts") < page.index("Not well") < page.index("Lag") < page.index("Last errors")
    assert "<script" not in page
    assert "prefers-color-scheme" in page


def test_secrets_are_in_it_when_they_are_asked_for_and_only_the_owner_can_read_it(
    system: System, tmp_path: Path
) -> None:
    path = tmp_path / "all.zip"
    done = system.run("must-gather", "--out", str(path), "--secrets=all", "-o", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    files = _files(path)
    assert told["path"] == str(path)
    assert told["files"] == len(files)
    assert isinstance(told["missing"], list)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "secret values" in done.stderr
    assert SIGNING in files["secrets/default/gathered-key"]
    assert base64.b64encode(IN_SECRET.encode()).decode() in files["secrets/default/gathered.json"]
    assert IN_URL in files["resources/trigger/default/gathered.yaml"]


def test_it_works_when_nothing_runs_and_says_what_is_missing(tmp_path: Path) -> None:
    nothing = System(
        "", "http://127.0.0.1:1", "127.0.0.1:1", tmp_path / "data", {"PENSTOCK_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    )
    done = nothing.run("must-gather", "--out", str(tmp_path / "x.zip"), "-o", "json")
    assert done.returncode == 0, done.stderr
    missing = {each["what"]: each["why"] for each in json.loads(done.stdout)["missing"]}
    assert "cannot be reached" in missing["status"]
    assert missing.keys() >= {"resources", "contract", "topics and groups", "logs", "processes"}
    files = _files(tmp_path / "x.zip")
    assert json.loads(files["versions.json"])["Penstock"]
    assert "cannot be reached" in files["index.html"]


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    nothing = System("", "http://127.0.0.1:1", "", tmp_path)
    done = nothing.run("must-gather", "--out", str(tmp_path / "no" / "x.zip"))
    assert done.returncode == 2
    assert "no/x.zip" in done.stderr
    assert "hint:" in done.stderr
