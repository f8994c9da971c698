"""Pausing, resuming and moving a trigger, as a user does it."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from penstock.kafka.connection import KafkaConnection
from tests.conftest import System
from tests.sink import Sink
from tests.system.resources import apply, broker, get, remove, trigger
from tests.system.test_delivery import ids, send
from tests.waiting import until

MakeSink = Callable[[], Sink]


def ready_reason(system: System, name: str) -> str:
    found = get(system, "trigger", name)["status"]["conditions"]
    return next(str(each.get("reason")) for each in found if each["type"] == "SubscriptionReady")


def rows(system: System, *arguments: str) -> list[dict[str, Any]]:
    shown = system.run("trigger", "reset", *arguments, "-o", "json")
    assert shown.returncode == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


def test_a_paused_trigger_gets_nothing_and_loses_nothing(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: while it is paused events wait, the others go on, and afterwards it has each of them once."""
    subscriber = sink()
    resources = [
        broker("pausing"),
        trigger("paused", "pausing", subscriber.url + "/paused"),
        trigger("other", "pausing", subscriber.url + "/other"),
    ]
    apply(penstock_up, *resources)
    send(penstock_up, "pausing", "before")
    subscriber.wait_for(1, path="/paused", timeout_seconds=30)
    log = penstock_up.data_dir / "logs" / "dispatcher.log"
    runs = "the query of knative-broker-default-pausing is in live gear for 1 subscriptions"
    before = log.read_text().count(runs)  # also while the triggers were applied
    told = penstock_up.run("pause", "trigger", "paused", "--reason", "spring cleaning").stdout
    assert told == "trigger/paused paused\n"
    until(lambda: ready_reason(penstock_up, "paused") == "Paused", "the status says so")
    assert "spring cleaning" in penstock_up.run("describe", "trigger", "paused").stdout
    until(lambda: log.read_text().count(runs) > before, "the query runs without it")
    for n in range(30):
        send(penstock_up, "pausing", f"meanwhile-{n}")
    subscriber.wait_for(31, path="/other", timeout_seconds=30)
    assert ids(subscriber.at("/paused")) == ["before"]
    wide = ("get", "trigger", "paused", "-o", "wide")
    until(lambda: " 30 " in penstock_up.run(*wide).stdout, "its lag is shown")

    assert penstock_up.run("resume", "trigger/paused").stdout == "trigger/paused resumed\n"
    subscriber.wait_for(31, path="/paused", timeout_seconds=60)
    send(penstock_up, "pausing", "after")
    subscriber.wait_for(32, path="/paused", timeout_seconds=60)
    assert sorted(ids(subscriber.at("/paused"))) == sorted(
        ["before", *(f"meanwhile-{n}" for n in range(30)), "after"]
    )
    assert len(subscriber.wait_for(32, path="/other", timeout_seconds=30)) == 32

    penstock_up.run("pause", "trigger", "paused", "--until", "3s")
    send(penstock_up, "pausing", "wakes-up")
    subscriber.wait_for(33, path="/paused", timeout_seconds=60)
    until(lambda: ready_reason(penstock_up, "paused") != "Paused", "the status says so")
    wrong = penstock_up.run("pause", "trigger", "paused", "--until", "soon")
    assert (wrong.returncode, "neither a time nor a length" in wrong.stderr) == (2, True)
    assert penstock_up.run("pause", "broker", "pausing").returncode == 2
    remove(penstock_up, *resources)


