"""Is a resource with an address well formed: Broker, KafkaChannel, KafkaSink. Called by ``validate.py``."""

from collections.abc import Mapping
from typing import Any

from penstock.control import names
from penstock.control.durations import seconds_of
from penstock.control.kinds import CONFIG_MAP, Resource
from penstock.control.validate_delivery import client_problems, delivery_problems, is_map, unknown_fields
from penstock.control.validate_kind import shown
from penstock.control.validate_parts import (
    LABEL,
    LONGEST_LABEL,
    MOST_COPIES,
    MOST_PARTITIONS,
    annotations,
    choice_problems,
    name_problems,
    number_problems,
    one_of_problems,
    own_topic_problems,
    servers_problems,
    topic_problems,
)
from penstock.filter.check import Problem


def broker_problems(resource: Mapping[str, Any], spec: Any) -> list[Problem]:
    found = _class_problems(resource) + choice_problems(resource, names.GEAR, names.GEARS)
    found += client_problems(annotations(resource), names.PRODUCER)
    topic = annotations(resource).get(names.EXTERNAL_TOPIC)
    if isinstance(topic, str):
        found += topic_problems(topic, f"metadata.annotations[{names.EXTERNAL_TOPIC}]")
    found += own_topic_problems(resource, names.broker_topic)
    if not is_map(spec):
        return [*found, Problem("spec", "must be an object")]
    found += unknown_fields(spec, ("config", "delivery"), "spec")
    if spec.get("config") is not None:
        found += _config_reference_problems(spec["config"])
    return found + delivery_problems(spec.get("delivery"), "spec.delivery")


def _class_problems(resource: Mapping[str, Any]) -> list[Problem]:
    """Brokers of other classes are for somebody else's controller; here there is none."""
    asked = annotations(resource).get(names.BROKER_CLASS)
    if asked is None or asked in names.BROKER_CLASSES:
        return []
    advice = f"write {names.BROKER_CLASSES[0]}, or leave the annotation out"
    return [Problem(f"metadata.annotations[{names.BROKER_CLASS}]", f'"{asked}" is not served here; {advice}')]


def _config_reference_problems(config: Any) -> list[Problem]:
    if not is_map(config):
        return [Problem("spec.config", "must be an object that names a ConfigMap")]
    found = unknown_fields(config, ("apiVersion", "kind", "name", "namespace", "group", "address"), "spec.config")
    if config.get("kind") != CONFIG_MAP.name:
        found.append(Problem("spec.config.kind", f"must be ConfigMap, not {shown(config.get('kind'))}"))
    if config.get("apiVersion") not in (None, "v1"):
        found.append(Problem("spec.config.apiVersion", f"must be v1, not {shown(config['apiVersion'])}"))
    found += name_problems(config.get("name"), "spec.config.name")
    if config.get("namespace") is not None:
        found += name_problems(config["namespace"], "spec.config.namespace", LABEL, LONGEST_LABEL)
    return found


def channel_problems(resource: Mapping[str, Any], spec: Any) -> list[Problem]:
    found = choice_problems(resource, names.GEAR, names.GEARS)
    found += client_problems(annotations(resource), names.PRODUCER)
    found += own_topic_problems(resource, names.channel_topic)
    if not is_map(spec):
        return [*found, Problem("spec", "must be an object")]
    known = ("numPartitions", "replicationFactor", "retentionDuration", "delivery", "subscribers")
    found += unknown_fields(spec, known, "spec")
    found += number_problems(spec.get("numPartitions"), "spec.numPartitions", MOST_PARTITIONS)
    found += number_problems(spec.get("replicationFactor"), "spec.replicationFactor", MOST_COPIES)
    found += _retention_problems(spec.get("retentionDuration"))
    return found + delivery_problems(spec.get("delivery"), "spec.delivery")


def _retention_problems(text: Any) -> list[Problem]:
    if text is None:
        return []
    try:
        seconds = seconds_of(text) if isinstance(text, str) else 0.0
    except ValueError:
        seconds = 0.0
    if seconds < 1.0:
        what = f'"{text}" is not an ISO 8601 duration of at least a second, such as PT168H or P7D'
        return [Problem("spec.retentionDuration", what)]
    return []


def sink_problems(resource: Mapping[str, Any], spec: Any) -> list[Problem]:
    if not is_map(spec):
        return [Problem("spec", "must be an object with a topic")]
    known = ("topic", "numPartitions", "replicationFactor", "bootstrapServers", "contentMode", "auth")
    found = unknown_fields(spec, known, "spec") + client_problems(annotations(resource), names.PRODUCER)
    found += topic_problems(spec.get("topic"), "spec.topic")
    found += number_problems(spec.get("numPartitions"), "spec.numPartitions", MOST_PARTITIONS)
    found += number_problems(spec.get("replicationFactor"), "spec.replicationFactor", MOST_COPIES)
    found += servers_problems(spec.get("bootstrapServers"), "spec.bootstrapServers")
    found += one_of_problems(spec.get("contentMode"), "spec.contentMode", names.CONTENT_MODES)
    return found + _auth_problems(spec.get("auth"))


def _auth_problems(auth: Any) -> list[Problem]:
    """``auth.secret.ref.name``."""
    if auth is None:
        return []
    where, body = "spec.auth", auth
    for field in ("secret", "ref"):
        if not is_map(body):
            return [Problem(where, "must be an object: secret: {ref: {name: NAME}}")]
        found = unknown_fields(body, (field,), where)
        if found:
            return found
        where, body = f"{where}.{field}", body.get(field)
    if not is_map(body):
        return [Problem(where, "must be an object with the name of a Secret")]
    found = unknown_fields(body, ("name",), where)
    if not isinstance(body.get("name"), str) or not body["name"]:
        found.append(Problem(f"{where}.name", "is missing"))
    return found  # a name that no Secret can have is said where the Secret is looked for, as for a ConfigMap's


def broker_immutability(resource: Mapping[str, Any], old: Resource) -> list[Problem]:
    """The class is immutable too; that holds by itself, since the accepted names are those of one class."""
    found = []
    topic, topic_before = annotations(resource).get(names.EXTERNAL_TOPIC), annotations(old).get(names.EXTERNAL_TOPIC)
    if topic != topic_before:
        where = f"metadata.annotations[{names.EXTERNAL_TOPIC}]"
        found.append(Problem(where, f"is immutable: it is {shown(topic_before)}, cannot become {shown(topic)}"))
    config, config_before = (resource.get("spec") or {}).get("config"), (old.get("spec") or {}).get("config")
    if config != config_before:
        found.append(Problem("spec.config", "is immutable: change the ConfigMap itself, or delete the broker first"))
    return found


def channel_immutability(resource: Mapping[str, Any], old: Resource) -> list[Problem]:
    return immutable_fields(resource, old, ("numPartitions", "replicationFactor", "retentionDuration"), "channel")


def sink_immutability(resource: Mapping[str, Any], old: Resource) -> list[Problem]:
    fields = ("topic", "numPartitions", "replicationFactor", "bootstrapServers")
    return immutable_fields(resource, old, fields, "sink")


def immutable_fields(resource: Mapping[str, Any], old: Resource, fields: tuple[str, ...], what: str) -> list[Problem]:
    found = []
    for field in fields:
        now, before = (resource.get("spec") or {}).get(field), (old.get("spec") or {}).get(field)
        if now != before:
            advice = f"delete the {what} and apply it again to change it"
            what_is = f"is immutable: it is {shown(before)}, cannot become {shown(now)}; {advice}"
            found.append(Problem(f"spec.{field}", what_is))
    return found
