"""Which columns a kind has in ``get``, and how a resource fills them."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from penstock.cli.output import Column, age
from penstock.control.addresses import address_of
from penstock.control.kinds import (
    BROKER,
    CHANNEL,
    CONFIG_MAP,
    SECRET,
    SERVICE,
    SINK,
    SOURCE,
    SUBSCRIPTION,
    TRIGGER,
    WITH_STATUS,
    Kind,
    Resource,
    annotations_of,
    condition,
    is_being_deleted,
    key_of,
    name_of,
    namespace_of,
    noted,
    spec_of,
    status_of,
    uid_of,
)
from penstock.control.names import (
    NOTED_PARTITIONS,
    NOTED_TOPIC,
    SECRET_KEYS,
    source_group,
    subscription_group,
    trigger_group,
)

NAMESPACE = Column("NAMESPACE", 95)
NAME = Column("NAME", 100)
READY = Column("READY", 99)
REASON = Column("REASON", 60)
AGE = Column("AGE", 40)
URL = Column("URL", 80)
TOPIC = Column("TOPIC", 30)
PARTITIONS = Column("PARTITIONS", 20, right=True)
LAG = Column("LAG", 75, right=True)
SUBSCRIBER = Column("SUBSCRIBER", 65, shorten=True)
SERVERS = Column("SERVERS", 15, shorten=True)
_STATE = (NAME, READY, REASON)

_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    BROKER.name: (*_STATE, URL, AGE),
    TRIGGER.name: (*_STATE, Column("BROKER", 70), SUBSCRIBER, AGE),
    CHANNEL.name: (*_STATE, URL, TOPIC, Column("SUBSCRIBERS", 70, right=True), AGE),
    SUBSCRIPTION.name: (
        *_STATE, Column("CHANNEL", 70), SUBSCRIBER, Column("REPLY", 50, shorten=True), LAG, AGE,
    ),
    SOURCE.name: (
        *_STATE, Column("TOPICS", 70, shorten=True), Column("SINK", 65, shorten=True), Column("GROUP", 30), LAG, AGE,
    ),
    SINK.name: (*_STATE, Column("TOPIC", 70), URL, AGE),
    SERVICE.name: (NAME, Column("ADDRESS", 80), AGE),
    CONFIG_MAP.name: (NAME, Column("DATA", 50, right=True), AGE),
    SECRET.name: (NAME, Column("KEYS", 50, shorten=True), AGE),
}  # fmt: skip
_WIDE: Mapping[str, tuple[Column, ...]] = {
    BROKER.name: (TOPIC, PARTITIONS),
    TRIGGER.name: (LAG, Column("FILTER", 20, shorten=True)),
    CHANNEL.name: (PARTITIONS,),
    SUBSCRIPTION.name: (Column("GROUP", 20),),
    SOURCE.name: (Column("START", 20), SERVERS),
    SINK.name: (PARTITIONS, Column("MODE", 20), SERVERS),
    SECRET.name: (Column("TYPE", 20),),
}

Lags = Mapping[str, int]
Cells = dict[str, str]


def columns(kind: Kind, *, wide: bool, with_namespace: bool) -> list[Column]:
    shown = [*_COLUMNS[kind.name]]
    if wide:
        shown += _WIDE.get(kind.name, ())
    return [NAMESPACE, *shown] if with_namespace else shown


def row(kind: Kind, resource: Resource, shown: list[Column], lags: Lags) -> list[str]:
    cells = _common_cells(kind, resource, lags) | _CELLS[kind.name](resource)
    return [cells[column.heading] for column in shown]


def _common_cells(kind: Kind, resource: Resource, lags: Lags) -> Cells:
    cells = {
        "NAMESPACE": namespace_of(resource),
        "NAME": name_of(resource),
        "AGE": age(age_seconds(resource)),
    }
    if kind in WITH_STATUS:
        lag = lags.get(key_of(resource))
        cells |= {
            "READY": condition(resource, "Ready")["status"],
            "REASON": _reason(resource),
            "URL": address_of(resource) or "",
            "TOPIC": noted(resource).get(NOTED_TOPIC, ""),
            "PARTITIONS": noted(resource).get(NOTED_PARTITIONS, ""),
            "LAG": "-" if lag is None else str(lag),
            "SERVERS": ",".join(spec_of(resource).get("bootstrapServers") or []) or "home",
        }
    return cells


def _reason(resource: Resource) -> str:
    """Why it is not ready; or that nothing is delivered although it is."""
    if is_being_deleted(resource):
        return "Deleting"
    conditions = status_of(resource).get("conditions") or []
    is_paused = any(each.get("reason") == "Paused" for each in conditions)
    return condition(resource, "Ready").get("reason") or ("Paused" if is_paused else "")


def _nothing_else(_resource: Resource) -> Cells:
    return {}


def _trigger_cells(trigger: Resource) -> Cells:
    return {
        "BROKER": str(spec_of(trigger).get("broker", "")),
        "SUBSCRIBER": status_of(trigger).get("subscriberUri", ""),
        "FILTER": filter_text(trigger),
    }


def _channel_cells(channel: Resource) -> Cells:
    return {"SUBSCRIBERS": str(len(status_of(channel).get("subscribers") or []))}


def _subscription_cells(subscription: Resource) -> Cells:
    found = status_of(subscription).get("physicalSubscription") or {}
    return {
        "CHANNEL": str((spec_of(subscription).get("channel") or {}).get("name", "")),
        "SUBSCRIBER": found.get("subscriberUri", ""),
        "REPLY": found.get("replyUri", ""),
        "GROUP": group_of(subscription),
    }


def _source_cells(source: Resource) -> Cells:
    spec = spec_of(source)
    return {
        "TOPICS": ",".join(spec.get("topics") or []),
        "SINK": status_of(source).get("sinkUri", ""),
        "GROUP": group_of(source),
        "START": str(spec.get("initialOffset") or "latest"),
    }


def _sink_cells(sink: Resource) -> Cells:
    spec = spec_of(sink)
    return {"TOPIC": str(spec.get("topic", "")), "MODE": str(spec.get("contentMode") or "structured")}


def _secret_cells(secret: Resource) -> Cells:
    return {"KEYS": keys_of(secret), "TYPE": str(secret.get("type") or "Opaque")}


_CELLS: Mapping[str, Callable[[Resource], Cells]] = {
    BROKER.name: _nothing_else,
    TRIGGER.name: _trigger_cells,
    CHANNEL.name: _channel_cells,
    SUBSCRIPTION.name: _subscription_cells,
    SOURCE.name: _source_cells,
    SINK.name: _sink_cells,
    SERVICE.name: lambda service: {"ADDRESS": address_of(service) or ""},
    CONFIG_MAP.name: lambda config_map: {"DATA": str(len(config_map.get("data") or {}))},
    SECRET.name: _secret_cells,
}


def keys_of(secret: Resource) -> str:
    """The names of what is in it; more of it never leaves the controller."""
    return annotations_of(secret).get(SECRET_KEYS, "")


def group_of(resource: Resource) -> str:
    """The consumer group that shows the progress of what has events delivered."""
    namespace, name, spec = namespace_of(resource), name_of(resource), spec_of(resource)
    if resource["kind"] == TRIGGER.name:
        return trigger_group(namespace, name)
    if resource["kind"] == SUBSCRIPTION.name:
        return subscription_group(namespace, str(spec["channel"]["name"]), uid_of(resource))
    return str(spec.get("consumerGroup") or source_group(uid_of(resource)))


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
