"""Slow patterns and hostile filters over the admin port: matching is linear, and nothing invalid is stored."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from penstock.kafka.connection import KafkaConnection
from tests.attacks.admin_port import DATA, JSON, AdminPort
from tests.attacks.reconciling import Reconciling, fields, reconciling
from tests.attacks.test_filters import INVALID, NAMES
from tests.conftest import System
from tests.control.objects import trigger
from tests.system.resources import apply, broker, remove
from tests.waiting import until

BROKER = "attacked-patterns"
LONG = "a" * 60_000  # an attribute may have 64 kB
PATTERNS = ["*a" * 79 + "*b", "*" + "aa*" * 52 + "b", "*a*" + "*" * 155 + "b"]


@pytest.fixture(scope="module")
def admin(penstock_up: System) -> Iterator[AdminPort]:
    wanted = [broker(BROKER)]
    apply(penstock_up, *wanted)
    yield AdminPort(int(penstock_up.admin_url.rpartition(":")[2]), Path(penstock_up.data_dir))
    remove(penstock_up, *wanted)


def send(system: System, id_: str, type_: str) -> None:
    event = {"specversion": "1.0", "id": id_, "source": "/attack", "type": type_, "data": {}}
    headers = {"Content-Type": "application/cloudevents+json"}
    where = f"{system.ingress_url}/default/{BROKER}"
    with urllib.request.urlopen(urllib.request.Request(where, json.dumps(event).encode(), headers)) as answer:
        assert answer.status == 202


def ids_in(stream: HTTPResponse) -> Iterator[str]:
    """The ids of the events that a tail shows; an empty one for each other line."""
    while line := stream.readline():
        event = json.loads(line[6:]) if line.startswith(b"data: ") else {}
        yield event.get("id") or ""


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_tail_matches_a_long_text_in_little_time(penstock_up: System, admin: AdminPort, pattern: str) -> None:
    """Kept promise: a pattern of 160 characters stops neither its own tail nor the controller."""
    assert 150 <= len(pattern) <= 165
    marked = f"{PATTERNS.index(pattern)}-tail"
    query = urlencode({"of": f"Broker/default/{BROKER}", "type": pattern})
    with closing(admin.begin("GET", f"/api/penstock/tail?{query}")) as connection:
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"begun" in answer.readline()
        for number in range(10):
            send(penstock_up, f"{marked}-slow-{number}", LONG)  # it fits up to its end
        send(penstock_up, marked, LONG + "b")
        assert admin.ask("GET", DATA).status == 200
        seen: list[str] = []
        lines = ids_in(answer)

        def shown() -> bool:
            seen.append(next(lines))
            assert admin.ask("GET", DATA).status == 200
            return marked in seen

        until(shown, "the event that fits")
    assert [each for each in seen if each] == [marked]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_search_matches_a_long_text_in_little_time(penstock_up: System, admin: AdminPort, pattern: str) -> None:
    """Kept promise: a search with a pattern of 160 characters finds what fits, and ends."""
    marked = f"{PATTERNS.index(pattern)}-search"
    for number in range(10):
        send(penstock_up, f"{marked}-slow-{number}", LONG)
    send(penstock_up, marked, LONG + "b")
    body = {"of": f"Broker/default/{BROKER}", "type": pattern, "latest": 1}

    def found() -> list[dict[str, Any]]:
        answer = admin.ask("POST", "/api/penstock/search", JSON, json.dumps(body).encode())
        assert answer.status == 200, answer
        lines = [json.loads(line) for line in answer.body.splitlines()]
        assert "done" in lines[-1], lines[-1]
        return [line["event"] for line in lines if "event" in line]

    assert [each["id"] for each in found()] == [marked]


# -- filters that are refused when they are applied


@pytest.fixture(scope="module")
def controller(kafka: KafkaConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reconciling]:
    with reconciling(kafka, tmp_path_factory.mktemp("patterns")) as made:
        yield made


@pytest.mark.parametrize("each", INVALID.values(), ids=INVALID)
def test_a_hostile_filter_is_refused_when_it_is_applied(controller: Reconciling, each: dict[str, Any]) -> None:
    """Kept promise: no trigger is stored with it, at any depth, and the answer names its place in the filters."""
    inside = {"all": [{"exact": {"type": "t"}}, {"not": each}]}
    whole = "spec.filters" if each is INVALID["much work"] else "spec.filters[0]"  # the work is that of all filters
    for filters, place in (([each], whole), ([{"exact": {"type": "t"}}, inside], "spec.filters")):
        wanted = trigger("hostile", filters=filters)
        for answer in (controller.post(wanted), controller.put(wanted)):
            assert answer.status == 422, answer
            assert [field for field in fields(answer) if field.startswith(place)], answer
        assert controller.get(wanted) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_in_the_old_filter_is_refused_when_it_is_applied(controller: Reconciling, name: str) -> None:
    """Kept promise: the same for filter.attributes."""
    answer = controller.post(trigger("hostile", filter={"attributes": {name: "x"}}))
    assert (answer.status, fields(answer)) == (422, [f"spec.filter.attributes.{name}"])
