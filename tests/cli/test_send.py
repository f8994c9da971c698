"""send: events get where they should, all of them, and refusals are told."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Bench
from tests.cli.test_resources import BROKER
from tests.sink import Answer, Request

Run = Callable[..., str]


@pytest.fixture
def orders(controller: Bench, penstock: Run) -> Bench:
    """A broker that is ready, and an ingress that has seen nothing but probes."""
    penstock("apply", "-f", "-", stdin=BROKER)
    penstock("wait", "broker/orders")
    controller.ingress.forget()
    return controller


def events(bench: Bench) -> list[Request]:
    return [request for request in bench.ingress.at("/default/orders") if request.method == "POST"]


def test_an_event_arrives_as_it_was_said(orders: Bench, penstock: Run, tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text('{"n": 1}')
    said = penstock(
        "send", "broker/orders", "--type", "order placed", "--source", "/shop", "--id", "7", "--subject", "käse",
        "--data", f"@{path}", "--ext", "region=eu",
    )  # fmt: skip
    assert "id 7" in said
    [event] = events(orders)
    assert event.body == b'{"n": 1}'
    expected = {
        "ce-specversion": "1.0", "ce-type": "order%20placed", "ce-source": "/shop", "ce-id": "7",
        "ce-subject": "k%C3%A4se", "ce-region": "eu", "content-type": "application/json",
    }  # fmt: skip
    assert {name: event.headers[name] for name in expected} == expected


def test_ten_thousand_events_each_with_an_id_of_its_own(orders: Bench, penstock: Run) -> None:
    begun = time.monotonic()
    said = penstock("send", "broker/orders", "--type", "t", "--source", "/s", "--count", "10000", "-o", "json")
    assert json.loads(said)["accepted"] == 10_000
    assert len({event.headers["ce-id"] for event in events(orders)}) == 10_000
    assert time.monotonic() - begun < 30  # a bound against hanging, not a measurement


def test_a_503_is_tried_again(orders: Bench, penstock: Run) -> None:
    seen: list[str] = []

    def hesitant(request: Request) -> Answer:
        if request.method == "GET":
            return Answer(200, headers={"K-Network-Hash": request.headers.get("k-network-hash", "")})
        seen.append(request.headers["ce-id"])
        return Answer(503, headers={"Retry-After": "0"}) if len(seen) <= 2 else Answer(202)

    orders.ingress.answer("/default/orders", with_=hesitant)
    penstock("send", f"{orders.ingress.url}/default/orders", "--type", "t", "--source", "/s", "--id", "x")
    assert seen == ["x", "x", "x"]


def test_a_refusal_is_told_and_counts(orders: Bench) -> None:
    orders.ingress.answer("/bad", status=400, body=b'{"error": "no such type"}')
    url = f"{orders.ingress.url}/bad"
    done = orders.run("send", url, "--type", "t", "--source", "/s", "--count", "3", "-o", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["refused"] == 3
    assert "3 × 400: no such type" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("broker/nowhere", "--type", "t", "--source", "/s"), 1, "does not exist"),
        (("broker/orders", "--type", "t", "--source", "/s", "--data", "{oops"), 1, "the data is not JSON"),
        (("broker/orders", "--type", "t", "--source", "/s", "--ext", "Bad=1"), 2, "--ext"),
        (("broker/orders", "--source", "/s"), 2, "--type"),
        (("http://127.0.0.1:1/x", "--type", "t", "--source", "/s"), 1, "refused"),
    ],
)
def test_mistakes_are_told(controller: Bench, arguments: tuple[str, ...], code: int, told: str) -> None:
    done = controller.run("send", *arguments)
    assert done.returncode == code
    assert told in done.stderr
