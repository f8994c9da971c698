"""Conditions as Kubernetes shapes them: unique and sorted by type, rolled up into Ready.

In: what was found out about each aspect of a resource, and the conditions of before. Out: the list for
``status.conditions``. The time of a condition moves only when its status does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class Condition:
    type: str
    status: Truth
    reason: str = ""
    message: str = ""


def true(type_: str, reason: str = "", message: str = "") -> Condition:
    return Condition(type_, "True", reason, message)


def false(type_: str, reason: str, message: str) -> Condition:
    return Condition(type_, "False", reason, message)


def unknown(type_: str, reason: str, message: str) -> Condition:
    return Condition(type_, "Unknown", reason, message)


def rolled_up(found: Sequence[Condition]) -> Condition:
    """Ready: False for the first that is False, else Unknown for the first that is Unknown, else True."""
    for status in ("False", "Unknown"):
        for each in found:
            if each.status == status:
                return Condition("Ready", each.status, each.reason, each.message)
    return true("Ready")


def merged(before: Sequence[dict[str, Any]], found: Sequence[Condition], now: datetime) -> list[dict[str, Any]]:
    """The list for the status, Ready included."""
    known = {each.get("type"): each for each in before}
    everything = sorted([rolled_up(found), *found], key=lambda c: c.type)
    return [_as_dict(each, known.get(each.type), now) for each in everything]


def _as_dict(new: Condition, old: dict[str, Any] | None, now: datetime) -> dict[str, Any]:
    unchanged = old is not None and old.get("status") == new.status
    time = old["lastTransitionTime"] if old and unchanged and "lastTransitionTime" in old else timestamp(now)
    shaped = {"type": new.type, "status": new.status, "lastTransitionTime": time}
    if new.reason:
        shaped["reason"] = new.reason
    if new.message:
        shaped["message"] = new.message
    return shaped


def timestamp(now: datetime) -> str:
    """A time as Kubernetes writes it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
