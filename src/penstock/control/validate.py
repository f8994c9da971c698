"""Is a resource well formed? Every problem at once, each with the path of its field.

In: the object as somebody applied it and, for a change, the one that is stored. Out: a list of problems; empty
means it may be stored. Called by the store before anything is written.
"""

import re
from collections.abc import Mapping
from typing import Any

from penstock.control import validate_delivery
from penstock.control.kinds import BROKER, BY_NAME, CONFIG_MAP, TRIGGER, Resource, name_of, namespace_of
from penstock.control.names import (
    BROKER_CLASS,
    BROKER_CLASSES,
    DELIVERY_ORDER,
    EXTERNAL_TOPIC,
    GEAR,
    GEARS,
    ORDERS,
    broker_topic,
    trigger_group,
)
from penstock.control.validate_delivery import is_map, unknown_fields
from penstock.control.validate_kind import kind_problems, shown
from penstock.filter.check import Problem, attributes_problems
from penstock.filter.check import problems as filter_problems

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
LONGEST_LABEL = 63
LONGEST_NAME = 253
LONGEST_TOPIC = 249

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
_TOP = {
    BROKER.name: ("apiVersion", "kind", "metadata", "spec", "status"),
    TRIGGER.name: ("apiVersion", "kind", "metadata", "spec", "status"),
    CONFIG_MAP.name: ("apiVersion", "kind", "metadata", "data", "binaryData", "immutable"),
}


def problems(resource: Any, old: Resource | None = None) -> list[Problem]:
    """Everything that is wrong with it, as it stands and as a change of ``old``."""
    found = kind_problems(resource)
    if found:
        return found  # without a kind there is nothing to compare the rest with
    kind = BY_NAME[resource["kind"]]
    found = unknown_fields(resource, _TOP[kind.name], "") + _metadata_problems(resource.get("metadata"))
    spec = resource.get("spec")
    if kind is BROKER:
        found += _broker_problems(resource, {} if spec is None else spec)
    elif kind is TRIGGER:
        found += _trigger_problems(resource, {} if spec is None else spec)
    else:
        found += _config_map_problems(resource)
    if old is not None and not found:
        found += _immutability_problems(resource, old)
    return found


def collisions(resource: Mapping[str, Any], others: list[Resource]) -> list[Problem]:
    """Names that differ but come to the same topic or group, as ``a-b``/``c`` and ``a``/``b-c`` do."""
    name_of_kind = {BROKER.name: ("topic", broker_topic), TRIGGER.name: ("consumer group", trigger_group)}
    if resource["kind"] not in name_of_kind:
        return []
    what, named = name_of_kind[resource["kind"]]
    own = (str(resource["metadata"].get("namespace") or "default"), str(resource["metadata"]["name"]))
    for other in others:
        at = (namespace_of(other), name_of(other))
        if at != own and named(*at) == named(*own):
            return [Problem("metadata.name", f"{'/'.join(at)} already has the {what} {named(*own)}; choose another")]
    return []


def _metadata_problems(metadata: Any) -> list[Problem]:
    if not isinstance(metadata, Mapping):
        return [Problem("metadata", "must be an object with a name")]
    found = unknown_fields(metadata, _METADATA, "metadata")
    found += _name_problems(metadata.get("name"), "metadata.name", _SUBDOMAIN, LONGEST_NAME)
    if metadata.get("namespace") is not None:
        found += _name_problems(metadata["namespace"], "metadata.namespace", _LABEL, LONGEST_LABEL)
    for field in ("labels", "annotations"):
        found += _text_map_problems(metadata.get(field), f"metadata.{field}")
    return found


def _name_problems(name: Any, where: str, form: re.Pattern[str], longest: int) -> list[Problem]:
    if name is None:
        return [Problem(where, "is missing")]
    if not isinstance(name, str):
        return [Problem(where, f'must be text; write "{name}" in quotes')]
    if not form.match(name) or len(name) > longest:
        rule = "lower-case letters, digits and '-', beginning and ending with a letter or digit"
        return [Problem(where, f'"{name}" is not a DNS-1123 name ({rule}; at most {longest} characters)')]
    return []


def _text_map_problems(values: Any, where: str) -> list[Problem]:
    if values is None:
        return []
    if not isinstance(values, Mapping):
        return [Problem(where, "must be a map of text to text")]
    return [
        Problem(f"{where}[{name}]", f'the value must be text; write "{value}" in quotes')
        for name, value in values.items()
        if not isinstance(value, str)
    ]


