"""``describe``: all that is known about one resource, as text or JSON."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.cli.client import Client
from penstock.cli.columns import age_seconds
from penstock.cli.describing_kinds import Readers, facts
from penstock.cli.output import Column, age, table, width
from penstock.cli.targets import Target
from penstock.control.kinds import (
    BROKER,
    CHANNEL,
    EGRESS,
    SUBSCRIPTION,
    TRIGGER,
    WITH_STATUS,
    Kind,
    Resource,
    annotations_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from penstock.control.names import SECRET_KEYS, SECRET_SERVERS, SECRET_VERSION
from penstock.errors import PenstockError
from penstock.visible import visible_line

OURS = (SECRET_KEYS, SECRET_SERVERS, SECRET_VERSION)  # notes of the store, shown in other words
_WITH_STATUS = {kind.name for kind in WITH_STATUS}
_EGRESS = {kind.name for kind in EGRESS}


@dataclass(frozen=True)
class Described:
    resource: Resource
    lag: dict[str, Any] | None = None  # of what has events delivered: total, and by topic and partition
    readers: Readers | None = None  # of a broker or a channel
    problems: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        shaped: dict[str, Any] = {"resource": self.resource, "problems": list(self.problems)}
        if self.resource["kind"] in _EGRESS:
            shaped["lag"] = self.lag
        if self.readers is not None:
            shaped[self.readers.kind.plural] = list(self.readers.names)
        return shaped


def look(client: Client, target: Target, namespace: str) -> Described:
    resource = client.one(target.kind, namespace, target.name or "")
    problems = [
        f"{each['type']}: {each.get('message') or each.get('reason') or 'not true'}"
        for each in status_of(resource).get("conditions") or []
        if each["status"] != "True" and each["type"] != "Ready"
    ]
    lag = None
    if target.kind in EGRESS:
        try:
            lag = client.lag(target.kind, namespace, name_of(resource))
        except PenstockError as error:
            problems.append(f"the lag is not known: {error.message}")
    return Described(resource, lag, _readers(client, target.kind, resource), tuple(problems))


def _readers(client: Client, kind: Kind, resource: Resource) -> Readers | None:
    """Who reads it: triggers of a broker, subscriptions of a channel."""
    if kind is BROKER:
        found = [(name_of(each), spec_of(each).get("broker")) for each in _beside(client, TRIGGER, resource)]
        return Readers(TRIGGER, tuple(name for name, of in found if of == name_of(resource)))
    if kind is CHANNEL:
        subscriptions = _beside(client, SUBSCRIPTION, resource)
        found = [(name_of(each), (spec_of(each).get("channel") or {}).get("name")) for each in subscriptions]
        return Readers(SUBSCRIPTION, tuple(name for name, of in found if of == name_of(resource)))
    return None


def _beside(client: Client, kind: Kind, resource: Resource) -> list[Resource]:
    return client.listing(kind, namespace_of(resource))


def text(described: Described) -> str:
    resource = described.resource
    lines = _facts(
        [
            ("Name", name_of(resource)),
            ("Namespace", namespace_of(resource)),
            ("Kind", resource["kind"]),
            ("Age", f"{age(age_seconds(resource))} (since {resource['metadata']['creationTimestamp']})"),
            *_annotation_facts(resource),
            *facts(resource, described.lag, described.readers),
        ]
    )
    conditions = status_of(resource).get("conditions") or []
    if conditions:
        lines += ["", "Conditions:", *_indented(_condition_table(conditions))]
    if described.lag and described.lag.get("partitions"):
        lines += ["", "Positions:", *_indented(_position_table(described.lag["partitions"]))]
    if resource["kind"] in _WITH_STATUS:
        nothing = "none" if conditions else "not looked at yet"
        lines += ["", "Problems:", *(f"  {visible_line(each)}" for each in described.problems or (nothing,))]
    return "\n".join(lines)


def _facts(pairs: list[tuple[str, str]]) -> list[str]:
    shown = [(visible_line(name), visible_line(value)) for name, value in pairs if value]
    longest = max(len(name) for name, _ in shown) + 1
    return [f"{(name + ':').ljust(longest)}  {value}" for name, value in shown]


def _annotation_facts(resource: Resource) -> list[tuple[str, str]]:
    shown = [f"{k}={v}" for k, v in sorted(annotations_of(resource).items()) if k not in OURS]
    return [("Annotations", ", ".join(shown))]


def _condition_table(conditions: list[dict[str, Any]]) -> list[str]:
    heads = [
        Column("TYPE", 100),
        Column("STATUS", 99),
        Column("SINCE", 40, right=True),
        Column("REASON", 60),
        Column("MESSAGE", 70, shorten=True),
    ]
    now = datetime.now(UTC)
    rows = [
        [
            each["type"],
            each["status"],
            age((now - datetime.fromisoformat(each["lastTransitionTime"])).total_seconds()),
            each.get("reason", ""),
            each.get("message", ""),
        ]
        for each in sorted(conditions, key=lambda c: (c["type"] != "Ready", c["type"]))
    ]
    return table(heads, rows, _inner_width())


def _position_table(partitions: list[dict[str, Any]]) -> list[str]:
    fields = ("topic", "partition", "position", "end", "lag")
    heads = [Column(name.upper(), 50 if name == "topic" else 100, right=name != "topic") for name in fields]
    return table(heads, [[str(p[field]) for field in fields] for p in partitions], _inner_width())


def _inner_width() -> int | None:
    limit = width()
    return None if limit is None else limit - 2


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
