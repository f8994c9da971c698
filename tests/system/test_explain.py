"""Where is my event: every fact of an explanation compared with what sender and subscriber know."""

import itertools
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.conftest import PENSTOCK, System
from tests.sink import Answer, Request, Sink
from tests.system.resources import applied, apply, broker, remove, trigger
from tests.waiting import until

GAP_SECONDS = 3
PATIENT = {"retry": 2, "backoffPolicy": "linear", "backoffDelay": f"PT{GAP_SECONDS}S"}
BROKER = "told"
ENDS = {"delivered", "dead-lettered", "given up"}  # of the last attempt


@pytest.fixture(scope="module")
def subscriber() -> Iterator[Sink]:
    made = Sink().start()
    made.answer("/refuses", status=400)
    made.answer("/flaky", with_=_fails_twice)
    yield made
    made.stop()


def _fails_twice(request: Request) -> Answer:
    FAILED.append(request.headers["ce-id"])
    return Answer(500 if FAILED.count(request.headers["ce-id"]) <= 2 else 200)


FAILED: list[str] = []


@pytest.fixture(scope="module")
def told(penstock_up: System, subscriber: Sink) -> Iterator[System]:
    """A broker with subscribers of every kind."""
    resources = [
        broker(BROKER),
        trigger("takes", BROKER, f"{subscriber.url}/takes", filters=[{"exact": {"type": "order.created"}}]),
        trigger(
            "flaky", BROKER, f"{subscriber.url}/flaky", filters=[{"exact": {"type": "order.hard"}}], delivery=PATIENT
        ),
        trigger("refuses", BROKER, f"{subscriber.url}/refuses", filters=[{"prefix": {"type": "order.dead"}}]),
        trigger("paused", BROKER, f"{subscriber.url}/paused", filters=[{"cesql": "type = 'order.held'"}]),
    ]
    apply(penstock_up, *resources)
    applied[:] = [each for each in applied if each not in resources]  # they outlive a test
    yield penstock_up
    remove(penstock_up, *resources)


def send(system: System, id_: str, type_: str, **attributes: str) -> float:
    """When it was accepted."""
    headers = {"ce-specversion": "1.0", "ce-id": id_, "ce-source": "/shop", "ce-type": type_}
    headers |= {"Content-Type": "application/json"} | {f"ce-{name}": value for name, value in attributes.items()}
    url = f"{system.ingress_url}/default/{BROKER}"
    request = urllib.request.Request(url, b'{"n": 1}', headers, method="POST")
    assert urllib.request.urlopen(request).status == 202
    return time.time()


def explained(system: System, *asked: str) -> list[dict[str, Any]]:
    """The documents that the command prints."""
    ran = system.run("explain", *asked, "-o", "json")
    assert ran.returncode == 0, ran.stderr
    decoder, text, found = json.JSONDecoder(), ran.stdout.strip(), []
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


def verdict(event: dict[str, Any], name: str) -> dict[str, Any]:
    return next(dict(each) for each in event["subscriptions"] if each["name"] == name)


def epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(times)]


