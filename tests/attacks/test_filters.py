"""Filters and texts of an attacker, over the ports of a running system: refused or harmless; no other event waits."""

import json
import os
import pty
import select
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from penstock.contract.model import (
    CONTRACT_TOPIC,
    QUERY,
    REPORT_TOPIC,
    Agreement,
    Subscription,
    decode_report,
    encode,
)
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import Table, put
from tests.conftest import System
from tests.sink import Sink
from tests.system.resources import apply, broker, remove, trigger
from tests.waiting import until

BROKER = "attacked-filters"
CALL = "x') OR java_method('java.lang.System', 'setProperty', 'attacked', 'yes') IS NOT NULL OR ('"
NAMES = ["a'", "a\\", "a b", "a`b", "a\nb", "a--", "a;b", "a/*", "A", "a_b", "ä", "", CALL]
INVALID: dict[str, Any] = {
    **{f"{dialect} {name!r}": {dialect: {name: "x"}} for dialect in ("exact", "prefix", "suffix") for name in NAMES},
    "unknown dialect": {"java_method": {"a": "b"}},
    "path": {"penstock.dev/cesql-data": "data['a\\'] = 1"},
    "cesql name": {"cesql": "`a` = 1"},
    "cesql function": {"cesql": "java_method('java.lang.System', 'exit', 1)"},
    "long piece": {"cesql": "note LIKE '%" + "a" * 300 + "%'"},
    "many pieces": {"cesql": "note LIKE '" + "%a" * 300 + "'"},
    "long text": {"cesql": "LENGTH(CONCAT(" + "note, " * 40 + "note)) > 1"},
    "much work": {"cesql": " OR ".join(f"(a{n} LIKE '%{'x' * 200}{n}%y')" for n in range(60))},
    "deep": {"cesql": "(" * 4000},
    "chained": {"cesql": "1 + " * 3000 + "1 = 2"},
}


