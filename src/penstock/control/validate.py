"""Is a resource well formed? Every problem at once, each with the path of its field.

In: the object as somebody applied it and, for a change, the one that is stored. Out: a list of problems; empty
means it may be stored. Called by the store before anything is written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.control import validate_egress, validate_ingress, validate_settings
from penstock.control.kinds import (
    BROKER,
    BY_NAME,
    CHANNEL,
    CONFIG_MAP,
    INGRESS,
    SECRET,
    SERVICE,
    SINK,
    SOURCE,
    SUBSCRIPTION,
    TRIGGER,
    Resource,
    name_of,
    namespace_of,
)
from penstock.control.names import broker_topic, channel_topic, trigger_group
from penstock.control.validate_delivery import unknown_fields
from penstock.control.validate_kind import kind_problems
from penstock.control.validate_parts import LABEL, LONGEST_LABEL, name_problems, text_map_problems
from penstock.filter.check import Problem

# What Kubernetes' own metadata may hold; all but the first four is set by the store and ignored here.
_METADATA = (
    "name",
    "namespace",
    "labels",
    "annotations",
    "uid",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "generateName",
    "managedFields",
    "ownerReferences",
    "selfLink",
)
_WITHOUT_EFFECT = {
    "finalizers": "are not supported: the resource would be deleted without waiting for them",
    "ownerReferences": "are not supported: the resource would not be deleted with its owner",
}
LARGEST_ANNOTATIONS = 256 * 1024  # names and values together, as in Kubernetes
_SPEC = ("apiVersion", "kind", "metadata", "spec", "status")


@dataclass(frozen=True)
class Rules:
    """What is asked of one kind."""

    problems: Callable[[Mapping[str, Any], Any], list[Problem]]  # of the resource and its spec
    immutability: Callable[[Mapping[str, Any], Resource], list[Problem]] = lambda _new, _old: []
    fields: tuple[str, ...] = _SPEC


_RULES = {
    BROKER.name: Rules(validate_ingress.broker_problems, validate_ingress.broker_immutability),
    CHANNEL.name: Rules(validate_ingress.channel_problems, validate_ingress.channel_immutability),
    SINK.name: Rules(validate_ingress.sink_problems, validate_ingress.sink_immutability),
    TRIGGER.name: Rules(validate_egress.trigger_problems, validate_egress.trigger_immutability),
    SUBSCRIPTION.name: Rules(validate_egress.subscription_problems, validate_egress.subscription_immutability),
    SOURCE.name: Rules(validate_egress.source_problems, validate_egress.source_immutability),
    SERVICE.name: Rules(validate_settings.service_problems),
    CONFIG_MAP.name: Rules(
        validate_settings.config_map_problems,
        fields=("apiVersion", "kind", "metadata", "data", "binaryData", "immutable"),
    ),
    SECRET.name: Rules(
        validate_settings.secret_problems,
        fields=("apiVersion", "kind", "metadata", "data", "stringData", "type", "immutable"),
    ),
}
# What is named after namespace and name together: two different pairs may come to the same.
_NAMED = {
    BROKER.name: ("topic", broker_topic),
    CHANNEL.name: ("topic", channel_topic),
    TRIGGER.name: ("consumer group", trigger_group),
}
_ADDRESSED = {kind.name for kind in INGRESS}


def problems(resource: Any, old: Resource | None = None) -> list[Problem]:
    """Everything that is wrong with it, as it stands and as a change of ``old``."""
    found = kind_problems(resource)
    if found:
        return found  # without a kind there is nothing to compare the rest with
    rules, spec = _RULES[BY_NAME[resource["kind"]].name], resource.get("spec")
    found = _top_problems(resource, rules.fields) + _metadata_problems(resource.get("metadata"))
    found += rules.problems(resource, {} if spec is None else spec)
    if old is not None and not found:
        found += rules.immutability(resource, old)
    return found


def _top_problems(resource: Mapping[str, Any], known: tuple[str, ...]) -> list[Problem]:
    """Fields beside metadata and spec that belong into them: what became of a lost indentation."""
    has_spec = "spec" not in known or bool(resource.get("spec"))
    found, rest = [], {}
    for field, value in resource.items():
        if field in known:
            continue
        home = "metadata" if field in _METADATA[:4] else None if has_spec else "spec"
        if home:
            found.append(Problem(str(field), f"belongs into {home}: check the indentation"))
        else:
            rest[field] = value
    return found + unknown_fields(rest, known, "")


def collisions(resource: Mapping[str, Any], others: list[Resource]) -> list[Problem]:
    """Names that differ but come to the same topic or group, as ``a-b``/``c`` and ``a``/``b-c`` do; and kinds that
    differ but come to the same address, which is ``/namespace/name`` for all of them."""
    kind = resource["kind"]
    own = (str(resource["metadata"].get("namespace") or "default"), str(resource["metadata"]["name"]))
    for other in others:
        at = (namespace_of(other), name_of(other))
        if at == own and other["kind"] != kind and {kind, other["kind"]} <= _ADDRESSED:
            taken = f"{other['kind']} {'/'.join(at)} already has the address /{'/'.join(own)}; choose another name"
            return [Problem("metadata.name", taken)]
        if kind in _NAMED and other["kind"] == kind and at != own:
            what, named = _NAMED[kind]
            if named(*at) == named(*own):
                taken = f"{'/'.join(at)} already has the {what} {named(*own)}; choose another"
                return [Problem("metadata.name", taken)]
    return []


def _metadata_problems(metadata: Any) -> list[Problem]:
    if not isinstance(metadata, Mapping):
        return [Problem("metadata", "must be an object with a name")]
    found = unknown_fields(metadata, _METADATA, "metadata")
    found += name_problems(metadata.get("name"), "metadata.name")
    if metadata.get("namespace") is not None:
        found += name_problems(metadata["namespace"], "metadata.namespace", LABEL, LONGEST_LABEL)
    for field in ("labels", "annotations"):
        found += text_map_problems(metadata.get(field), f"metadata.{field}")
    for field in ("resourceVersion", "uid"):
        if not isinstance(metadata.get(field) or "", str):
            found.append(Problem(f"metadata.{field}", "must be text"))
    return found + _annotations_size_problems(metadata.get("annotations")) + _unsupported_problems(metadata)


def _annotations_size_problems(annotations: Any) -> list[Problem]:
    if not isinstance(annotations, Mapping):
        return []
    size = sum(len(str(text).encode(errors="replace")) for pair in annotations.items() for text in pair)
    if size <= LARGEST_ANNOTATIONS:
        return []
    return [Problem("metadata.annotations", f"have {size:,} bytes together; at most {LARGEST_ANNOTATIONS:,}")]


def _unsupported_problems(metadata: Mapping[str, Any]) -> list[Problem]:
    """Fields that a user may rely on, but that have no effect here."""
    found = [
        Problem(f"metadata.{field}", f"{effect}; leave the field out")
        for field, effect in _WITHOUT_EFFECT.items()
        if metadata.get(field)
    ]
    if metadata.get("generateName") and metadata.get("name") is None:
        found.append(Problem("metadata.generateName", "is not supported: give the resource a name in metadata.name"))
    return found
