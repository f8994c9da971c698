"""The API of the system under test, in Kubernetes' shape: create with POST, change with PUT, read, delete."""

import json
from collections.abc import Callable
from typing import Any

from tests.conformance.sending import Answer, ask
from tests.waiting import until

Resource = dict[str, Any]
DEADLINE_SECONDS = 30.0

# By kind: the version of its API, and its place in paths.
KINDS = {
    "ConfigMap": ("v1", "configmaps"),
    "Broker": ("eventing.knative.dev/v1", "brokers"),
    "Trigger": ("eventing.knative.dev/v1", "triggers"),
    "KafkaSink": ("eventing.knative.dev/v1alpha1", "kafkasinks"),
    "KafkaChannel": ("messaging.knative.dev/v1beta1", "kafkachannels"),
    "Subscription": ("messaging.knative.dev/v1", "subscriptions"),
    "KafkaSource": ("sources.knative.dev/v1", "kafkasources"),
}


class Api:
    def __init__(self, server: str, namespace: str) -> None:
        self.namespace = namespace
        self._server = server.rstrip("/")

    def serves(self, kind: str) -> bool:
        return ask("GET", self._path(kind)).status != 404

    def create(self, resource: Resource) -> Answer:
        return self._write("POST", self._path(resource["kind"]), resource)

    def change(self, kind: str, name: str, alter: Callable[[Resource], object]) -> Answer:
        """The stored object, altered in place and put back."""
        resource = self.get(kind, name)
        alter(resource)
        return self._write("PUT", self._path(kind, name), resource)

    def get(self, kind: str, name: str) -> Resource:
        found = self.find(kind, name)
        assert found is not None, f"there is no {kind} {name}"
        return found

    def find(self, kind: str, name: str) -> Resource | None:
        answer = ask("GET", self._path(kind, name))
        if answer.status == 404:
            return None
        assert answer.status == 200, f"{kind} {name}: {answer.status} {answer.body[:500]!r}"
        found: Resource = json.loads(answer.body)
        return found

    def delete(self, kind: str, name: str) -> Answer:
        return ask("DELETE", self._path(kind, name))

    def until_ready(self, kind: str, name: str) -> Resource:
        """The object, once it is ready."""
        return self._until(kind, name, lambda it: condition(it, "Ready").get("status") == "True")

    def until_not_ready(self, kind: str, name: str, about: str) -> Resource:
        """The object, once its Ready is False, and reason or message tell about that: a word, in any case."""

        def look(resource: Resource) -> bool:
            ready = condition(resource, "Ready")
            told = f"{ready.get('reason')} {ready.get('message')}".lower()
            return ready.get("status") == "False" and bool(ready.get("reason")) and about.lower() in told

        return self._until(kind, name, look)

    def _until(self, kind: str, name: str, look: Callable[[Resource], bool]) -> Resource:
        """Statuses count only when they speak of what was applied last."""

        def found() -> Resource | None:
            resource = self.get(kind, name)
            is_current = resource.get("status", {}).get("observedGeneration") == resource["metadata"]["generation"]
            return resource if is_current and look(resource) else None

        try:
            return until(found, seconds=DEADLINE_SECONDS)
        except AssertionError:
            raise AssertionError(f"after {DEADLINE_SECONDS:g} s: {json.dumps(self.find(kind, name))}") from None

    def _path(self, kind: str, name: str = "") -> str:
        version, plural = KINDS[kind]
        root = "apis" if "/" in version else "api"
        path = f"{self._server}/{root}/{version}/namespaces/{self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    def _write(self, method: str, path: str, resource: Resource) -> Answer:
        return ask(method, path, json.dumps(resource).encode(), {"content-type": "application/json"})


def condition(resource: Resource, type_: str) -> dict[str, Any]:
    """The condition of that type, empty when there is none."""
    found = [each for each in resource.get("status", {}).get("conditions", []) if each["type"] == type_]
    return dict(found[0]) if found else {}
