"""Makes a Broker true: its topic, its route in the contract, its status; and takes it apart again.

Called by the loop in ``reconcile.py``. Each step may be the last one before a kill: all are safe to repeat.
"""

from datetime import datetime, timedelta

from penstock.control import brokers, names
from penstock.control.conditions import Condition, false, true, unknown
from penstock.control.kinds import (
    CONFIG_MAP,
    TRIGGER,
    Resource,
    annotations_of,
    condition,
    key_of,
    name_of,
    namespace_of,
    noted,
    spec_of,
    status_of,
    uid_of,
)
from penstock.control.world import World
from penstock.errors import Misconfigured
from penstock.kafka import topics

# How long a deletion waits for the dispatcher to let go of what is deleted.
LETTING_GO = timedelta(seconds=10)


def reconcile(world: World, broker: Resource) -> bool:
    """Whether the broker is settled; if not, it is worth looking again soon."""
    findings = _find(world, broker)
    status = brokers.status(broker, findings, world.clock())
    world.store.write_status(broker, status)
    return all(each.status == "True" for each in findings.conditions)


def _find(world: World, broker: Resource) -> brokers.BrokerFindings:
    try:
        config = _configure(world, broker)
    except Misconfigured as error:
        return _as_before(broker, false("ConfigParsed", "ConfigInvalid", error.message))
    try:
        topic = _ensure_topic(world, config, known=names.NOTED_TOPIC_ID in noted(broker))
    except Misconfigured as error:
        refused = false("TopicReady", "TopicRefused", error.message)
        return brokers.BrokerFindings((config.parsed, refused, *_unknown_from(2)), config)
    fits = brokers.topic_fits(config, topic)
    if topic is None:
        world.contract.remove(key_of(broker))
        return brokers.BrokerFindings((config.parsed, fits, *_unknown_from(2)), config)
    world.contract.set(key_of(broker), brokers.agreement(broker, topic.name))
    return brokers.BrokerFindings(
        conditions=(config.parsed, fits, true("ConfigMapUpdated"), true("Addressable"), *_data_plane(world, broker)),
        config=config,
        topic=topic,
        address=world.settings.ingress_url + brokers.path_of(broker),
        dead_letter_uri=brokers.dead_letter_uri(broker, world.store.get),
    )


_IN_ORDER = ("ConfigParsed", "TopicReady", "ConfigMapUpdated", "Addressable", "DataPlaneAvailable", "ProbeSucceeded")


def _unknown_from(index: int) -> tuple[Condition, ...]:
    """The aspects that cannot be known while an earlier one is not true."""
    waits_for = _IN_ORDER[index - 1]
    return tuple(unknown(each, "Waiting", f"waits for {waits_for}") for each in _IN_ORDER[index:])


def _as_before(broker: Resource, parsed: Condition) -> brokers.BrokerFindings:
    """A broker that has its topic goes on with it, whatever became of its ConfigMap."""
    if names.NOTED_TOPIC_ID not in noted(broker):
        return brokers.BrokerFindings((parsed, *_unknown_from(1)))
    before = [condition(broker, each) for each in _IN_ORDER[1:]]
    kept = (Condition(c["type"], c["status"], c.get("reason", ""), c.get("message", "")) for c in before)
    status = status_of(broker)
    return brokers.BrokerFindings(
        conditions=(parsed, *kept),
        address=(status.get("address") or {}).get("url"),
        dead_letter_uri=status.get("deadLetterSinkUri"),
    )


def _configure(world: World, broker: Resource) -> brokers.BrokerConfig:
    reference = brokers.config_reference(broker)
    config_map = world.store.get(CONFIG_MAP.name, *reference) if reference else None
    return brokers.configure(broker, config_map, world.settings)


def _ensure_topic(world: World, config: brokers.BrokerConfig, known: bool) -> topics.TopicState | None:
    name = config.topic.name
    # A client that was told once that a topic is missing may go on believing it for seconds after the topic was
    # made. So a topic that may be missing is asked for, and made, with a client that is used for nothing else.
    admin = world.admin if known else world.connection.admin()
    found = topics.describe(admin, [name]).get(name)
    if found is None and config.owned:
        maker = world.connection.admin()
        topics.create_missing(maker, [config.topic])
        found = topics.describe(maker, [name]).get(name)
    return found


def _data_plane(world: World, broker: Resource) -> tuple[Condition, Condition]:
    ready = world.receiver.ready()
    if not ready.ok:
        available = false("DataPlaneAvailable", ready.reason, ready.message)
        return available, unknown("ProbeSucceeded", "Waiting", "waits for DataPlaneAvailable")
    probe = world.receiver.knows(brokers.path_of(broker))
    if probe.ok:
        return true("DataPlaneAvailable"), true("ProbeSucceeded")
    return true("DataPlaneAvailable"), false("ProbeSucceeded", probe.reason, probe.message)


def take_apart(world: World, broker: Resource) -> bool:
    """Contract first, so that nobody is sent to a topic that is gone; the resource's own record last."""
    for trigger in triggers_of(world, broker):
        world.contract.remove(key_of(trigger))
    world.contract.remove(key_of(broker))
    topic = noted(broker).get(names.NOTED_TOPIC) or names.broker_topic(namespace_of(broker), name_of(broker))
    serving = any(world.reports.serves(topic, uid_of(trigger)) for trigger in triggers_of(world, broker))
    if serving and not waited_long_enough(broker, world.clock()):
        return False
    if names.EXTERNAL_TOPIC not in annotations_of(broker):
        topics.delete(world.admin, [topic])
    world.store.remove(broker)
    return True


def waited_long_enough(resource: Resource, now: datetime) -> bool:
    return now - datetime.fromisoformat(resource["metadata"]["deletionTimestamp"]) > LETTING_GO


def triggers_of(world: World, broker: Resource) -> list[Resource]:
    everything = world.store.list(TRIGGER.name, namespace_of(broker))
    return [each for each in everything if spec_of(each).get("broker") == name_of(broker)]
