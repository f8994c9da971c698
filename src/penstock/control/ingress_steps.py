"""Makes a resource with an address true: its topic, its route in the contract, its status; and takes it apart again.

Called by the loop in ``reconcile.py``. Each step may be the last one before a kill: all are safe to repeat.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from penstock.control import brokers, channels, clusters, credentials, ingress, names, sinks
from penstock.control.conditions import Condition, false, true, unknown
from penstock.control.ingress import Configure, Configured, Findings, Surroundings
from penstock.control.kinds import (
    BROKER,
    CHANNEL,
    SINK,
    SUBSCRIPTION,
    TRIGGER,
    Resource,
    key_of,
    name_of,
    namespace_of,
    noted,
    spec_of,
    uid_of,
)
from penstock.control.world import World
from penstock.errors import Misconfigured, Unavailable
from penstock.kafka import topics

# How long a deletion waits for the dispatcher to let go of what is deleted.
LETTING_GO = timedelta(seconds=10)

CONFIGURE: dict[str, Configure] = {
    BROKER.name: brokers.configure,
    CHANNEL.name: channels.configure,
    SINK.name: sinks.configure,
}
EXTRA_STATUS: dict[str, Callable[[Resource, Surroundings], dict[str, Any]]] = {CHANNEL.name: channels.extra_status}


def reconcile(world: World, resource: Resource) -> bool:
    """Whether it is settled; if not, it is worth looking again soon."""
    findings = _find(world, resource)
    world.store.write_status(resource, ingress.status(resource, findings, world.clock()))
    return all(each.status == "True" for each in findings.conditions)


def _find(world: World, resource: Resource) -> Findings:
    kind, around = resource["kind"], world.surroundings
    try:
        config = CONFIGURE[kind](resource, around)
    except credentials.Refused as error:  # events that were accepted before must not go there either
        world.contract.remove(key_of(resource))
        refused = false("ConfigParsed", ingress.SECRET_REFUSED, f"{error.message}; {error.hint}")
        return Findings((refused, *ingress.unknown_from(1)), is_topic_known=False)
    except Misconfigured as error:
        return ingress.as_before(resource, false("ConfigParsed", "ConfigInvalid", error.message))
    try:
        topic, is_new = _ensure_topic(world, config, known=names.NOTED_TOPIC_ID in noted(resource))
    except Misconfigured as error:
        return _without_topic(config, false("TopicReady", "TopicRefused", error.message), is_known=False)
    except Unavailable as error:
        if config.cluster.is_home:
            raise  # nothing can be written down either
        why = clusters.complaint(config.cluster, error.message, world.settings)
        return _without_topic(config, false("TopicReady", "KafkaUnavailable", why), is_known=False)
    fits = ingress.topic_fits(config, topic)
    if topic is None:
        world.contract.remove(key_of(resource))
        return _without_topic(config, fits)
    world.contract.set(key_of(resource), ingress.agreement(resource, config))
    sink = ingress.dead_letter_sink(resource, world.store.get)
    return Findings(
        conditions=(
            config.parsed, fits, true("ConfigMapUpdated"), true("Addressable"), *_data_plane(world, resource),
            *ingress.dead_letter_resolved(sink),
        ),
        config=config,
        topic=topic,
        is_owned=is_new,
        address=world.settings.ingress_url + ingress.path_of(resource),
        dead_letter_uri=sink.url if sink else None,
        extra=EXTRA_STATUS[kind](resource, around) if kind in EXTRA_STATUS else {},
    )  # fmt: skip


def _without_topic(config: Configured, why: Condition, *, is_known: bool = True) -> Findings:
    """``is_known``: that it is missing; else what was known of it before still counts."""
    return Findings((config.parsed, why, *ingress.unknown_from(2)), config, is_topic_known=is_known)


def _ensure_topic(world: World, config: Configured, known: bool) -> tuple[topics.TopicState | None, bool]:
    """The topic, and whether it was made now."""
    name = config.topic.name
    # A client that was told once that a topic is missing may go on believing it for seconds after the topic was
    # made. So a topic that may be missing is asked for, and made, with a client that is used for nothing else.
    admin = world.admin_of(config.cluster) if known else world.new_admin_of(config.cluster)
    found = topics.describe(admin, [name]).get(name)
    if found is not None or not config.may_create:
        return found, False
    maker = world.new_admin_of(config.cluster)
    created = topics.create_missing(maker, [config.topic])
    return topics.describe(maker, [name]).get(name), name in created


def _data_plane(world: World, resource: Resource) -> tuple[Condition, Condition]:
    ready = world.receiver.ready()
    if not ready.ok:
        available = false("DataPlaneAvailable", ready.reason, ready.message)
        return available, unknown("ProbeSucceeded", "Waiting", "waits for DataPlaneAvailable")
    probe = world.receiver.knows(ingress.path_of(resource))
    if probe.ok:
        return true("DataPlaneAvailable"), true("ProbeSucceeded")
    return true("DataPlaneAvailable"), false("ProbeSucceeded", probe.reason, probe.message)


def take_apart(world: World, resource: Resource) -> bool:
    """Contract first, so that nobody is sent to a topic that is gone; the resource's own record last."""
    readers = readers_of(world, resource)
    for each in readers:
        world.contract.remove(key_of(each))
    world.contract.remove(key_of(resource))
    topic = noted(resource).get(names.NOTED_TOPIC)
    if topic is not None:
        serving = any(world.reports.serves(uid_of(each)) for each in readers)
        if serving and not waited_long_enough(resource, world.clock()):
            return False
        if _is_owned(resource) and not _is_shared(world, resource):
            _delete_topic(world, resource, topic)
    world.store.remove(resource)
    return True


def _is_owned(resource: Resource) -> bool:
    """A broker or channel is the reason for a topic that is named after it, also for one that was there before."""
    if resource["kind"] == SINK.name:
        return noted(resource).get(names.NOTED_OWNED) == "true"
    own = {BROKER.name: names.broker_topic, CHANNEL.name: names.channel_topic}[resource["kind"]]
    return noted(resource).get(names.NOTED_TOPIC) == own(namespace_of(resource), name_of(resource))


def _is_shared(world: World, resource: Resource) -> bool:
    """Whether somebody else uses the same topic, who would lose it."""
    place = (noted(resource).get(names.NOTED_TOPIC), noted(resource).get(names.NOTED_CLUSTER))
    others = (each for kind in CONFIGURE for each in world.store.list(kind) if uid_of(each) != uid_of(resource))
    return any((noted(each).get(names.NOTED_TOPIC), noted(each).get(names.NOTED_CLUSTER)) == place for each in others)


def _delete_topic(world: World, resource: Resource, topic: str) -> None:
    found = ingress.noted_cluster(resource)
    try:
        topics.delete(world.admin_of(found), [topic])
    except (Misconfigured, Unavailable):
        if found.is_home or not waited_long_enough(resource, world.clock()):
            raise  # another cluster may be gone for good, or its Secret: the resource goes all the same


def waited_long_enough(resource: Resource, now: datetime) -> bool:
    return now - datetime.fromisoformat(resource["metadata"]["deletionTimestamp"]) > LETTING_GO


def readers_of(world: World, resource: Resource) -> list[Resource]:
    """Triggers of a broker, subscriptions of a channel."""
    if resource["kind"] == BROKER.name:
        triggers = world.store.list(TRIGGER.name, namespace_of(resource))
        return [each for each in triggers if spec_of(each).get("broker") == name_of(resource)]
    if resource["kind"] == CHANNEL.name:
        return channels.subscriptions_of(resource, world.store.list(SUBSCRIPTION.name))
    return []
