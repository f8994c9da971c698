"""Promises of explain and tail where something is missing: the cause, and what to do."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Bench

BROKER = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: orders}
"""


def test_without_a_dispatcher(controller: Bench, penstock: Callable[..., str]) -> None:
    """Kept promise: who cannot search says why, and what to look at."""
    penstock("apply", "-f", "-", stdin=BROKER)
    penstock("wait", "broker/orders", "--for=condition=TopicReady")
    done = controller.run("explain", "4711")
    assert done.returncode == 1
    assert "searched by the dispatcher, which is absent" in done.stderr
    assert "hint: `penstock logs dispatcher`" in done.stderr


def test_of_nothing(controller: Bench, penstock: Callable[..., str]) -> None:
    """Kept promise: a system without a broker is no mystery; nor is a broker that does not exist."""
    assert penstock("get", "brokers", "-o", "json")
    done = controller.run("explain", "4711")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no broker or channel holds any event" in done.stderr
    done = controller.run("tail", "broker/nowhere")
    assert done.returncode == 1
    assert "Broker/default/nowhere has no events" in done.stderr
    assert controller.run("explain").returncode == 2
    wrong = controller.run("tail", "broker/orders", "--filter", "LENGTH(")
    assert wrong.returncode == 1


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("search", {"since": "yesterday"}, "since is 'yesterday'"),
        ("search", {"latest": 0, "id": "x", "of": "Broker/default/nowhere"}, "Broker/default/nowhere has no events"),
        ("search", {"latest": 5000}, "latest is 5000; it is a number from 1 to 1000"),
        ("search", {"id": 7}, "id must be text"),
        ("event?place=orders", None, "place, partition and offset name an event"),
        ("event?place=orders&partition=0&offset=1", None, "there is no topic 'orders' that holds events"),
        ("explain", None, "say which event"),
        ("tail", None, "say which topic"),
    ],
)
def test_a_wrong_question_is_refused(controller: Bench, path: str, body: dict[str, Any] | None, said: str) -> None:
    """Kept promise: it is said what is wrong with it, before anybody searches."""
    raw = None if body is None else json.dumps(body).encode()
    url, is_json = f"{controller.server}/api/penstock/{path}", {"Content-Type": "application/json"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(url, raw, is_json), timeout=20)
    assert refused.value.code == 400
    assert said in json.loads(refused.value.read())["error"]