def _annotations(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = resource.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return annotations if isinstance(annotations, Mapping) else {}


def _choice_problems(resource: Mapping[str, Any], annotation: str, accepted: tuple[str, ...]) -> list[Problem]:
    value = _annotations(resource).get(annotation)
    if value is None or not isinstance(value, str) or value in accepted:
        return []
    return [Problem(f"metadata.annotations[{annotation}]", f'"{value}" is not one of {", ".join(accepted)}')]


def _broker_problems(resource: Mapping[str, Any], spec: Any) -> list[Problem]:
    found = _choice_problems(resource, BROKER_CLASS, BROKER_CLASSES) + _choice_problems(resource, GEAR, GEARS)
    topic = _annotations(resource).get(EXTERNAL_TOPIC)
    if isinstance(topic, str) and (not _TOPIC.match(topic) or topic in (".", "..")):
        found.append(Problem(f"metadata.annotations[{EXTERNAL_TOPIC}]", f'"{topic}" is not a name Kafka allows'))
    elif isinstance(topic, str) and topic.startswith(("penstock-", "__")):
        found.append(Problem(f"metadata.annotations[{EXTERNAL_TOPIC}]", f'"{topic}" is kept for internal use'))
    metadata = resource.get("metadata")
    if isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str):
        own = broker_topic(str(metadata.get("namespace") or "default"), metadata["name"])
        if len(own) > LONGEST_TOPIC:
            found.append(Problem("metadata.name", f"the topic {own} would be longer than {LONGEST_TOPIC} characters"))
    if not is_map(spec):
        return [*found, Problem("spec", "must be an object")]
    found += unknown_fields(spec, ("config", "delivery"), "spec")
    if spec.get("config") is not None:
        found += _config_reference_problems(spec["config"])
    return found + validate_delivery.delivery_problems(spec.get("delivery"), "spec.delivery")


def _config_reference_problems(config: Any) -> list[Problem]:
    if not is_map(config):
        return [Problem("spec.config", "must be an object that names a ConfigMap")]
    found = unknown_fields(config, ("apiVersion", "kind", "name", "namespace", "group", "address"), "spec.config")
    if config.get("kind") != CONFIG_MAP.name:
        found.append(Problem("spec.config.kind", f"must be ConfigMap, not {shown(config.get('kind'))}"))
    if config.get("apiVersion") not in (None, "v1"):
        found.append(Problem("spec.config.apiVersion", f"must be v1, not {shown(config['apiVersion'])}"))
    found += _name_problems(config.get("name"), "spec.config.name", _SUBDOMAIN, LONGEST_NAME)
    if config.get("namespace") is not None:
        found += _name_problems(config["namespace"], "spec.config.namespace", _LABEL, LONGEST_LABEL)
    return found


def _trigger_problems(resource: Mapping[str, Any], spec: Any) -> list[Problem]:
    found = _choice_problems(resource, DELIVERY_ORDER, ORDERS) + _choice_problems(resource, GEAR, GEARS)
    found += validate_delivery.start_problems(_annotations(resource))
    found += validate_delivery.annotation_problems(_annotations(resource))
    if not is_map(spec):
        return [*found, Problem("spec", "must be an object with broker and subscriber")]
    found += unknown_fields(spec, ("broker", "filter", "filters", "subscriber", "delivery"), "spec")
    found += _name_problems(spec.get("broker"), "spec.broker", _SUBDOMAIN, LONGEST_NAME)
    if spec.get("filters") is not None:
        found += filter_problems(spec["filters"], "spec.filters")
    found += _old_filter_problems(spec.get("filter"))
    if spec.get("subscriber") is None:
        found.append(Problem("spec.subscriber", "is missing: give it a uri or a ref"))
    else:
        found += validate_delivery.destination_problems(spec["subscriber"], "spec.subscriber")
    return found + validate_delivery.delivery_problems(spec.get("delivery"), "spec.delivery")


def _old_filter_problems(body: Any) -> list[Problem]:
    if body is None:
        return []
    if not is_map(body):
        return [Problem("spec.filter", "must be an object with attributes")]
    found = unknown_fields(body, ("attributes",), "spec.filter")
    if body.get("attributes") is not None:
        found += attributes_problems(body["attributes"], "spec.filter.attributes")
    return found


def _config_map_problems(resource: Mapping[str, Any]) -> list[Problem]:
    return _text_map_problems(resource.get("data"), "data")


def _immutability_problems(resource: Mapping[str, Any], old: Resource) -> list[Problem]:
    if resource["kind"] == BROKER.name:
        return _broker_immutability_problems(resource, old)
    if resource["kind"] == TRIGGER.name:
        now, before = resource["spec"].get("broker"), old["spec"].get("broker")
        if now != before:
            advice = "delete the trigger and apply it again to move it"
            return [Problem("spec.broker", f'is immutable: it is "{before}", cannot become "{now}"; {advice}')]
    return []


def _broker_immutability_problems(resource: Mapping[str, Any], old: Resource) -> list[Problem]:
    """The class is immutable too; that holds by itself, since the accepted names are those of one class."""
    found = []
    topic, topic_before = _annotations(resource).get(EXTERNAL_TOPIC), _annotations(old).get(EXTERNAL_TOPIC)
    if topic != topic_before:
        where = f"metadata.annotations[{EXTERNAL_TOPIC}]"
        found.append(Problem(where, f"is immutable: it is {shown(topic_before)}, cannot become {shown(topic)}"))
    config, config_before = (resource.get("spec") or {}).get("config"), (old.get("spec") or {}).get("config")
    if config != config_before:
        found.append(Problem("spec.config", "is immutable: change the ConfigMap itself, or delete the broker first"))
    return found
