"""Resources for the tests of the whole system, applied as a user applies them."""

import json
from collections.abc import Mapping
from typing import Any

from tests.conftest import System

applied: list[dict[str, Any]] = []  # and not removed yet; ``conftest.py`` looks at it when a test is over


def broker(name: str, **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {"eventing.knative.dev/broker.class": "Kafka", **annotations}}
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": metadata}


def trigger(
    name: str, broker_name: str, url: str, annotations: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"broker": broker_name, "subscriber": {"uri": url}, **spec},
    }


def apply(system: System, *resources: dict[str, Any], seconds: int = 60) -> None:
    """Applies them (JSON is YAML) and waits until all are ready, for each at most so long."""
    applied.extend(each for each in resources if each not in applied)
    documents = "\n---\n".join(json.dumps(each) for each in resources)
    told = system.run("apply", "-f", "-", stdin=documents)
    assert told.returncode == 0, told.stderr
    for each in resources:
        target = f"{each['kind'].lower()}/{each['metadata']['name']}"
        waited = system.run("wait", target, "--for=condition=Ready", f"--timeout={seconds}s", timeout=seconds + 60)
        assert waited.returncode == 0, waited.stderr


def remove(system: System, *resources: dict[str, Any]) -> None:
    for each in reversed(resources):
        system.run("delete", each["kind"].lower(), each["metadata"]["name"])
        if each in applied:
            applied.remove(each)


def get(system: System, kind: str, name: str) -> dict[str, Any]:
    shown = system.run("get", kind, name, "-o", "json")
    assert shown.returncode == 0, shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)
    return found
