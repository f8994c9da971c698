"""What a Trigger means: a start, a subscription in the contract, and a status. Functions of values.

The order in which ``trigger_steps.py`` makes it true matters, since it may be killed between any two steps:

    1. the start positions are decided once and stored in the trigger's status
    2. the ledger gets them (lanes that have a record keep it)
    3. the contract gets the subscription
    4. the status says Ready
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from penstock.contract.model import Agreement, Order, Pin, QueryReport, Subscription
from penstock.control import deliveries, names, times
from penstock.control.addresses import Lookup, Resolved, resolve
from penstock.control.conditions import Condition, false, merged, timestamp, true, unknown
from penstock.control.kinds import (
    BROKER,
    Resource,
    annotations_of,
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


@dataclass(frozen=True)
class Topic:
    name: str
    topic_id: str
    partitions: int


GONE_REASON = "410 Gone"


@dataclass(frozen=True)
class TriggerPlan:
    """What a trigger comes to, given the other resources."""

    conditions: tuple[Condition, ...]  # all but SubscriptionReady
    topic: Topic | None  # where its events are; None while the broker has no topic
    subscriber_uri: str | None
    dead_letter_uri: str | None
    subscription: Subscription | None  # what belongs into the contract; None: nothing


@dataclass(frozen=True)
class Start:
    """The offsets from which a subscription sees a topic, decided once per trigger and topic."""

    topic_id: str
    positions: Mapping[int, int]
    written: bool = False  # whether the ledger has it

    def covering(self, partitions: int) -> "Start":
        """With partitions that came later, which a subscription sees from their first event on."""
        if set(self.positions) >= set(range(partitions)):
            return self
        return Start(self.topic_id, {p: self.positions.get(p, 0) for p in range(partitions)})


def plan(trigger: Resource, lookup: Lookup) -> TriggerPlan:
    namespace, spec = namespace_of(trigger), spec_of(trigger)
    broker = lookup(BROKER.name, namespace, str(spec["broker"]))
    if broker is not None and is_being_deleted(broker):
        broker = None
    topic = topic_of(broker) if broker is not None else None
    subscriber = resolve(spec["subscriber"], namespace, lookup)
    delivery = deliveries.chosen(spec.get("delivery"), spec_of(broker).get("delivery") if broker else None)
    sink = _dead_letter_sink(delivery, namespace, broker, lookup)
    conditions = (
        _broker_ready(broker, str(spec["broker"])),
        true("DependencyReady"),
        _subscriber_resolved(subscriber),
        _dead_letter_resolved(delivery, sink),
    )
    subscription = None
    if topic is not None and subscriber.url and (sink is None or sink.url):
        subscription = Subscription(
            uid=uid_of(trigger),
            kind="Trigger",
            namespace=namespace,
            name=name_of(trigger),
            topic=topic.name,
            group=names.trigger_group(namespace, name_of(trigger)),
            subscriber_url=subscriber.url,
            filters=filters_of(spec),
            delivery=deliveries.as_contract(delivery, sink.url if sink else None, annotations_of(trigger)),
            order=_order(trigger),
            paused=_paused(trigger),
            paused_until=times.epoch_of(annotations_of(trigger).get(names.PAUSED_UNTIL)),
            gear=_gear(trigger, broker),
            resumed=annotations_of(trigger).get(names.RESUMED, ""),
            reply_topic=topic.name,
        )
    return TriggerPlan(conditions, topic, subscriber.url, sink.url if sink else None, subscription)


def _order(trigger: Resource) -> Order:
    """Validated when it was applied; what a foreign store may hold besides means what Knative takes it for."""
    orders: dict[str | None, Order] = {"ordered": "ordered", "key": "key"}
    return orders.get(annotations_of(trigger).get(names.DELIVERY_ORDER), "unordered")


def _gear(trigger: Resource, broker: Resource | None) -> Pin:
    pins: dict[str | None, Pin] = {"live": "live", "bulk": "bulk", "auto": "auto"}
    of_broker = annotations_of(broker).get(names.GEAR) if broker is not None else None
    return pins.get(annotations_of(trigger).get(names.GEAR, of_broker), "auto")


def _paused(trigger: Resource) -> str:
    """Why it is paused, if it is; an end alone says that it is."""
    notes = annotations_of(trigger)
    return notes.get(names.PAUSED) or ("paused" if names.PAUSED_UNTIL in notes or names.PAUSED in notes else "")


def filters_of(spec: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """``filters`` replaces ``filter.attributes`` when it is not empty."""
    if spec.get("filters"):
        return tuple(spec["filters"])
    attributes = (spec.get("filter") or {}).get("attributes")
    return ({"attributes": attributes},) if attributes else ()


def topic_of(broker: Resource) -> Topic | None:
    """The broker's topic as reconciling noted it; None while there is none."""
    notes = noted(broker)
    if names.NOTED_TOPIC_ID not in notes:
        return None
    return Topic(notes[names.NOTED_TOPIC], notes[names.NOTED_TOPIC_ID], int(notes[names.NOTED_PARTITIONS]))


def _broker_ready(broker: Resource | None, name: str) -> Condition:
    if broker is None:
        return false("BrokerReady", "BrokerDoesNotExist", f'broker "{name}" does not exist')
    ready = condition(broker, "Ready")
    if ready["status"] == "True":
        return true("BrokerReady")
    message = ready.get("message") or f'broker "{name}" is not ready yet'
    if ready["status"] == "False":
        return false("BrokerReady", ready.get("reason") or "BrokerNotReady", message)
    return unknown("BrokerReady", ready.get("reason") or "BrokerUnknown", message)


