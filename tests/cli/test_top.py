"""``penstock top``, ``penstock lag`` and the feed behind them, on a real controller."""

import gzip
import http.client
import json
import os
import pty
import select
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.contract.telemetry import TELEMETRY_TOPIC, Served, Telemetry, encode_telemetry
from penstock.kafka.connection import KafkaConnection
from penstock.ports import free_port
from tests.cli.conftest import PENSTOCK, Bench
from tests.waiting import until

Run = Callable[..., str]

RESOURCES = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: orders}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: audit}
spec: {broker: orders, subscriber: {uri: "http://sink.example/"}}
"""


def events(server: str) -> Generator[tuple[str, Any], None, None]:
    """Server-sent events as a browser reads them."""
    parts = urlsplit(server)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=10)
    connection.request("GET", "/api/penstock/live")
    response = connection.getresponse()
    assert response.headers["content-type"].startswith("text/event-stream")
    name = ""
    try:
        while line := response.readline().decode():
            if line.startswith("event: "):
                name = line.removeprefix("event: ").strip()
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))
    finally:
        connection.close()


def get(server: str, path: str) -> Any:
    return json.loads(urllib.request.urlopen(f"{server}/api/penstock/{path}", timeout=10).read())


@pytest.fixture
def applied(penstock: Run) -> None:
    penstock("apply", "-f", "-", stdin=RESOURCES)
    penstock("wait", "trigger/audit")


@pytest.mark.usefixtures("applied")
def test_the_feed_begins_with_everything_and_goes_on_with_changes(controller: Bench, kafka: KafkaConnection) -> None:
    """Kept promise: something comes every second, and a row comes again only when it has changed."""
    feed = events(controller.server)
    name, document = next(feed)
    assert name == "snapshot"
    assert [row["key"] for row in document["subscriptions"]] == ["Trigger/default/audit"]
    assert {part["name"] for part in document["parts"]} == {"kafka", "controller", "receiver", "dispatcher"}
    uid = document["subscriptions"][0]["uid"]
    told = Telemetry(source="w", time=time.time(), served={uid: Served(5, {"delivered": 5})})
    producer = kafka.producer()
    producer.produce(TELEMETRY_TOPIC, encode_telemetry(told), partition=0)
    producer.flush(10)
    began, changes = time.monotonic(), []
    for name, document in feed:
        assert name == "change"
        changes += document["subscriptions"]
        if any(row["totals"]["delivered"] == 5 for row in changes):
            break
        assert time.monotonic() - began < 20
    quiet = next(each for _, each in feed if not each["subscriptions"])
    assert quiet["gone"] == []
    controller.ok("delete", "trigger", "audit")
    gone = next(each for _, each in feed if each["gone"])
    assert gone["gone"] == ["Trigger/default/audit"]
    feed.close()


@pytest.mark.usefixtures("applied")
def test_history_and_topics_answer(controller: Bench) -> None:
    found = get(controller.server, "history?of=Trigger/default/audit&minutes=1")
    assert len(found["times"]) == 30
    assert {len(values) for values in found["series"].values()} == {30}
    (topic,) = until(
        lambda: [t for t in get(controller.server, "topics") if t["groups"] and t["groups"][0]["positions"]]
    )
    assert (topic["topic"], topic["place"]) == ("knative-broker-default-orders",) * 2
    assert [each["partition"] for each in topic["partitions"]] == [0, 1]
    assert topic["partitions"][0] | {"leader": 1} == {
        "partition": 0, "begin": 0, "end": 0, "leader": 1, "replicas": [1], "in_sync": [1]
    }  # fmt: skip
    assert topic["groups"][0]["subscription"] == "Trigger/default/audit"
    assert topic["groups"][0]["positions"][1] == {"partition": 1, "position": 0, "end": 0, "lag": 0}
    for wrong in ("history?of=Trigger/default/nobody", "history?minutes=0", "history?minutes=many"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(controller.server, wrong)
        assert refused.value.code == 400
        assert json.loads(refused.value.read())["hint"]


def test_metrics_are_compressed_for_who_wants_it(controller: Bench) -> None:
    asked = urllib.request.Request(f"{controller.server}/metrics", headers={"Accept-Encoding": "gzip"})
    answer = urllib.request.urlopen(asked, timeout=10)
    assert answer.headers["content-encoding"] == "gzip"
    assert b'penstock_part_up{part="kafka"} 1' in gzip.decompress(answer.read())


@pytest.mark.usefixtures("applied")
def test_top_and_lag_print_for_people_and_machines(controller: Bench, penstock: Run) -> None:
    until(lambda: json.loads(penstock("lag", "-o", "json"))[0]["lag"] == 0, "a known lag")
    shown = penstock("top", "--once")
    assert "/s · delivered " in shown.splitlines()[0]
    assert "Trigger/default/audit" in shown
    assert "\x1b" not in shown
    (line,) = penstock("top", "--once", "-o", "json").splitlines()
    assert json.loads(line)["subscriptions"][0]["state"] == "idle"
    assert penstock("lag").splitlines()[0].split() == ["SUBSCRIPTION", "OLDEST", "LAG", "BEHIND", "STALLED", "STATE"]
    assert [line.split()[1:] for line in penstock("lag", "trigger/audit").splitlines()[1:]] == [
        ["0", "0", "0", "0"], ["1", "0", "0", "0"],
    ]  # fmt: skip
    assert json.loads(penstock("lag", "trigger/audit", "-o", "json"))["lag"] == 0
    missing = controller.run("lag", "trigger/audti")
    assert (missing.returncode, "did you mean audit" in missing.stderr) == (1, True)
    assert controller.run("lag", "broker/orders").returncode == 2
    assert controller.run("top", "-o", "yaml").returncode == 2


def test_nothing_is_an_empty_list(controller: Bench, penstock: Run) -> None:
    assert json.loads(penstock("lag", "-o", "json")) == []
    assert "no subscriptions" in controller.run("lag").stderr
    assert json.loads(penstock("top", "--once", "-o", "json"))["subscriptions"] == []


@pytest.mark.usefixtures("applied")
def test_a_pipe_gets_json_lines(controller: Bench) -> None:
    for arguments in (["top", "--every", "200ms"], ["lag", "-w", "-o", "json"]):
        process = subprocess.Popen(
            [*PENSTOCK, *arguments, "--server", controller.server], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.terminate()
        process.wait(10)
        assert all(isinstance(line, dict) for line in lines)


@pytest.mark.usefixtures("applied")
def test_a_terminal_is_drawn_until_q(controller: Bench) -> None:
    """Kept promise: live on a screen of 80 columns, nothing wraps, and the terminal is as it was afterwards."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
    command = [*PENSTOCK, "top", "--every", "200ms", "--server", controller.server]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""

        def read() -> bool:
            """Whether there may be more."""
            nonlocal seen
            try:
                while select.select([ours], [], [], 0)[0]:
                    seen += os.read(ours, 65536)
            except OSError:  # they have closed it
                return False
            return True

        try:
            until(lambda: read() and b"q quits" in seen and b"Trigger/default/audit" in seen, "a screen")
            os.write(ours, b"q")
            until(lambda: not read() or process.poll() is not None, "the end")
        finally:
            process.terminate()
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b[?1049l" in seen  # back to the screen that was there before


def test_a_feed_comes_while_kafka_is_away() -> None:
    """Kept promise: a page shows why nothing works, where Kafka should be, and metrics say that it is not there."""
    admin, nowhere = free_port(), free_port()
    command = [*PENSTOCK, "controller", "--admin-port", str(admin), "--bootstrap-servers", f"127.0.0.1:{nowhere}"]
    server = f"http://127.0.0.1:{admin}"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: _answers(f"{server}/healthz"), "the admin port")
            feed = events(server)
            for _ in range(2):
                _, document = next(feed)
            kafka = next(part for part in document["parts"] if part["name"] == "kafka")
            assert (kafka["state"], kafka["address"]) == ("not answering", f"127.0.0.1:{nowhere}")
            assert document["attention"][0]["what"] == "kafka is not answering"
            text = urllib.request.urlopen(f"{server}/metrics", timeout=10).read().decode()
            assert 'penstock_part_up{part="kafka"} 0' in text
            process.terminate()
            assert list(feed) is not None  # the stream ends with the server
        finally:
            process.terminate()
            process.wait(20)
    assert process.returncode == 0


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2)
    except OSError:
        return False
    return True
