"""What the dashboard shows in the tests: a broker with a few busy triggers and many quiet ones."""

import http.client
import json
import time
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.conftest import System
from tests.sink import Sink
from tests.system.resources import broker, trigger
from tests.waiting import until

BROKER = "board"
QUIET = 26  # triggers that want nothing: rows for the tables
Row = dict[str, Any]


def call(system: System, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        system.admin_url + path,
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def live(system: System) -> dict[str, Any]:
    found: dict[str, Any] = call(system, "GET", "/api/penstock/live?once=1")
    return found


@dataclass(frozen=True)
class Scene:
    """``all`` gets everything, ``failing`` answers 503, ``quiet-…`` want nothing."""

    system: System
    sink: Sink
    key: str = f"Broker/default/{BROKER}"

    def row(self, name: str) -> Row:
        rows: list[Row] = live(self.system)["subscriptions"]
        return next(row for row in rows if row["key"] == f"Trigger/default/{name}")

    def accepted(self) -> int:
        rows: list[Row] = live(self.system)["ingresses"]
        return int(next(row for row in rows if row["key"] == self.key)["accepted_total"])

    def subscribers(self) -> int:
        """How many subscriptions the broker's query serves."""
        queries = call(self.system, "GET", "/api/penstock/status")["queries"]
        return sum(each["subscriptions"] for each in queries if each["topic"] == f"knative-broker-default-{BROKER}")

    def send(self, count: int, type_: str = "order.created") -> list[str]:
        """Over one connection; the ids."""
        connection = http.client.HTTPConnection(urlsplit(self.system.ingress_url).netloc, timeout=30)
        stamp, ids = time.monotonic_ns(), []
        for n in range(count):
            headers = {"ce-specversion": "1.0", "ce-source": "/board", "ce-type": type_, "ce-id": f"{stamp}-{n}"}
            connection.request("POST", f"/default/{BROKER}", b"{}", {**headers, "content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 202
            ids.append(headers["ce-id"])
        connection.close()
        return ids


def resources(sink: Sink) -> list[dict[str, Any]]:
    nothing = [{"exact": {"type": "nothing"}}]
    often = {"retry": 20, "backoffPolicy": "linear", "backoffDelay": "PT20S"}
    return [
        broker(BROKER),
        trigger("all", BROKER, sink.url + "/all"),
        trigger("failing", BROKER, sink.url + "/failing", filters=[{"exact": {"type": "bad"}}], delivery=often),
        *(trigger(f"quiet-{n:02}", BROKER, sink.url + "/quiet", filters=nothing) for n in range(QUIET)),
    ]


def set_up(system: System, sink: Sink) -> Scene:
    sink.answer("/failing", status=503, body=b"upstream is away")
    scene, wanted = Scene(system, sink), resources(sink)
    for each in wanted:
        call(system, "POST", f"/apis/eventing.knative.dev/v1/namespaces/default/{each['kind'].lower()}s", each)

    def all_ready() -> bool:
        rows = [row for row in live(system)["subscriptions"] if row["from"] == scene.key]
        return len(rows) == len(wanted) - 1 and all(row["ready"] == "True" for row in rows)

    until(all_ready, "all triggers are ready", 90)
    return scene


def take_down(scene: Scene) -> None:
    for each in reversed(resources(scene.sink)):
        kind, name = each["kind"].lower(), each["metadata"]["name"]
        call(scene.system, "DELETE", f"/apis/eventing.knative.dev/v1/namespaces/default/{kind}s/{name}")
    until(lambda: scene.key not in {row["key"] for row in live(scene.system)["ingresses"]}, "the scene is gone", 60)
