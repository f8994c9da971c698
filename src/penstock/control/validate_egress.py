"""Is a resource that has events delivered well formed: Trigger, Subscription, KafkaSource. For ``validate.py``."""

import re
from collections.abc import Mapping
from typing import Any

from penstock.control import names
from penstock.control.kinds import CHANNEL, Resource
from penstock.control.validate_delivery import (
    annotation_problems,
    delivery_problems,
    destination_problems,
    is_map,
    start_problems,
    time_problems,
    unknown_fields,
)
from penstock.control.validate_ingress import immutable_fields
from penstock.control.validate_kind import shown
from penstock.control.validate_parts import (
    annotations,
    choice_problems,
    labels,
    name_problems,
    number_problems,
    one_of_problems,
    servers_problems,
    text_map_problems,
    topic_problems,
)
from penstock.event.model import CORE
from penstock.filter.check import Problem, attributes_problems
from penstock.filter.check import problems as filter_problems

MOST_CONSUMERS = 10_000
_ATTRIBUTE = re.compile(r"[a-z0-9]{1,64}\Z")
_GROUP = re.compile(r"[^\s/]{1,249}\Z")
_TRIGGER = ("broker", "filter", "filters", "subscriber", "delivery")
_SOURCE = (
    "consumers",
    "bootstrapServers",
    "topics",
    "consumerGroup",
    "initialOffset",
    "delivery",
    "ordering",
    "net",
    "sink",
    "ceOverrides",
    "resources",  # of former versions, and still in Knative's example: it means nothing any more
)


def trigger_problems(resource: Mapping[str, Any], spec: Any) -> list[Problem]:
    found = choice_problems(resource, names.DELIVERY_ORDER, names.ORDERS)
    found += choice_problems(resource, names.GEAR, names.GEARS)
    found += start_problems(annotations(resource)) + annotation_problems(annotations(resource))
    if not is_map(spec):
        return [*found, Problem("spec", "must be an object with broker and subscriber")]
    found += unknown_fields(spec, _TRIGGER, "spec")
    found += name_problems(spec.get("broker"), "spec.broker")
    if spec.get("filters") is not None:
        found += filter_problems(spec["filters"], "spec.filters")
    found += _old_filter_problems(spec.get("filter"))
    if spec.get("subscriber") is None:
        found.append(Problem("spec.subscriber", "is missing: give it a uri or a ref"))
    else:
        found += destination_problems(spec["subscriber"], "spec.subscriber")
    return found + delivery_problems(spec.get("delivery"), "spec.delivery")


def _old_filter_problems(body: Any) -> list[Problem]:
    if body is None:
        return []
    if not is_map(body):
        return [Problem("spec.filter", "must be an object with attributes")]
    misplaced = [field for field in _TRIGGER if field in body]
    found = [Problem(f"spec.filter.{field}", "belongs into spec: check the indentation") for field in misplaced]
    found += unknown_fields({k: v for k, v in body.items() if k not in misplaced}, ("attributes",), "spec.filter")
    if body.get("attributes") is not None:
        found += attributes_problems(body["attributes"], "spec.filter.attributes")
    return found


def subscription_problems(resource: Mapping[str, Any], spec: Any) -> list[Problem]:
    found = choice_problems(resource, names.DELIVERY_ORDER, names.ORDERS)
    found += choice_problems(resource, names.GEAR, names.GEARS)
    found += start_problems(annotations(resource)) + annotation_problems(annotations(resource))
    if not is_map(spec):
        return [*found, Problem("spec", "must be an object with channel and subscriber")]
    found += unknown_fields(spec, ("channel", "subscriber", "reply", "delivery", "name"), "spec")
    found += _channel_problems(spec.get("channel"))
    if spec.get("subscriber") is None and spec.get("reply") is None:
        found.append(Problem("spec.subscriber", "is missing: give it a uri or a ref; or at least a reply"))
    for field in ("subscriber", "reply"):
        if spec.get(field) is not None:
            found += destination_problems(spec[field], f"spec.{field}")
    return found + delivery_problems(spec.get("delivery"), "spec.delivery")


def _channel_problems(channel: Any) -> list[Problem]:
    if not is_map(channel):
        missing = "is missing: it " if channel is None else ""
        return [Problem("spec.channel", f"{missing}must be an object with apiVersion, kind and name")]
    known = ("apiVersion", "kind", "name", "namespace", "group", "address")
    found = unknown_fields(channel, known, "spec.channel")
    if channel.get("kind") != CHANNEL.name:
        found.append(Problem("spec.channel.kind", f"must be {CHANNEL.name}, not {shown(channel.get('kind'))}"))
    elif channel.get("apiVersion") not in CHANNEL.api_versions and channel.get("group") is None:
        expected = " or ".join(CHANNEL.api_versions)
        found.append(
            Problem("spec.channel.apiVersion", f"must be {expected}, not {shown(channel.get('apiVersion'))}")
        )
    return found + name_problems(channel.get("name"), "spec.channel.name")


