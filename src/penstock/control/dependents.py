"""Who reads whom: which resources to look at when one changes, and who loses something when it goes. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from penstock.control import brokers, channels
from penstock.control.config_maps import AUTH
from penstock.control.kinds import (
    BROKER,
    CHANNEL,
    CONFIG_MAP,
    SECRET,
    SINK,
    SOURCE,
    SUBSCRIPTION,
    TRIGGER,
    Resource,
    is_being_deleted,
    key_of,
    name_of,
    namespace_of,
    spec_of,
)
from penstock.control.names import OLD_SECRET_LABEL
from penstock.control.sinks import secret_of

Named = tuple[str, str, str]  # kind, namespace, name


def dependents(everything: list[Resource], changed: Resource) -> list[str]:
    """The keys of the resources whose plan reads the changed one."""
    named = (changed["kind"], namespace_of(changed), name_of(changed))
    config_maps: list[Named] = []
    if changed["kind"] == SECRET.name:
        config_maps = [
            (each["kind"], namespace_of(each), name_of(each))
            for each in everything
            if each["kind"] == CONFIG_MAP.name and named[1:] in _secrets_of(each)
        ]
    return [key_of(each) for each in everything if _reads(each, changed, {named, *config_maps})]


def _secrets_of(config_map: Resource) -> list[tuple[str, str] | None]:
    """The Secret that it names: for brokers in its own namespace, for channels where it says."""
    data, own = config_map.get("data") or {}, (namespace_of(config_map), name_of(config_map))
    for_brokers = (own[0], data[AUTH]) if data.get(AUTH) else None
    return [for_brokers, channels.secret_of(data)] if own == channels.CONFIG else [for_brokers]


@dataclass(frozen=True)
class Loss:
    """What somebody loses when another resource goes."""

    kind: str
    namespace: str
    name: str
    loses: Literal["events", "destination", "settings", "credentials"]


def losses(everything: list[Resource], going: Resource) -> list[Loss]:
    """Who depends on what is to be deleted, and for what; those that are going themselves lose nothing."""
    if going["kind"] == SUBSCRIPTION.name:
        return []  # a channel only shows it
    found = set(dependents(everything, going))
    return [
        Loss(each["kind"], namespace_of(each), name_of(each), _lost(each, going))
        for each in everything
        if key_of(each) in found and not is_being_deleted(each)
    ]


def _lost(resource: Resource, going: Resource) -> Literal["events", "destination", "settings", "credentials"]:
    if going["kind"] == CONFIG_MAP.name:
        return "settings"
    if going["kind"] == SECRET.name:
        return "credentials"
    spec, namespace = spec_of(resource), namespace_of(resource)
    origins = {
        TRIGGER.name: (BROKER.name, namespace, spec.get("broker")),
        SUBSCRIPTION.name: (CHANNEL.name, namespace, (spec.get("channel") or {}).get("name")),
    }
    own = (going["kind"], namespace_of(going), name_of(going))
    return "events" if origins.get(resource["kind"]) == own else "destination"


def _reads(resource: Resource, changed: Resource, named: set[Named]) -> bool:
    if any(each in named for each in references(resource)):
        return True
    if resource["kind"] != CHANNEL.name:
        return False
    if changed["kind"] == SUBSCRIPTION.name:  # a channel shows who subscribes to it
        return bool(channels.subscriptions_of(resource, [changed]))
    return changed["kind"] == SECRET.name and OLD_SECRET_LABEL in (changed["metadata"].get("labels") or {})


def references(resource: Resource) -> Iterator[Named]:
    """What a resource names: configuration, where its events come from, where they go."""
    kind, namespace, spec = resource["kind"], namespace_of(resource), spec_of(resource)
    if kind == BROKER.name and (config := brokers.config_reference(resource)):
        yield CONFIG_MAP.name, *config
    elif kind == CHANNEL.name:
        yield CONFIG_MAP.name, *channels.CONFIG
    elif kind == TRIGGER.name:
        yield BROKER.name, namespace, str(spec.get("broker"))
    elif kind == SUBSCRIPTION.name:
        yield CHANNEL.name, namespace, str((spec.get("channel") or {}).get("name"))
    elif kind == SINK.name and (secret := secret_of(resource)):
        yield SECRET.name, *secret
    elif kind == SOURCE.name:
        yield from ((SECRET.name, namespace, name) for name in _secret_names(spec.get("net") or {}))
    destinations = [spec.get(each) for each in ("subscriber", "reply", "sink")]
    destinations.append((spec.get("delivery") or {}).get("deadLetterSink"))
    for each in destinations:
        ref = each.get("ref") if isinstance(each, dict) else None
        if ref:
            yield str(ref.get("kind")), str(ref.get("namespace") or namespace), str(ref.get("name"))


def _secret_names(net: dict[str, Any]) -> list[str]:
    parts = [value for part in net.values() if isinstance(part, dict) for value in part.values()]
    found = [each.get("secretKeyRef") for each in parts if isinstance(each, dict)]
    return [str(each["name"]) for each in found if isinstance(each, dict) and each.get("name")]
