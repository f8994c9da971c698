"""What a resource with an address comes to: a topic, a route, and a status. Functions of values.

Each kind says in ``configure`` what it wants (``brokers.py``, ``channels.py``, ``sinks.py``); the rest is the same
for all of them, here. ``ingress_steps.py`` acts on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec

from penstock.contract.model import HOME, Agreement, Cluster, Route
from penstock.control import names
from penstock.control.addresses import Lookup, Resolved, resolve
from penstock.control.conditions import Condition, false, merged, true, unknown
from penstock.control.kinds import (
    SINK,
    Resource,
    condition,
    generation_of,
    is_being_deleted,
    name_of,
    namespace_of,
    noted,
    spec_of,
    status_of,
    uid_of,
)
from penstock.control.secrets import Secrets
from penstock.control.settings import ControllerSettings
from penstock.kafka.topics import TopicSpec, TopicState

SECRET_REFUSED = "SecretRefused"
IN_ORDER = ("ConfigParsed", "TopicReady", "ConfigMapUpdated", "Addressable", "DataPlaneAvailable", "ProbeSucceeded")


@dataclass(frozen=True)
class Configured:
    """What a resource wants, with all that others say about it taken into account."""

    topic: TopicSpec
    parsed: Condition
    may_create: bool = True  # else the topic must be there, and is never deleted
    cluster: Cluster = HOME
    content_mode: Literal["binary", "structured"] = "binary"
    hosts: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)  # of the producer
    remembered: Mapping[str, str] = field(default_factory=dict)  # of a ConfigMap that may go away


@dataclass(frozen=True)
class Surroundings:
    """What ``configure`` may look at."""

    lookup: Lookup
    everything: Callable[[str], list[Resource]]  # of a kind
    settings: ControllerSettings
    secrets: Secrets


Configure = Callable[[Resource, Surroundings], Configured]  # raises Misconfigured


@dataclass(frozen=True)
class Topic:
    """As reconciling has found it."""

    name: str
    topic_id: str
    partitions: int
    cluster: Cluster = HOME


@dataclass(frozen=True)
class Findings:
    """What reconciling found out, aspect by aspect."""

    conditions: tuple[Condition, ...]
    config: Configured | None = None
    topic: TopicState | None = None
    is_topic_known: bool = True  # else nobody could be asked, and what was noted of it stays
    is_owned: bool = False
    address: str | None = None
    dead_letter_uri: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)  # of the status, for one kind only


def path_of(resource: Resource) -> str:
    return f"/{namespace_of(resource)}/{name_of(resource)}"


def agreement(resource: Resource, config: Configured) -> Agreement:
    """What the receiver needs to know of it."""
    route = Route(
        path=path_of(resource),
        topic=config.topic.name,
        content_mode=config.content_mode,
        hosts=config.hosts,
        cluster=config.cluster,
        settings=dict(config.settings),
        is_foreign=resource["kind"] == SINK.name,
    )
    return Agreement(uid=uid_of(resource), generation=generation_of(resource), routes=(route,))


def dead_letter_sink(resource: Resource, lookup: Lookup) -> Resolved | None:
    """Where it is; None when none is asked for."""
    sink = (spec_of(resource).get("delivery") or {}).get("deadLetterSink")
    return resolve(sink, namespace_of(resource), lookup) if sink else None


def dead_letter_resolved(sink: Resolved | None) -> tuple[Condition, ...]:
    """A condition of those who ask for one: without it, what fails would be lost."""
    if sink is None:
        return ()
    if sink.url:
        return (true("DeadLetterSinkResolved"),)
    return (false("DeadLetterSinkResolved", sink.reason, sink.message),)


def topic_fits(config: Configured, topic: TopicState | None) -> Condition:
    """TopicReady. An existing topic is not altered; where it differs from what is wanted, the message says so."""
    if topic is None:
        reason = "TopicMissing" if config.may_create else "ExternalTopicMissing"
        return false("TopicReady", reason, f"topic {config.topic.name} does not exist")
    if config.may_create and topic.partitions != config.topic.partitions:
        differs = (
            f"topic {topic.name} has {topic.partitions} partitions, not {config.topic.partitions}; it is left so"
        )
        return true("TopicReady", "TopicDiffers", differs)
    return true("TopicReady", message=f"topic {topic.name}, {topic.partitions} partitions")


def unknown_from(index: int) -> tuple[Condition, ...]:
    """The aspects that cannot be known while an earlier one is not true."""
    waits_for = IN_ORDER[index - 1]
    return tuple(unknown(each, "Waiting", f"waits for {waits_for}") for each in IN_ORDER[index:])


def as_before(resource: Resource, parsed: Condition) -> Findings:
    """What has its topic goes on with it, whatever became of its configuration."""
    if names.NOTED_TOPIC_ID not in noted(resource):
        return Findings((parsed, *unknown_from(1)))
    before = [condition(resource, each) for each in IN_ORDER[1:]]
    kept = (Condition(c["type"], c["status"], c.get("reason", ""), c.get("message", "")) for c in before)
    status = status_of(resource)
    return Findings(
        conditions=(parsed, *kept),
        address=(status.get("address") or {}).get("url"),
        dead_letter_uri=status.get("deadLetterSinkUri"),
    )


def topic_of(resource: Resource | None) -> Topic | None:
    """Its topic as reconciling noted it; None while there is none, or while its Secret may not be sent there."""
    if resource is None or is_being_deleted(resource) or is_refused(resource):
        return None
    notes = noted(resource)
    if names.NOTED_TOPIC_ID not in notes:
        return None
    partitions = int(notes[names.NOTED_PARTITIONS])
    return Topic(notes[names.NOTED_TOPIC], notes[names.NOTED_TOPIC_ID], partitions, noted_cluster(resource))


def is_refused(resource: Resource | None) -> bool:
    """Whether its Secret is not for the cluster of its topic. Nothing is read from there and nothing written."""
    return resource is not None and condition(resource, "ConfigParsed").get("reason") == SECRET_REFUSED


def noted_cluster(resource: Resource) -> Cluster:
    return msgspec.json.decode(noted(resource).get(names.NOTED_CLUSTER, "{}"), type=Cluster)


def status(resource: Resource, findings: Findings, now: datetime) -> dict[str, Any]:
    before = status_of(resource)
    notes = dict(noted(resource))
    if findings.config is not None:
        notes = {**findings.config.remembered, names.NOTED_TOPIC: findings.config.topic.name}
        if not findings.config.cluster.is_home:
            notes[names.NOTED_CLUSTER] = msgspec.json.encode(findings.config.cluster).decode()
    if not findings.is_topic_known:
        kept = (names.NOTED_TOPIC_ID, names.NOTED_PARTITIONS)
        notes |= {name: text for name, text in noted(resource).items() if name in kept}
    if findings.topic is not None:
        notes[names.NOTED_TOPIC_ID] = findings.topic.topic_id
        notes[names.NOTED_PARTITIONS] = str(findings.topic.partitions)
    if findings.is_owned or noted(resource).get(names.NOTED_OWNED):
        notes[names.NOTED_OWNED] = "true"
    shaped: dict[str, Any] = {
        "observedGeneration": generation_of(resource),
        "conditions": merged(before.get("conditions") or [], findings.conditions, now),
        "annotations": notes,
        **findings.extra,
    }
    if findings.address:
        shaped["address"] = {"name": "http", "url": findings.address}
    if findings.dead_letter_uri:
        shaped["deadLetterSinkUri"] = findings.dead_letter_uri
    return shaped