def _subscriber_resolved(subscriber: Resolved) -> Condition:
    if subscriber.url:
        return true("SubscriberResolved")
    return false("SubscriberResolved", subscriber.reason, subscriber.message)


def _dead_letter_sink(
    delivery: dict[str, Any], namespace: str, broker: Resource | None, lookup: Lookup
) -> Resolved | None:
    if not delivery.get("deadLetterSink"):
        return None
    sink = resolve(delivery["deadLetterSink"], namespace, lookup)
    own = (status_of(broker).get("address") or {}).get("url") if broker is not None else None
    if sink.url and sink.url == own:
        why = "the dead letter sink is the trigger's own broker: what fails would come back for ever"
        return Resolved(None, "DeadLetterSinkLoops", why)
    return sink


def _dead_letter_resolved(delivery: dict[str, Any], sink: Resolved | None) -> Condition:
    if sink is None:
        return true("DeadLetterSinkResolved", "DeadLetterSinkNotConfigured", "no dead letter sink is configured")
    if sink.url:
        return true("DeadLetterSinkResolved")
    return false("DeadLetterSinkResolved", sink.reason, sink.message)


def disabled(found: TriggerPlan) -> TriggerPlan:
    """Of a subscriber that has answered 410 at this address: it gets nothing until somebody resumes it."""
    assert found.subscription is not None
    paused = msgspec.structs.replace(found.subscription, paused=GONE_REASON, paused_until=0.0)
    return replace(found, subscription=paused)


def agreement(trigger: Resource, subscription: Subscription) -> Agreement:
    return Agreement(uid=uid_of(trigger), generation=generation_of(trigger), subscriptions=(subscription,))


def decided_start(trigger: Resource, topic: Topic) -> Start | None:
    """The start that was decided before, if it was for this very topic (a topic made anew has another id)."""
    stored = _noted_start(trigger)
    return stored if stored is not None and stored.topic_id == topic.topic_id else None


def _noted_start(trigger: Resource) -> Start | None:
    text = noted(trigger).get(names.NOTED_START)
    if not text:
        return None
    stored = json.loads(text)
    positions = {int(p): offset for p, offset in stored["positions"].items()}
    return Start(stored["topicId"], positions, stored.get("written", False))


def decided_start_before_topic(trigger: Resource, broker: Resource | None) -> Start | None:
    """What to note while there is no topic: all that a topic made later will hold comes after the trigger."""
    before = _noted_start(trigger)
    if before is None and (broker is None or names.NOTED_TOPIC_ID not in noted(broker)):
        return Start("", {})
    return before


def asked_start(trigger: Resource) -> float | None:
    """The time from which the trigger asks for events, in seconds since the epoch."""
    asked = annotations_of(trigger).get(names.START)
    return None if asked is None or asked in names.STARTS else times.epoch_of(asked)


def starts_at_earliest(trigger: Resource, broker: Resource) -> bool:
    """Whether everything in the topic came after the trigger, or the trigger asks for all of it."""
    asked = annotations_of(trigger).get(names.START)
    if asked is not None:
        return asked == "earliest"
    before = _noted_start(trigger)
    if names.EXTERNAL_TOPIC in annotations_of(broker):
        return before is not None and before.topic_id != ""  # somebody made the topic anew under our eyes
    if before is not None:
        return True
    return str(broker["metadata"]["creationTimestamp"]) > str(trigger["metadata"]["creationTimestamp"])


def subscription_ready(plan: TriggerPlan, report: QueryReport | None, now: datetime) -> Condition:
    """SubscriptionReady once start and contract are durable, unless the dispatcher says that it cannot serve it."""
    if plan.subscription is None:
        return unknown("SubscriptionReady", "NotSubscribed", "waits for the broker, the subscriber or the sink")
    if plan.subscription.paused == GONE_REASON:
        what = f"{plan.subscriber_uri} answered 410 Gone: nothing is delivered to it, and nothing is lost"
        return false("SubscriptionReady", "SubscriberGone", f"{what}; change its address, or resume the trigger")
    if plan.subscription.is_paused(now.timestamp()):
        until = plan.subscription.paused_until
        end = f"until {timestamp(datetime.fromtimestamp(until, UTC))}" if until else "until it is resumed"
        return true("SubscriptionReady", "Paused", f"{plan.subscription.paused}; nothing is delivered {end}")
    if report is not None and report.state in ("refused", "failed"):
        reason = "QueryRefused" if report.state == "refused" else "QueryFailed"
        return false("SubscriptionReady", reason, report.reason or f"the query of {report.topic} {report.state}")
    return true("SubscriptionReady")


def status(
    trigger: Resource, plan: TriggerPlan, start: Start | None, subscribed: Condition, now: datetime
) -> dict[str, Any]:
    before = status_of(trigger)
    notes = dict(noted(trigger))
    if start is not None:
        positions = {str(p): offset for p, offset in sorted(start.positions.items())}
        stored = {"topicId": start.topic_id, "positions": positions, "written": start.written}
        notes[names.NOTED_START] = json.dumps(stored, separators=(",", ":"))
    shaped: dict[str, Any] = {
        "observedGeneration": generation_of(trigger),
        "conditions": merged(before.get("conditions") or [], (*plan.conditions, subscribed), now),
    }
    if notes:
        shaped["annotations"] = notes
    if plan.subscriber_uri:
        shaped["subscriberUri"] = plan.subscriber_uri
    if plan.dead_letter_uri:
        shaped["deadLetterSinkUri"] = plan.dead_letter_uri
    return shaped
