"""What a Trigger wants: the events of a broker that its filters match, at one subscriber."""

from typing import Any

import msgspec

from penstock.contract.model import Subscription
from penstock.control import deliveries, egress, names, starts
from penstock.control.addresses import Resolved, resolve
from penstock.control.conditions import Condition, true
from penstock.control.egress import Find, Plan
from penstock.control.ingress import Surroundings, is_refused, topic_of
from penstock.control.kinds import (
    BROKER,
    Resource,
    annotations_of,
    is_being_deleted,
    name_of,
    namespace_of,
    spec_of,
)


def plan(trigger: Resource, around: Surroundings, _find: Find) -> Plan:
    namespace, spec, lookup = namespace_of(trigger), spec_of(trigger), around.lookup
    broker = lookup(BROKER.name, namespace, str(spec["broker"]))
    if broker is not None and is_being_deleted(broker):
        broker = None
    topic = topic_of(broker)
    subscriber = resolve(spec["subscriber"], namespace, lookup)
    delivery = deliveries.chosen(spec.get("delivery"), spec_of(broker).get("delivery") if broker else None)
    sink = egress.dead_letter_sink(delivery, namespace, broker, lookup)
    subscriptions: tuple[Subscription, ...] = ()
    if topic is not None and subscriber.url and (sink is None or sink.url):
        common = egress.common(trigger, topic, group_of(trigger), subscriber.url, broker)
        subscriptions = (
            msgspec.structs.replace(
                common,
                filters=filters_of(spec),
                delivery=egress.delivery_of(trigger, delivery, sink),
                order=egress.order_of(trigger, "unordered"),
                gear=egress.gear_of(trigger, broker),
                reply_topic=topic.name,
            ),
        )
    is_newer = broker is not None and topic is not None and egress.is_newer(broker, trigger, topic)
    return Plan(
        served="SubscriptionReady",
        conditions=(
            egress.owner_ready("BrokerReady", broker, "Broker", str(spec["broker"])),
            true("DependencyReady"),
            egress.resolved("SubscriberResolved", subscriber),
            _dead_letter_resolved(sink),
        ),
        topics=(topic,) if topic is not None else (),
        missing=()
        if topic is not None or is_refused(broker)
        else (names.broker_topic(namespace, str(spec["broker"])),),
        begin=starts.asked(annotations_of(trigger).get(names.START), is_newer=is_newer),
        subscriptions=subscriptions,
        shown={"subscriberUri": subscriber.url, "deadLetterSinkUri": sink.url if sink else None},
        waits_for="waits for the broker, the subscriber or the sink",
    )


def group_of(trigger: Resource) -> str:
    return names.trigger_group(namespace_of(trigger), name_of(trigger))


def filters_of(spec: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """``filters`` replaces ``filter.attributes`` when it is not empty."""
    if spec.get("filters"):
        return tuple(spec["filters"])
    attributes = (spec.get("filter") or {}).get("attributes")
    return ({"attributes": attributes},) if attributes else ()


def _dead_letter_resolved(sink: Resolved | None) -> Condition:
    if sink is None:
        return true("DeadLetterSinkResolved", "DeadLetterSinkNotConfigured", "no dead letter sink is configured")
    return egress.resolved("DeadLetterSinkResolved", sink)
