"""From what somebody applied to what is stored. Pure: old and new object, the clock and a fresh uid come in."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from penstock.control.conditions import timestamp
from penstock.control.kinds import BROKER, CONFIG_MAP, SECRET, TRIGGER, Resource
from penstock.control.names import BROKER_CLASS, BROKER_CLASSES, BROKER_LABEL

Verdict = Literal["created", "configured", "unchanged"]


@dataclass(frozen=True)
class Stamp:
    """What a stored object gets from the store: when, which version, and for a new one, which uid."""

    now: datetime
    version: int
    new_uid: Callable[[], str]


def admitted(applied: dict[str, Any], old: Resource | None, stamp: Stamp) -> tuple[Resource, Verdict]:
    """The object to store. Status, uid and creation time are the store's own; what was applied cannot set them."""
    kept = {field: copy.deepcopy(value) for field, value in applied.items() if field not in ("metadata", "status")}
    if applied["kind"] not in (CONFIG_MAP.name, SECRET.name):
        kept["spec"] = kept.get("spec") or {}
    metadata = _metadata(applied)
    if old is None:
        metadata |= {"uid": stamp.new_uid(), "creationTimestamp": timestamp(stamp.now), "generation": 1}
        return {**kept, "metadata": metadata | {"resourceVersion": str(stamp.version)}}, "created"
    body_before = {field: value for field, value in old.items() if field not in ("metadata", "status")}
    wanted_before = {f: v for f, v in old["metadata"].items() if f in ("name", "namespace", "labels", "annotations")}
    if body_before == kept and wanted_before == metadata:
        return old, "unchanged"
    metadata |= {f: old["metadata"][f] for f in ("uid", "creationTimestamp", "generation")}
    if body_before != kept or wanted_before.get("annotations") != metadata.get("annotations"):
        # Kubernetes counts only the spec; ours counts annotations too, since some of them steer delivery
        metadata["generation"] += 1
    changed = {**kept, "metadata": metadata | {"resourceVersion": str(stamp.version)}}
    return (changed | {"status": old["status"]} if "status" in old else changed), "configured"


def _metadata(applied: dict[str, Any]) -> dict[str, Any]:
    given = applied["metadata"]
    metadata: dict[str, Any] = {"name": given["name"], "namespace": given.get("namespace") or "default"}
    labels = dict(given.get("labels") or {})
    if applied["kind"] == TRIGGER.name:
        labels[BROKER_LABEL] = applied["spec"]["broker"]
    if labels:
        metadata["labels"] = labels
    annotations = dict(given.get("annotations") or {})
    if applied["kind"] == BROKER.name:
        annotations.setdefault(BROKER_CLASS, BROKER_CLASSES[0])
    if annotations:
        metadata["annotations"] = annotations
    return metadata
