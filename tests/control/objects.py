"""Resources for tests, as somebody would write them and as the store would keep them."""

from datetime import UTC, datetime
from typing import Any

from penstock.control.admission import Stamp, admitted
from penstock.control.kinds import Resource

NOON = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def broker(name: str = "orders", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Broker",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def trigger(name: str = "audit", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"broker": "orders", "subscriber": {"uri": "http://sink.example/"}, **spec},
    }


def config_map(name: str = "kafka-config", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {key.replace("_", "."): value for key, value in data.items()},
    }


def annotated(resource: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """``annotated(x, **{"name": "value"})``."""
    return {**resource, "metadata": {**resource["metadata"], "annotations": annotations}}


def stored(applied: dict[str, Any], uid: str = "uid-1", status: dict[str, Any] | None = None) -> Resource:
    resource, _ = admitted(applied, None, Stamp(NOON, 1, lambda: uid))
    return {**resource, "status": status} if status else resource
