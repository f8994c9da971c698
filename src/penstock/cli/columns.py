"""Which columns a kind has in ``get``, and how a resource fills them."""

from collections.abc import Mapping
from datetime import UTC, datetime

from penstock.cli.output import Column, age
from penstock.control.kinds import (
    BROKER,
    TRIGGER,
    Kind,
    Resource,
    condition,
    is_being_deleted,
    name_of,
    namespace_of,
    noted,
    spec_of,
    status_of,
)
from penstock.control.names import NOTED_PARTITIONS, NOTED_TOPIC

NAMESPACE = Column("NAMESPACE", 95)
NAME = Column("NAME", 100)
READY = Column("READY", 99)
REASON = Column("REASON", 60)
AGE = Column("AGE", 40)

_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    BROKER.name: (NAME, READY, REASON, Column("URL", 80), AGE),
    TRIGGER.name: (NAME, READY, REASON, Column("BROKER", 70), Column("SUBSCRIBER", 65, shorten=True), AGE),
}
_WIDE: Mapping[str, tuple[Column, ...]] = {
    BROKER.name: (Column("TOPIC", 30), Column("PARTITIONS", 20, right=True)),
    TRIGGER.name: (Column("LAG", 75, right=True), Column("FILTER", 20, shorten=True)),
}

Lags = Mapping[str, int]


def columns(kind: Kind, *, wide: bool, with_namespace: bool) -> list[Column]:
    shown = [*_COLUMNS.get(kind.name, (NAME, Column("DATA", 50, right=True), AGE))]
    if wide:
        shown += _WIDE.get(kind.name, ())
    return [NAMESPACE, *shown] if with_namespace else shown


def row(kind: Kind, resource: Resource, shown: list[Column], lags: Lags) -> list[str]:
    cells = _cells(kind, resource, lags)
    return [cells[column.heading] for column in shown]


def _cells(kind: Kind, resource: Resource, lags: Lags) -> dict[str, str]:
    ready = condition(resource, "Ready")
    cells = {
        "NAMESPACE": namespace_of(resource),
        "NAME": name_of(resource),
        "READY": ready["status"],
        "REASON": "Deleting" if is_being_deleted(resource) else ready.get("reason") or "",
        "AGE": age(age_seconds(resource)),
    }
    if kind is BROKER:
        cells["URL"] = (status_of(resource).get("address") or {}).get("url", "")
        cells["TOPIC"] = noted(resource).get(NOTED_TOPIC, "")
        cells["PARTITIONS"] = noted(resource).get(NOTED_PARTITIONS, "")
    elif kind is TRIGGER:
        lag = lags.get(f"Trigger/{namespace_of(resource)}/{name_of(resource)}")
        cells["BROKER"] = str(spec_of(resource).get("broker", ""))
        cells["SUBSCRIBER"] = status_of(resource).get("subscriberUri", "")
        cells["LAG"] = "-" if lag is None else str(lag)
        cells["FILTER"] = filter_text(resource)
    else:
        cells["DATA"] = str(len(resource.get("data") or {}))
    return cells


def filter_text(trigger: Resource) -> str:
    """The filter in a few words."""
    spec = spec_of(trigger)
    if spec.get("filters"):
        return " and ".join(_dialect_text(each) for each in spec["filters"])
    attributes = (spec.get("filter") or {}).get("attributes") or {}
    return ", ".join(f"{k}={v}" if v else k for k, v in attributes.items()) or "everything"


def _dialect_text(body: dict[str, object]) -> str:
    dialect, inner = next(iter(body.items()))
    if isinstance(inner, dict) and dialect != "not":
        sign = {"exact": "=", "prefix": "^=", "suffix": "$="}.get(dialect, "=")
        return ", ".join(f"{k}{sign}{v}" for k, v in inner.items())
    if isinstance(inner, list):
        return f"{dialect}({', '.join(_dialect_text(each) for each in inner)})"
    return f"{dialect}({_dialect_text(inner) if isinstance(inner, dict) else inner})"


def age_seconds(resource: Resource) -> float:
    created = datetime.fromisoformat(resource["metadata"]["creationTimestamp"])
    return (datetime.now(UTC) - created).total_seconds()