def outcome_becomes(system: System, id_: str, name: str, wanted: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        (event,) = explained(system, id_)
        found = verdict(event, name)
        # Position and dead letter may be known before the log has the last attempt.
        is_logged = wanted == "HELD" or any(each["ended"] in ENDS for each in found["attempts"])
        return event if found["outcome"] == wanted and is_logged else None

    return until(look, f"{id_} at {name} is {wanted}")


def test_an_event_that_was_delivered_at_once(told: System, subscriber: Sink) -> None:
    """Kept promise: where it is, who got it when, and for everybody else the clause that said no."""
    before = time.time()
    accepted = send(told, "at-once", "order.created", subject="o-1")
    (request,) = subscriber.wait_for(1, "/takes")
    event = outcome_becomes(told, "at-once", "takes", "DELIVERED")
    assert (event["id"], event["source"], event["type"], event["subject"]) == (
        "at-once", "/shop", "order.created", "o-1"
    )  # fmt: skip
    assert event["of"] == f"Broker/default/{BROKER}"
    assert before - 0.1 <= epoch(event["received"]) <= accepted + 0.1
    assert request.headers["ce-knativekafkapartition"] == str(event["partition"])
    assert request.headers["ce-knativekafkaoffset"] == str(event["offset"])
    (attempt,) = verdict(event, "takes")["attempts"]
    assert (attempt["status"], attempt["ended"], attempt["error"]) == (200, "delivered", None)
    assert -0.1 < request.received - epoch(attempt["time"]) < 5  # the subscriber may have had no processor
    for name, clause in (
        ("flaky", 'filters[0].exact: type is "order.created", which is not "order.hard"'),
        ("refuses", 'filters[0].prefix: type is "order.created", which does not begin with "order.dead"'),
        ("paused", "filters[0].cesql: type = 'order.held' is false"),
    ):
        said = verdict(event, name)
        assert (said["matched"], said["outcome"], said["because"]) == (False, "FILTERED", clause)


@pytest.mark.alone
def test_an_event_that_was_retried(told: System, subscriber: Sink) -> None:
    """Kept promise: 500, 500, 200 are three attempts, and the gaps between them are those that the subscriber saw."""
    send(told, "retried", "order.hard")
    requests = subscriber.wait_for(3, "/flaky")
    event = outcome_becomes(told, "retried", "flaky", "DELIVERED")
    said = verdict(event, "flaky")
    assert [each["status"] for each in said["attempts"]] == [500, 500, 200]
    assert [each["ended"] for each in said["attempts"]] == ["retried", "retried", "delivered"]
    assert said["max_attempts"] == 3
    seen, shown = [each.received for each in requests], [epoch(each["time"]) for each in said["attempts"]]
    assert all(-0.1 < received - at < 5 for received, at in zip(seen, shown, strict=True))
    for gap_seen, gap_shown in zip(gaps(seen), gaps(shown), strict=True):
        assert gap_seen == pytest.approx(gap_shown, abs=GAP_SECONDS / 3)
        assert gap_shown > GAP_SECONDS * 0.9
    page = told.run("explain", "retried")
    assert page.returncode == 0
    assert page.stdout.count(" s later") == 2


def test_an_event_that_became_a_dead_letter(told: System, subscriber: Sink) -> None:
    """Kept promise: what was given up says so, with the subscriber's answer."""
    send(told, "dead", "order.dead.one")
    event = outcome_becomes(told, "dead", "refuses", "DEAD")
    said = verdict(event, "refuses")
    assert [(each["status"], each["ended"]) for each in said["attempts"]] == [(400, "given up")]
    until(lambda: verdict(explained(told, "dead")[0], "refuses")["dead_letter"], "its dead letter is known")
    letter = verdict(explained(told, "dead")[0], "refuses")["dead_letter"]
    assert (letter["code"], letter["attempts"]) == (400, 1)


def test_an_event_that_nobody_wanted_and_one_that_does_not_exist(told: System) -> None:
    """Kept promise: filtered everywhere; and of what is not there it is said how much was looked at."""
    send(told, "unwanted", "bill.sent")
    (event,) = explained(told, "unwanted")
    assert {each["outcome"] for each in event["subscriptions"]} == {"FILTERED"}
    missing = told.run("explain", "no-such-id")
    assert missing.returncode == 1
    assert "there is no event no-such-id among" in missing.stderr
    assert "goes back to" in missing.stderr
    assert missing.stdout == ""


def test_an_event_that_is_held(told: System, subscriber: Sink) -> None:
    """Kept promise: what a paused subscription has not got is held, and delivered when it goes on."""
    log = told.data_dir / "logs" / "dispatcher.log"
    runs = f"the query of knative-broker-default-{BROKER} is in live gear for 3 subscriptions"
    before = log.read_text().count(runs)  # also while the triggers were applied
    assert told.run("pause", "trigger", "paused").returncode == 0
    until(lambda: log.read_text().count(runs) > before, "the query runs without it")
    send(told, "held", "order.held")
    outcome_becomes(told, "held", "paused", "HELD")
    assert subscriber.count("/paused") == 0
    assert told.run("resume", "trigger", "paused").returncode == 0
    subscriber.wait_for(1, "/paused")
    outcome_becomes(told, "held", "paused", "DELIVERED")


def test_a_subscription_that_came_later_and_two_events_with_one_id(told: System, subscriber: Sink) -> None:
    """Kept promise: who began later could not have it; and both events of an id are shown, the newest first."""
    send(told, "twice", "order.created", subject="same")
    late = trigger("late", BROKER, f"{subscriber.url}/late")
    apply(told, late)
    send(told, "twice", "order.created", subject="same")
    subscriber.wait_for(1, "/late")
    until(lambda: len(explained(told, "twice")) == 2, "both are found")
    newest, oldest = explained(told, "twice")
    assert newest["offset"] == oldest["offset"] + 1
    assert verdict(oldest, "late")["outcome"] == "BEFORE"
    assert verdict(newest, "late")["matched"]


def test_the_tail_of_a_burst_adds_up(told: System) -> None:
    """Kept promise: of a thousand events at once some rows are shown, and how many are not is said exactly."""
    url = f"{told.admin_url}/api/penstock/tail?of=Broker/default/{BROKER}&type=burst.*"
    with urllib.request.urlopen(url, timeout=30) as stream:
        assert b"begun" in stream.readline()
        batch = [
            {"specversion": "1.0", "id": f"b{n}", "source": "/burst", "type": "burst.one", "data": {"n": n}}
            for n in range(1000)
        ]
        request = urllib.request.Request(
            f"{told.ingress_url}/default/{BROKER}",
            json.dumps(batch).encode(),
            {"Content-Type": "application/cloudevents-batch+json"},
            method="POST",
        )
        assert urllib.request.urlopen(request).status == 202
        rows: list[dict[str, Any]] = []
        skipped, name = 0, b""
        while len(rows) + skipped < 1000:
            line = stream.readline()
            if line.startswith(b"event:"):
                name = line.split()[1]
            elif line.startswith(b"data:") and name == b"event":
                rows.append(json.loads(line[5:]))
            elif line.startswith(b"data:") and name == b"skipped":
                skipped += json.loads(line[5:])["count"]
    assert len(rows) + skipped == 1000
    assert skipped > 0
    assert rows[0]["type"] == "burst.one"
    assert rows[0]["data"] == {"n": int(rows[0]["id"][1:])}


def test_the_command_tails_with_a_filter(told: System, tmp_path: Any) -> None:
    """Kept promise: the filter is the dispatcher's own; JSON lines; Ctrl-C ends it with 130."""
    out = tmp_path / "out"
    command = [*PENSTOCK, "tail", f"broker/{BROKER}", "--filter", "subject = 'wanted'", "-o", "json"]
    with out.open("w") as stdout:
        process = subprocess.Popen(
            [*command, "--server", told.admin_url], stdout=stdout, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        assert "from now on" in process.stderr.readline()
        send(told, "other", "tail.one", subject="unwanted")
        send(told, "this-one", "tail.one", subject="wanted")
        until(lambda: "this-one" in out.read_text(), "it is shown")
        process.send_signal(2)
        assert process.wait(20) == 130
    (line,) = out.read_text().splitlines()
    assert json.loads(line)["event"]["attributes"]["subject"] == "wanted"
