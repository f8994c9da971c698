"""``describe``: all that is known about one resource, as text or JSON."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.cli.client import Client
from penstock.cli.columns import age_seconds, filter_text
from penstock.cli.output import Column, age, table, width
from penstock.cli.targets import Target
from penstock.control.kinds import BROKER, TRIGGER, Resource, name_of, namespace_of, noted, spec_of, status_of
from penstock.control.names import NOTED_PARTITIONS, NOTED_TOPIC, trigger_group
from penstock.errors import PenstockError


@dataclass(frozen=True)
class Described:
    resource: Resource
    lag: dict[str, Any] | None = None  # of a trigger: total and by partition
    triggers: tuple[str, ...] = ()  # of a broker
    problems: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        shaped: dict[str, Any] = {"resource": self.resource, "problems": list(self.problems)}
        if self.resource["kind"] == TRIGGER.name:
            shaped["lag"] = self.lag
        if self.resource["kind"] == BROKER.name:
            shaped["triggers"] = list(self.triggers)
        return shaped


def look(client: Client, target: Target, namespace: str) -> Described:
    resource = client.one(target.kind, namespace, target.name or "")
    problems = [
        f"{each['type']}: {each.get('message') or each.get('reason') or 'not true'}"
        for each in status_of(resource).get("conditions") or []
        if each["status"] != "True" and each["type"] != "Ready"
    ]
    if target.kind is TRIGGER:
        try:
            return Described(resource, client.lag(namespace, name_of(resource)), problems=tuple(problems))
        except PenstockError as error:
            return Described(resource, problems=(*problems, f"the lag is not known: {error.message}"))
    if target.kind is BROKER:
        of_broker = [
            name_of(each)
            for each in client.listing(TRIGGER, namespace)
            if spec_of(each).get("broker") == name_of(resource)
        ]
        return Described(resource, triggers=tuple(of_broker), problems=tuple(problems))
    return Described(resource, problems=tuple(problems))


def text(described: Described) -> str:
    resource = described.resource
    lines = _facts(
        [
            ("Name", name_of(resource)),
            ("Namespace", namespace_of(resource)),
            ("Kind", resource["kind"]),
            ("Age", f"{age(age_seconds(resource))} (since {resource['metadata']['creationTimestamp']})"),
            *_annotation_facts(resource),
            *_kind_facts(described),
        ]
    )
    conditions = status_of(resource).get("conditions") or []
    if conditions:
        lines += ["", "Conditions:", *_indented(_condition_table(conditions))]
    if described.lag and described.lag.get("partitions"):
        lines += ["", "Positions:", *_indented(_position_table(described.lag["partitions"]))]
    if resource["kind"] in (BROKER.name, TRIGGER.name):
        nothing = "none" if conditions else "not looked at yet"
        lines += ["", "Problems:", *(f"  {each}" for each in described.problems or (nothing,))]
    return "\n".join(lines)


def _facts(pairs: list[tuple[str, str]]) -> list[str]:
    shown = [(name, value) for name, value in pairs if value]
    longest = max(len(name) for name, _ in shown) + 1
    return [f"{(name + ':').ljust(longest)}  {value}" for name, value in shown]


def _annotation_facts(resource: Resource) -> list[tuple[str, str]]:
    annotations = resource["metadata"].get("annotations") or {}
    return [("Annotations", ", ".join(f"{k}={v}" for k, v in sorted(annotations.items())))]


def _kind_facts(described: Described) -> list[tuple[str, str]]:
    resource = described.resource
    spec, status = spec_of(resource), status_of(resource)
    if resource["kind"] == BROKER.name:
        partitions = noted(resource).get(NOTED_PARTITIONS)
        return [
            ("Address", (status.get("address") or {}).get("url", "none yet")),
            ("Topic", noted(resource).get(NOTED_TOPIC, "") + (f" ({partitions} partitions)" if partitions else "")),
            ("Config", (spec.get("config") or {}).get("name", "defaults")),
            ("Delivery", delivery_text(spec.get("delivery"))),
            ("Triggers", ", ".join(described.triggers) or "none"),
        ]
    if resource["kind"] == TRIGGER.name:
        total = (described.lag or {}).get("lag")
        return [
            ("Broker", str(spec.get("broker"))),
            ("Filter", filter_text(resource)),
            ("Subscriber", status.get("subscriberUri") or "not resolved"),
            ("Dead letters", status.get("deadLetterSinkUri", "")),
            ("Delivery", delivery_text(spec.get("delivery"), inherited="the broker's")),
            ("Group", trigger_group(namespace_of(resource), name_of(resource))),
            ("Lag", "not known" if total is None else str(total)),
        ]
    return [(key, str(value)) for key, value in sorted((resource.get("data") or {}).items())]


def delivery_text(delivery: dict[str, Any] | None, inherited: str = "no retries") -> str:
    if not delivery:
        return inherited
    return ", ".join(f"{key} {value}" for key, value in delivery.items() if key != "deadLetterSink") or "no retries"


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
    heads = [Column(name, right=True) for name in ("PARTITION", "POSITION", "END", "LAG")]
    return table(heads, [[str(p[k]) for k in ("partition", "position", "end", "lag")] for p in partitions])


def _inner_width() -> int | None:
    limit = width()
    return None if limit is None else limit - 2


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
