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


def of_kind(api_version: str, kind: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def channel(name: str = "jobs", **spec: Any) -> dict[str, Any]:
    return of_kind("messaging.knative.dev/v1beta1", "KafkaChannel", name, **spec)


def subscription(name: str = "print", **spec: Any) -> dict[str, Any]:
    default = {
        "channel": {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": "jobs"},
        "subscriber": {"uri": "http://sink.example/"},
    }
    wanted = {field: value for field, value in {**default, **spec}.items() if value is not None}
    return of_kind("messaging.knative.dev/v1", "Subscription", name, **wanted)


def source(name: str = "legacy", **spec: Any) -> dict[str, Any]:
    default = {"topics": ["old-orders"], "sink": {"uri": "http://sink.example/"}}
    return of_kind("sources.knative.dev/v1", "KafkaSource", name, **{**default, **spec})


def sink(name: str = "archive", **spec: Any) -> dict[str, Any]:
    return of_kind("eventing.knative.dev/v1alpha1", "KafkaSink", name, **{"topic": "archived", **spec})


def service(name: str = "printer", **spec: Any) -> dict[str, Any]:
    return of_kind("v1", "Service", name, **{"externalName": "printer.example", **spec})


def secret(name: str = "login", **data: str) -> dict[str, Any]:
    """Its ``stringData``."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def referred(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """A destination by ref."""
    return {"ref": {"apiVersion": "any/v1", "kind": kind, "name": name}, **more}


def annotated(resource: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """``annotated(x, **{"name": "value"})``."""
    return {**resource, "metadata": {**resource["metadata"], "annotations": annotations}}


def stored(applied: dict[str, Any], uid: str = "uid-1", status: dict[str, Any] | None = None) -> Resource:
    resource, _ = admitted(applied, None, Stamp(NOON, 1, lambda: uid))
    return {**resource, "status": status} if status else resource