def source_problems(resource: Mapping[str, Any], spec: Any) -> list[Problem]:
    found = choice_problems(resource, names.GEAR, names.GEARS) + annotation_problems(annotations(resource))
    key_type = labels(resource).get(names.KEY_TYPE_LABEL)
    found += one_of_problems(key_type, f"metadata.labels[{names.KEY_TYPE_LABEL}]", names.KEY_TYPES)
    if names.START in annotations(resource):
        where = f"metadata.annotations[{names.START}]"
        found.append(Problem(where, "a source says where it begins with spec.initialOffset"))
    if not is_map(spec):
        return [*found, Problem("spec", "must be an object with topics and sink")]
    found += unknown_fields(spec, _SOURCE, "spec")
    found += number_problems(spec.get("consumers"), "spec.consumers", MOST_CONSUMERS, least=0)
    found += servers_problems(spec.get("bootstrapServers"), "spec.bootstrapServers")
    found += _topics_problems(spec.get("topics"))
    group = spec.get("consumerGroup")
    if group is not None and (not isinstance(group, str) or not _GROUP.match(group)):
        found.append(Problem("spec.consumerGroup", f'"{group}" is no name of a consumer group'))
    offset = spec.get("initialOffset")
    if offset is not None and offset not in names.STARTS:
        found += time_problems(offset, "spec.initialOffset", f"{', '.join(names.STARTS)} or ")
    found += one_of_problems(spec.get("ordering"), "spec.ordering", names.ORDERS)
    if spec.get("sink") is None:
        found.append(Problem("spec.sink", "is missing: give it a uri or a ref"))
    else:
        found += destination_problems(spec["sink"], "spec.sink")
    found += _override_problems(spec.get("ceOverrides")) + _net_problems(spec.get("net"))
    return found + delivery_problems(spec.get("delivery"), "spec.delivery")


def _topics_problems(topics: Any) -> list[Problem]:
    if not isinstance(topics, list) or not topics:
        return [Problem("spec.topics", "must be a list of topics")]
    found = [p for place, each in enumerate(topics) for p in topic_problems(each, f"spec.topics[{place}]")]
    if not found and len(set(topics)) != len(topics):
        found.append(Problem("spec.topics", "a topic stands here twice"))
    return found


def _override_problems(overrides: Any) -> list[Problem]:
    if overrides is None:
        return []
    if not is_map(overrides):
        return [Problem("spec.ceOverrides", "must be an object with extensions")]
    found = unknown_fields(overrides, ("extensions",), "spec.ceOverrides")
    where, extensions = "spec.ceOverrides.extensions", overrides.get("extensions")
    found += text_map_problems(extensions, where)
    for name in extensions if is_map(extensions) else ():
        if not isinstance(name, str) or not _ATTRIBUTE.match(name):
            found.append(Problem(f"{where}[{name}]", "is no name of an attribute: lower-case letters and digits"))
        elif name in CORE or name == "data":
            found.append(Problem(f"{where}[{name}]", "is an attribute of the event itself, which is never altered"))
    return found


def _net_problems(net: Any) -> list[Problem]:
    """``net.sasl`` and ``net.tls``: switches, and references to keys of Secrets."""
    if net is None:
        return []
    if not is_map(net):
        return [Problem("spec.net", "must be an object with sasl and tls")]
    found = unknown_fields(net, ("sasl", "tls"), "spec.net")
    parts = {"sasl": ("enable", "user", "password", "type"), "tls": ("enable", "cert", "key", "caCert")}
    for part, known in parts.items():
        body = net.get(part)
        if body is None:
            continue
        if not is_map(body):
            found.append(Problem(f"spec.net.{part}", "must be an object"))
            continue
        found += unknown_fields(body, known, f"spec.net.{part}")
        if body.get("enable") not in (None, True, False):
            found.append(Problem(f"spec.net.{part}.enable", "must be true or false"))
        for field in known[1:]:
            found += _key_reference_problems(body.get(field), f"spec.net.{part}.{field}")
    return found


def _key_reference_problems(body: Any, where: str) -> list[Problem]:
    if body is None or body == {}:
        return []
    reference = body.get("secretKeyRef") if is_map(body) else None
    if not isinstance(reference, Mapping):
        return [Problem(where, "must be an object: secretKeyRef: {name: NAME, key: KEY}")]
    found = unknown_fields(body, ("secretKeyRef",), where)
    found += unknown_fields(reference, ("name", "key", "optional"), f"{where}.secretKeyRef")
    found += name_problems(reference.get("name"), f"{where}.secretKeyRef.name")
    if not isinstance(reference.get("key"), str) or not reference["key"]:
        found.append(Problem(f"{where}.secretKeyRef.key", "is missing"))
    return found


def trigger_immutability(resource: Mapping[str, Any], old: Resource) -> list[Problem]:
    now, before = resource["spec"].get("broker"), old["spec"].get("broker")
    if now == before:
        return []
    advice = "delete the trigger and apply it again to move it"
    return [Problem("spec.broker", f'is immutable: it is "{before}", cannot become "{now}"; {advice}')]


def subscription_immutability(resource: Mapping[str, Any], old: Resource) -> list[Problem]:
    now, before = (each["spec"]["channel"].get("name") for each in (resource, old))
    if now == before:
        return []
    advice = "delete the subscription and apply it again to move it"
    return [Problem("spec.channel", f'is immutable: it is "{before}", cannot become "{now}"; {advice}')]


def source_immutability(resource: Mapping[str, Any], old: Resource) -> list[Problem]:
    return immutable_fields(resource, old, ("consumerGroup",), "source")