def post(url: str, body: Any) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def send(system: System, id_: str, **attributes: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": id_, "ce-source": "/s", "ce-type": "t"}
    headers |= {f"ce-{name}": value for name, value in attributes.items()}
    request = urllib.request.Request(f"{system.ingress_url}/default/{BROKER}", b"{}", headers)
    urllib.request.urlopen(request, timeout=60).read()


class Screen:
    """What a command writes to its terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self.seen = b""

    def wait_for(self, *texts: bytes) -> None:
        until(lambda: self._shows(texts), f"{texts} on the terminal")

    def _shows(self, texts: tuple[bytes, ...]) -> bool:
        while select.select([self._terminal], [], [], 0)[0]:
            try:
                self.seen += os.read(self._terminal, 65536)
            except OSError:
                pytest.fail(f"the command has ended after {self.seen!r}")
        return all(each in self.seen for each in texts)


@pytest.mark.parametrize("each", INVALID.values(), ids=INVALID)
def test_a_hostile_filter_is_refused_with_its_field(penstock_up: System, each: dict[str, Any]) -> None:
    """Kept promise: neither a trial nor a resource accepts it, and the answer names the place of the error."""
    status, body = post(f"{penstock_up.admin_url}/api/penstock/trial", {"filters": [each], "events": []})
    assert status in (400, 422), body
    assert b"filters" in body
    wrong = trigger("hostile", BROKER, "http://localhost/", filters=[each])
    refused = penstock_up.run("apply", "-f", "-", stdin=json.dumps(wrong)) if len(str(each)) < 120 else None
    if refused is not None:
        assert refused.returncode == 1
        assert "spec.filters[0]" in refused.stderr


def test_an_event_that_matches_slowly_holds_up_nobody(penstock_up: System, sink: Callable[[], Sink]) -> None:
    """Kept promise: the time of a filter is linear in the value. Before, each of these events took minutes."""
    subscriber = sink()
    slow = ["note LIKE '%a%a%b'", "note LIKE '%_a_%_a_%b%c'", "TRIM(note) = 'x'", "UPPER(note) LIKE '%A%A%A%B'"]
    resources = [
        broker(BROKER),
        *(trigger(f"slow-{n}", BROKER, f"{subscriber.url}/slow", filters=[{"cesql": t}]) for n, t in enumerate(slow)),
        trigger("all", BROKER, f"{subscriber.url}/all"),
    ]
    apply(penstock_up, *resources)
    notes = ["a" * 8000, "x" + " " * 7000 + "x", "aa " * 2600]
    for number in range(12):
        send(penstock_up, f"slow-{number}", note=notes[number % 3])
    subscriber.wait_for(12, "/all", 150)
    remove(penstock_up, *resources)


def test_an_invalid_name_in_the_contract_is_reported_and_stops_nobody(
    penstock_up: System, sink: Callable[[], Sink]
) -> None:
    """Kept promise: a record written to the contract topic by hand runs no code, and the others are served."""
    subscriber = sink()
    resources = [broker(BROKER), trigger("good", BROKER, f"{subscriber.url}/good")]
    apply(penstock_up, *resources)
    kafka = KafkaConnection(penstock_up.bootstrap_servers)
    topic, uid = f"knative-broker-default-{BROKER}", str(uuid.uuid4())
    bad = Subscription(
        uid, "Trigger", "default", "bad", topic, f"group-{uid}", f"{subscriber.url}/bad",
        filters=({"prefix": {CALL: "x"}},),
    )  # fmt: skip
    key = f"Trigger/default/{uid}"
    put(kafka.producer(), CONTRACT_TOPIC, key, encode(Agreement(uid, 1, (), (bad,))))
    table = Table(kafka, REPORT_TOPIC).start()
    try:

        def refused() -> str:
            value = table.values.get(QUERY + topic)
            return decode_report(value).refused.get(uid, "") if value else ""

        assert "attribute names" in until(refused, "the report", 150)
        send(penstock_up, "after")
        subscriber.wait_for(1, "/good", 150)
        assert not subscriber.at("/bad")
    finally:
        table.stop()
        put(kafka.producer(), CONTRACT_TOPIC, key, None)
    remove(penstock_up, *resources)


def test_a_tail_with_a_slow_pattern_shows_events_harmlessly(penstock_up: System) -> None:
    """Kept promise: no pattern stops the controller, and no event's text controls the terminal that shows it."""
    resources = [broker(BROKER)]
    apply(penstock_up, *resources)
    hostile = "%1B]0;owned%07 %E2%80%AE evil"
    command = [sys.executable, "-m", "penstock.cli.main", "tail", f"broker/{BROKER}"]
    environment = {**os.environ, "PENSTOCK_SERVER": penstock_up.admin_url, "TERM": "xterm"}
    ours, theirs = pty.openpty()
    pattern = "*a" * 40 + "*b"
    with (
        subprocess.Popen([*command, "--type", pattern], env=environment, stdout=subprocess.DEVNULL) as slow,
        subprocess.Popen(command, env=environment, stdout=theirs, stderr=theirs) as shown,
    ):
        os.close(theirs)
        try:
            screen = Screen(ours)
            screen.wait_for(b"Ctrl-C")
            headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "a" * 160}
            headers["ce-subject"] = hostile
            data = "\x1b[2J\u202ereversed\x9b31m".encode()
            where = f"{penstock_up.ingress_url}/default/{BROKER}"
            with suppress(urllib.error.HTTPError):  # control characters in attributes are refused
                urllib.request.urlopen(urllib.request.Request(where, data, headers), timeout=60).read()
            headers |= {"ce-subject": "%E2%80%AE evil", "ce-type": "t", "content-type": "text/plain"}
            urllib.request.urlopen(urllib.request.Request(where, data, headers), timeout=60).read()
            headers |= {"ce-type": "a" * 160, "ce-subject": "plain"}
            urllib.request.urlopen(urllib.request.Request(where, data, headers), timeout=60).read()
            screen.wait_for(b"evil", b"reversed")
            text = screen.seen.decode(errors="replace")  # it may end within a character
            assert "\\u202e" in text
            assert "\u202e" not in text
            assert "\x1b" not in text
            assert "\x9b" not in text
            status = penstock_up.run("get", "brokers", timeout=30)
            assert status.returncode == 0, status.stderr
        finally:
            for each in (slow, shown):
                each.terminate()
            os.close(ours)
    remove(penstock_up, *resources)
