"""Makes a Trigger true: its start in the ledger, its subscription in the contract, its status.

Called by the loop in ``reconcile.py``. The order of the steps is explained in ``triggers.py``.
"""

from dataclasses import replace

from penstock.control import names, triggers
from penstock.control.broker_steps import waited_long_enough
from penstock.control.conditions import unknown
from penstock.control.kinds import BROKER, Resource, key_of, name_of, namespace_of, noted, spec_of, uid_of
from penstock.control.triggers import Start, Topic, TriggerPlan
from penstock.control.world import World
from penstock.kafka import topics


def reconcile(world: World, trigger: Resource) -> bool:
    """Whether the trigger is settled; if not, it is worth looking again soon."""
    plan, gone = triggers.plan(trigger, world.store.get), world.reports.gone(uid_of(trigger))
    if gone is not None and plan.subscription is not None:
        if gone.is_about(plan.subscription):
            plan = triggers.disabled(plan)
        else:
            world.reports.forget_gone(uid_of(trigger))
    if plan.topic is None:
        start = triggers.decided_start_before_topic(trigger, _broker(world, trigger))
    else:
        start = _choose_start(world, trigger, plan.topic)
        if start != triggers.decided_start(trigger, plan.topic):
            stored = _store_decision(world, trigger, plan, start)
            if stored is None:
                return True  # deleted meanwhile
            trigger = stored
        start = _write_start(world, trigger, plan.topic, start)
    if plan.subscription is not None:
        world.contract.set(key_of(trigger), triggers.agreement(trigger, plan.subscription))
    else:
        world.contract.remove(key_of(trigger))
    report = world.reports.query(plan.topic.name) if plan.topic else None
    now = world.clock()
    subscribed = triggers.subscription_ready(plan, report, now)
    world.store.write_status(trigger, triggers.status(trigger, plan, start, subscribed, now))
    ends_by_itself = plan.subscription is not None and plan.subscription.paused_until > now.timestamp()
    return not ends_by_itself and all(each.status == "True" for each in (*plan.conditions, subscribed))


def _choose_start(world: World, trigger: Resource, topic: Topic) -> Start:
    decided = triggers.decided_start(trigger, topic)
    if decided is not None:
        return decided.covering(topic.partitions)
    broker = _broker(world, trigger)
    since = triggers.asked_start(trigger)
    if since is not None:
        return Start(topic.topic_id, topics.offsets_at(world.admin, topic.name, topic.partitions, since))
    from_earliest = broker is not None and triggers.starts_at_earliest(trigger, broker)
    read = topics.earliest_offsets if from_earliest else topics.latest_offsets
    return Start(topic.topic_id, read(world.admin, topic.name, topic.partitions))


def _store_decision(world: World, trigger: Resource, plan: TriggerPlan, start: Start) -> Resource | None:
    """Before anything acts on it, so that a restart does not decide anew."""
    pending = unknown("SubscriptionReady", "StartDecided", "its start positions are being written")
    return world.store.write_status(trigger, triggers.status(trigger, plan, start, pending, world.clock()))


def _write_start(world: World, trigger: Resource, topic: Topic, start: Start) -> Start:
    """The ledger keeps what it has. It is not asked again once a stored status says that this start is in it."""
    if start.written:
        return start
    positions = dict(start.positions)
    world.ledger.write(uid_of(trigger), topic.name, topic.topic_id, positions)
    return replace(start, written=True)


def _broker(world: World, trigger: Resource) -> Resource | None:
    return world.store.get(BROKER.name, namespace_of(trigger), str(spec_of(trigger)["broker"]))


def take_apart(world: World, trigger: Resource) -> bool:
    """The subscription leaves the contract; when the dispatcher has let go, its traces in Kafka follow."""
    world.contract.remove(key_of(trigger))
    broker = _broker(world, trigger)
    topic = noted(broker).get(names.NOTED_TOPIC) if broker is not None else None
    if topic and world.reports.serves(topic, uid_of(trigger)) and not waited_long_enough(trigger, world.clock()):
        return False
    world.reports.forget_gone(uid_of(trigger))
    world.ledger.forget(uid_of(trigger))
    world.groups.delete(names.trigger_group(namespace_of(trigger), name_of(trigger)))
    world.store.remove(trigger)
    return True
