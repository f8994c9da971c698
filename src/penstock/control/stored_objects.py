"""Reads a stored resource, which any process may have written. Called by the store when it reads its topic.

In: key and value of a record. Out: the resource, or why it cannot be used. What every reader of all resources does
with each of them is tried here once, so that one bad object does not stop the work for the others. Pure.
"""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.control import ingress, json_content, starts
from penstock.control.config_maps import understood
from penstock.control.dependents import references
from penstock.control.kinds import BY_NAME, CONFIG_MAP, SUBSCRIPTION, Resource, key_of, spec_of, status_of
from penstock.filter.check import Problem

LONGEST_REASON = 300
_VERSION = re.compile(r"[0-9]{1,18}")


class Unreadable(ValueError):
    """Why an object is skipped."""


@dataclass(frozen=True)
class Read:
    resource: Resource
    problem: str = ""  # what was replaced to make it readable


def read(key: str, raw: bytes) -> Read:
    """Raises Unreadable."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not JSON: {error}"[:LONGEST_REASON]) from None
    found = json_content.problems(value)
    resource = json_content.cleaned(value) if found else value
    try:
        _check(key, resource)
    except Unreadable:
        raise
    except Exception as error:
        why = f"it does not have the form of a resource ({type(error).__name__}: {error})"
        raise Unreadable(json_content.readable(why)[:LONGEST_REASON]) from None
    return Read(resource, _shown(found))


def _shown(found: list[Problem]) -> str:
    if not found:
        return ""
    return "some of its values are not valid and are replaced: " + "; ".join(
        f"{p.field} {p.message}" for p in found[:3]
    )


def _check(key: str, resource: Any) -> None:
    _is(isinstance(resource, dict), "it is not an object")
    _is(isinstance(resource.get("kind"), str) and resource["kind"] in BY_NAME, "its kind is not known")
    metadata = resource.get("metadata")
    _is(isinstance(metadata, dict), "it has no metadata")
    for field in ("name", "namespace", "uid", "resourceVersion"):
        _is(isinstance(metadata.get(field), str) and metadata[field], f"metadata.{field} is missing")
    is_version = _VERSION.fullmatch(metadata["resourceVersion"])
    _is(is_version, "metadata.resourceVersion is not a number of at most 18 digits")
    _is(type(metadata.get("generation")) is int, "metadata.generation is not a number")
    for field in ("creationTimestamp", "deletionTimestamp"):
        if field in metadata or field == "creationTimestamp":
            _is(_is_time(metadata.get(field)), f"metadata.{field} is not a time")
    _is(key_of(resource) == key, f"it is stored as {key}, but its own key is {key_of(resource)}")
    for field in ("labels", "annotations"):
        _check_texts(metadata.get(field), f"metadata.{field}")
    for field in ("spec", "status"):
        _is(isinstance(resource.get(field) or {}, dict), f"{field} is not an object")
    _check_status(status_of(resource))
    _check_references(resource)


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _check_status(status: dict[str, Any]) -> None:
    _check_texts(status.get("annotations"), "status.annotations")
    conditions = status.get("conditions") or []
    _is(isinstance(conditions, list), "status.conditions is not a list")
    for each in conditions:
        is_condition = isinstance(each, dict) and isinstance(each.get("status"), str)
        _is(is_condition, "status.conditions has an item that is not a condition")
    _is(isinstance(status.get("address") or {}, dict), "status.address is not an object")


def _check_references(resource: Resource) -> None:
    """Tries what is done with all resources whenever one of them changes; raises if that fails."""
    for _ in references(resource):
        pass
    starts.noted_starts(resource)
    ingress.topic_of(resource)
    ingress.noted_cluster(resource)
    if resource["kind"] == SUBSCRIPTION.name:
        _is(isinstance(spec_of(resource).get("channel"), dict), "spec.channel is not an object")
    if resource["kind"] == CONFIG_MAP.name:
        _check_texts(resource.get("data"), "data")
        understood(resource.get("data") or {})


def _check_texts(value: Any, where: str) -> None:
    given = value or {}
    is_well = isinstance(given, dict) and all(isinstance(each, str) for each in given.values())
    _is(is_well, f"{where} is not a map of text to text")


def _is(well: object, otherwise: str) -> None:
    if not well:
        raise Unreadable(otherwise[:LONGEST_REASON])
