"""Makes a resource that has events delivered true: its starts in the ledger, its subscriptions in the contract, its
status; and takes it apart again.

Called by the loop in ``reconcile.py``. The order of the steps is explained in ``egress.py``.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.contract.model import Cluster
from penstock.control import egress, ingress, names, sources, starts, subscriptions, triggers
from penstock.control.conditions import unknown
from penstock.control.egress import MakePlan, Plan, Told
from penstock.control.ingress import Topic
from penstock.control.ingress_steps import waited_long_enough
from penstock.control.kinds import SOURCE, SUBSCRIPTION, TRIGGER, Resource, key_of, noted, spec_of, uid_of
from penstock.control.starts import Start, Starts
from penstock.control.world import World
from penstock.errors import PenstockError
from penstock.kafka import topics

logger = logging.getLogger("penstock.control")

PLAN: dict[str, MakePlan] = {
    TRIGGER.name: triggers.plan,
    SUBSCRIPTION.name: subscriptions.plan,
    SOURCE.name: sources.plan,
}

GROUP: dict[str, Callable[[Resource], str]] = {
    TRIGGER.name: triggers.group_of,
    SUBSCRIPTION.name: subscriptions.group_of,
    SOURCE.name: sources.group_of,
}


def plan_of(world: World, resource: Resource) -> Plan:
    def find(cluster: Cluster, wanted: Sequence[str]) -> dict[str, Topic]:
        found = topics.describe(world.admin_of(cluster), wanted)
        return {name: Topic(name, state.topic_id, state.partitions, cluster) for name, state in found.items()}

    return PLAN[resource["kind"]](resource, world.surroundings, find)


def reconcile(world: World, resource: Resource) -> bool:
    """Whether it is settled; if not, it is worth looking again soon."""
    plan = _unless_looping(world, resource, _unless_gone(world, resource, plan_of(world, resource)))
    decided = _choose_starts(world, resource, plan)
    if decided != starts.noted_starts(resource) and plan.topics:
        stored = _store_decision(world, resource, plan, decided)
        if stored is None:
            return True  # deleted meanwhile
        resource = stored
    for topic in plan.topics:
        decided[topic.name] = _write_start(world, resource, topic, decided[topic.name])
    if plan.subscriptions:
        world.contract.set(key_of(resource), egress.agreement(resource, plan.subscriptions))
    elif not plan.is_blind:
        world.contract.remove(key_of(resource))
    now, reports = world.clock(), (world.reports.query(each.place) for each in plan.subscriptions)
    told = Told(tuple(filter(None, reports)), world.reports.may_live())
    subscribed = egress.served(plan, told, now)
    world.store.write_status(resource, egress.status(resource, plan, decided, subscribed, now))
    ends_by_itself = any(each.paused_until > now.timestamp() for each in plan.subscriptions)
    return not ends_by_itself and all(each.status == "True" for each in (*plan.conditions, subscribed))


def _unless_gone(world: World, resource: Resource, plan: Plan) -> Plan:
    gone = world.reports.gone(uid_of(resource))
    if gone is None or not plan.subscriptions:
        return plan
    if gone.is_about(plan.subscriptions[0]):
        return egress.disabled(plan)
    world.reports.forget_gone(uid_of(resource))
    return plan


def _unless_looping(world: World, resource: Resource, plan: Plan) -> Plan:
    known = world.contract.map(world.settings.ingress_url)
    if any(known.returns_dead_letters(each) for each in plan.subscriptions):
        return replace(plan, subscriptions=(), refused=egress.DEAD_LETTERS_RETURN)
    found = [loop for each in plan.subscriptions if (loop := known.loop(each)) is not None]
    return egress.looping(plan, found) if found else plan


def _choose_starts(world: World, resource: Resource, plan: Plan) -> Starts:
    before = starts.noted_starts(resource)
    found = {topic: start for topic, start in before.items() if topic in plan.missing}
    for name in plan.missing:
        found.setdefault(name, starts.BEFORE_TOPIC)
    for topic in plan.topics:
        known = starts.decided(resource, topic.topic_id)
        found[topic.name] = known.covering(topic.partitions) if known else _new_start(world, topic, plan)
    return found


def _new_start(world: World, topic: Topic, plan: Plan) -> Start:
    admin = world.admin_of(topic.cluster)
    if plan.begin.since is not None:
        return Start(topic.topic_id, topics.offsets_at(admin, topic.name, topic.partitions, plan.begin.since))
    read = topics.earliest_offsets if plan.begin.earliest else topics.latest_offsets
    return Start(topic.topic_id, read(admin, topic.name, topic.partitions))


def _store_decision(world: World, resource: Resource, plan: Plan, decided: Starts) -> Resource | None:
    """Before anything acts on it, so that a restart does not decide anew."""
    pending = unknown(plan.served, "StartDecided", "its start positions are being written")
    return world.store.write_status(resource, egress.status(resource, plan, decided, pending, world.clock()))


def _write_start(world: World, resource: Resource, topic: Topic, start: Start) -> Start:
    """The ledger keeps what it has. It is not asked again once a stored status says that this start is in it."""
    if start.written:
        return start
    world.ledger.write(uid_of(resource), topic.name, topic.topic_id, dict(start.positions))
    return replace(start, written=True)


def take_apart(world: World, resource: Resource) -> bool:
    """The subscriptions leave the contract; when the dispatcher has let go, their traces in Kafka follow."""
    world.contract.remove(key_of(resource))
    if world.reports.serves(uid_of(resource)) and not waited_long_enough(resource, world.clock()):
        return False
    world.reports.forget_gone(uid_of(resource))
    world.ledger.forget(uid_of(resource))
    if "consumerGroup" not in spec_of(resource):  # a group that somebody named may be somebody's
        _forget_group(world, resource)
    if resource["kind"] == SOURCE.name:
        world.secrets.remove(*sources.kept_secret(resource))
    world.store.remove(resource)
    return True


def group_of(resource: Resource) -> str:
    """The consumer group that shows its progress."""
    return GROUP[resource["kind"]](resource)


def _forget_group(world: World, resource: Resource) -> None:
    try:
        world.groups_of(_cluster_of_group(world, resource)).delete(group_of(resource))
    except PenstockError as error:
        if not waited_long_enough(resource, world.clock()):
            raise  # another cluster may be gone for good, or its Secret
        logger.warning("consumer group %s stays in its cluster: %s", group_of(resource), error.message)


def _cluster_of_group(world: World, resource: Resource) -> Cluster:
    """The noted cluster of its topics: it is known even if its broker or the Secret is deleted."""
    if resource["kind"] == SOURCE.name and names.NOTED_CLUSTER not in noted(resource):
        return sources.cluster_of_source(resource, world.surroundings)
    return ingress.noted_cluster(resource)