@pytest.mark.scenario(23)
def test_retention_passes_a_paused_trigger(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: what was deleted while a trigger stood still is named exactly, and all that is left comes."""
    subscriber = sink()
    resources = [
        broker("retained"),
        trigger("late", "retained", subscriber.url + "/late"),
        trigger("other", "retained", subscriber.url + "/other"),
    ]
    apply(penstock_up, *resources)
    for n in range(5):
        send(penstock_up, "retained", str(n), partitionkey="same")
    subscriber.wait_for(5, path="/late", timeout_seconds=30)
    topic, log = "knative-broker-default-retained", penstock_up.data_dir / "logs" / "dispatcher.log"
    runs = f"{topic} is in live gear for 1 subscriptions"
    before = log.read_text().count(runs)  # also while the triggers were applied
    penstock_up.run("pause", "trigger", "late")
    until(lambda: log.read_text().count(runs) > before, "the query runs without it")
    for n in range(5, 15):
        send(penstock_up, "retained", str(n), partitionkey="same")
    partition = int(subscriber.wait_for(15, path="/other")[0].headers["ce-knativekafkapartition"])
    admin = KafkaConnection(penstock_up.bootstrap_servers).admin()
    [deleted] = admin.delete_records([TopicPartition(topic, partition, 8)]).values()
    deleted.result(timeout=15)

    penstock_up.run("resume", "trigger", "late")
    subscriber.wait_for(12, path="/late", timeout_seconds=30)
    lost = f"lost: {topic}/{partition} offsets 5 to 7 were deleted by retention before they were delivered"
    assert log.read_text().count(f"lost: {topic}") == log.read_text().count(lost) == 1
    send(penstock_up, "retained", "15", partitionkey="same")
    subscriber.wait_for(13, path="/late", timeout_seconds=30)
    assert sorted(map(int, ids(subscriber.at("/late")))) == [*range(5), *range(8, 16)]
    until(
        lambda: all(row["from"] == row["to"] for row in rows(penstock_up, "late", "--to", "latest", "--dry-run")),
        "its position is the end",
    )
    assert sorted(map(int, ids(subscriber.wait_for(16, path="/other")))) == [*range(16)]
    remove(penstock_up, *resources)


def test_a_trigger_is_moved_back_and_forth(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: it is told beforehand what a move means, and then each of those events comes, once."""
    subscriber = sink()
    resources = [
        broker("moving"),
        trigger("moved", "moving", subscriber.url + "/moved"),
        trigger("other", "moving", subscriber.url + "/other"),
    ]
    apply(penstock_up, *resources)
    for n in range(20):
        send(penstock_up, "moving", f"a-{n}")
    subscriber.wait_for(20, path="/moved", timeout_seconds=30)
    moment = datetime.now(UTC).isoformat()
    for n in range(10):
        send(penstock_up, "moving", f"b-{n}")
    subscriber.wait_for(30, path="/moved", timeout_seconds=30)

    def meant(to: str) -> int:
        return sum(row["events"] for row in rows(penstock_up, "moved", "--to", to, "--dry-run"))

    until(lambda: meant("earliest") == 30, "its position is shown")
    assert (meant("latest"), meant(moment)) == (0, 10)
    assert len(subscriber.at("/moved")) == 30
    moved = rows(penstock_up, "moved", "--to", moment)
    assert {row["partition"] for row in moved} == set(range(len(moved)))
    subscriber.wait_for(40, path="/moved", timeout_seconds=60)
    assert sorted(ids(subscriber.at("/moved")[30:])) == sorted(f"b-{n}" for n in range(10))
    until(lambda: meant("earliest") == 30, "its position is the end again")
    rows(penstock_up, "moved", "--to", ",".join(f"{row['partition']}=0" for row in moved))
    subscriber.wait_for(70, path="/moved", timeout_seconds=60)
    send(penstock_up, "moving", "last")
    subscriber.wait_for(71, path="/moved", timeout_seconds=60)
    assert len(subscriber.wait_for(31, path="/other", timeout_seconds=30)) == 31
    for wrong in ("yesterday", "99=1", "2026-11-15T18:00:00"):
        assert penstock_up.run("trigger", "reset", "moved", "--to", wrong).returncode == 1
    assert penstock_up.run("trigger", "reset", "nobody", "--to", "latest").returncode == 1
    remove(penstock_up, *resources)
