"""What the tests of one module need: resources under names of their own, and one subscriber with many paths.

    url = stage.broker("orders")
    stage.trigger("audit", "orders")                     gets its events at the path /audit
    send(url, "1")
    stage.subscriber.wait_for(1, "/audit")

All of it is gone when the module is over.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.api import KINDS, Api, Resource
from tests.conformance.sending import ids
from tests.sink import Request, Sink
from tests.waiting import until

BROKER_CLASS = "eventing.knative.dev/broker.class"
ORDERED = {"kafka.eventing.knative.dev/delivery.order": "ordered"}


class Stage:
    def __init__(self, api: Api, run: str, bootstrap_servers: str, broker_class: str) -> None:
        self.api = api
        self.subscriber = Sink().start()
        self.bootstrap_servers = bootstrap_servers
        self._run = run
        self._class = broker_class
        self._made: list[tuple[str, str]] = []

    # ── names ─────────────────────────────────────────────────────────────────────────────────────

    def name(self, short: str) -> str:
        """Names are of this run, so that the suite can run against a system in use."""
        return f"{self._run}-{short}"

    def to(self, path: str) -> dict[str, Any]:
        """A destination: a path of the subscriber."""
        return {"uri": self.subscriber.url + path}

    def reference(self, kind: str, short: str) -> dict[str, Any]:
        return {"apiVersion": KINDS[kind][0], "kind": kind, "name": self.name(short)}

    # ── resources ─────────────────────────────────────────────────────────────────────────────────

    def resource(
        self, kind: str, short: str, spec: Mapping[str, Any] | None = None, **metadata: Mapping[str, str]
    ) -> Resource:
        """As somebody would write it; ``metadata`` are annotations and labels."""
        named = {"name": self.name(short), "namespace": self.api.namespace, **metadata}
        body = {} if spec is None else {"spec": dict(spec)}
        return {"apiVersion": KINDS[kind][0], "kind": kind, "metadata": named, **body}

    def make(
        self, kind: str, short: str, spec: Mapping[str, Any] | None = None, **metadata: Mapping[str, str]
    ) -> None:
        """Creates it, and does not wait for anything."""
        self.create(self.resource(kind, short, spec, **metadata))

    def create(self, resource: Resource) -> None:
        answer = self.api.create(resource)
        assert 200 <= answer.status < 300, f"{json.dumps(resource)} was refused: {answer.body!r}"
        self._made.append((resource["kind"], resource["metadata"]["name"]))

    def get(self, kind: str, short: str) -> Resource:
        return self.api.get(kind, self.name(short))

    def change(self, kind: str, short: str, alter: Callable[[Resource], object]) -> None:
        answer = self.api.change(kind, self.name(short), alter)
        assert 200 <= answer.status < 300, f"the change of {kind} {short} was refused: {answer.body!r}"

    def delete(self, kind: str, short: str) -> None:
        self.api.delete(kind, self.name(short))
        until(lambda: self.api.find(kind, self.name(short)) is None, f"the end of {kind} {short}")

    def until_ready(self, kind: str, short: str) -> Resource:
        return self.api.until_ready(kind, self.name(short))

    def until_not_ready(self, kind: str, short: str, about: str) -> Resource:
        return self.api.until_not_ready(kind, self.name(short), about)

    def address(self, kind: str, short: str) -> str:
        """Of a resource that is ready, or becomes so."""
        return str(self.until_ready(kind, short)["status"]["address"]["url"])

    # ── brokers and triggers ──────────────────────────────────────────────────────────────────────

    def broker_parts(self, short: str, partitions: int = 1) -> tuple[Resource, Resource]:
        """A ConfigMap and a Broker that names it."""
        config = self.resource("ConfigMap", f"{short}-config")
        config["data"] = {
            "default.topic.partitions": str(partitions),
            "default.topic.replication.factor": "1",
        }
        if self.bootstrap_servers:
            config["data"]["bootstrap.servers"] = self.bootstrap_servers
        named = {"apiVersion": "v1", "kind": "ConfigMap", "name": self.name(f"{short}-config")}
        annotations = {BROKER_CLASS: self._class}
        return config, self.resource("Broker", short, {"config": named}, annotations=annotations)

    def broker(self, short: str, partitions: int = 1, **spec: Any) -> str:
        """A broker that is ready: its address."""
        config, broker = self.broker_parts(short, partitions)
        broker["spec"] |= spec
        self.create(config)
        self.create(broker)
        return self.address("Broker", short)

    def trigger(self, short: str, broker: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Its events come to the path of its name, unless the spec has another subscriber."""
        whole = {"broker": self.name(broker), "subscriber": self.to(f"/{short}"), **spec}
        self.make("Trigger", short, whole, annotations=annotations or {})

    def came(self, path: str, id_: str) -> Request:
        """The first request with that event, once it has come to this path."""

        def look() -> list[Request]:
            return [each for each in self.subscriber.at(path) if ids([each]) == [id_]]

        return until(look, f"the event {id_} at {path}", 30)[0]

    def close(self) -> None:
        for kind, name in reversed(self._made):
            self.api.delete(kind, name)
        self.subscriber.stop()
