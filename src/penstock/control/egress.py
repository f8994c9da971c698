"""What a resource that has events delivered comes to: starts, subscriptions in the contract, a status. Values only.

Each kind says in ``plan`` what it wants (``triggers.py``, ``subscriptions.py``, ``sources.py``); the rest is the same
for all of them, here. The order in which ``egress_steps.py`` makes it true matters, since it may be killed between
any two steps:

    1. the start positions are decided once and stored in the resource's status
    2. the ledger gets them (lanes that have a record keep it)
    3. the contract gets the subscriptions
    4. the status says Ready
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from penstock.contract.model import Agreement, Delivery, Order, Pin, QueryReport, Subscription
from penstock.control import deliveries, names, starts, times
from penstock.control.addresses import Lookup, Resolved, resolve
from penstock.control.conditions import Condition, false, merged, timestamp, true, unknown
from penstock.control.config_maps import consumer_of
from penstock.control.ingress import Surroundings, Topic
from penstock.control.kinds import (
    Resource,
    annotations_of,
    condition,
    generation_of,
    name_of,
    namespace_of,
    noted,
    status_of,
    uid_of,
)
from penstock.control.loops import Loop, is_same_address
from penstock.control.starts import LATEST, Asked, Starts

GONE_REASON = "410 Gone"
MOST_NAMED = 5  # topics in a message
DEAD_LETTERS_RETURN = "the dead letter sink leads back to the topic of its events: what fails would come back to it"


@dataclass(frozen=True)
class Plan:
    """What a resource comes to, given the others."""

    served: str  # the type of the condition that says whether it is served
    conditions: tuple[Condition, ...]  # all but that one
    topics: tuple[Topic, ...] = ()  # where its events are; none while there is no topic
    missing: tuple[str, ...] = ()  # topics that it would read and that are not there
    names_topics: bool = False  # itself, so that nobody else tells that one is missing
    begin: Asked = LATEST
    subscriptions: tuple[Subscription, ...] = ()  # what belongs into the contract
    shown: Mapping[str, Any] = field(default_factory=dict)  # in the status besides
    waits_for: str = ""  # why there is no subscription
    is_blind: bool = False  # its Kafka could not be asked: what was agreed stays as it is
    refused: str = ""  # why it is not begun although everything is there
    remark: str = ""  # what its user should know although it is served


Find = Callable[..., Mapping[str, Topic]]  # topics by name, asked of a cluster
MakePlan = Callable[[Resource, Surroundings, Find], Plan]


def common(resource: Resource, topic: Topic, group: str, url: str, owner: Resource | None = None) -> Subscription:
    """What annotations say is the same for every kind."""
    notes = annotations_of(resource)
    return Subscription(
        uid=uid_of(resource),
        kind=resource["kind"],
        namespace=namespace_of(resource),
        name=name_of(resource),
        topic=topic.name,
        group=group,
        subscriber_url=url,
        paused=_paused(resource),
        paused_until=times.epoch_of(notes.get(names.PAUSED_UNTIL)),
        resumed=notes.get(names.RESUMED, ""),
        settings=consumer_of(resource, noted(owner) if owner is not None else {}),
        cluster=topic.cluster,
    )


def order_of(resource: Resource, default: Order) -> Order:
    """Validated when it was applied; what a foreign store may hold besides means what Knative takes it for."""
    orders: dict[str | None, Order] = {"ordered": "ordered", "key": "key", "unordered": "unordered"}
    return orders.get(annotations_of(resource).get(names.DELIVERY_ORDER), default)


def gear_of(resource: Resource, owner: Resource | None = None) -> Pin:
    pins: dict[str | None, Pin] = {"live": "live", "bulk": "bulk", "auto": "auto"}
    of_owner = annotations_of(owner).get(names.GEAR) if owner is not None else None
    return pins.get(annotations_of(resource).get(names.GEAR, of_owner), "auto")


def _paused(resource: Resource) -> str:
    """Why it is paused, if it is; an end alone says that it is."""
    notes = annotations_of(resource)
    return notes.get(names.PAUSED) or ("paused" if names.PAUSED_UNTIL in notes or names.PAUSED in notes else "")


def dead_letter_sink(
    delivery: Mapping[str, Any], namespace: str, owner: Resource | None, lookup: Lookup
) -> Resolved | None:
    """Where it is; None when none is asked for."""
    if not delivery.get("deadLetterSink"):
        return None
    sink = resolve(delivery["deadLetterSink"], namespace, lookup)
    own = (status_of(owner).get("address") or {}).get("url") if owner is not None else None
    if sink.url and own and is_same_address(sink.url, own):
        return Resolved(None, "DeadLetterSinkLoops", DEAD_LETTERS_RETURN)
    return sink


def delivery_of(resource: Resource, delivery: dict[str, Any], sink: Resolved | None) -> Delivery:
    return deliveries.as_contract(delivery, sink.url if sink else None, annotations_of(resource))


def owner_ready(type_: str, owner: Resource | None, what: str, name: str) -> Condition:
    """Of the broker or channel that events come from."""
    if owner is None:
        return false(type_, f"{what}DoesNotExist", f'{what.lower()} "{name}" does not exist')
    ready = condition(owner, "Ready")
    if ready["status"] == "True":
        return true(type_)
    message = ready.get("message") or f'{what.lower()} "{name}" is not ready yet'
    if ready["status"] == "False":
        return false(type_, ready.get("reason") or f"{what}NotReady", message)
    return unknown(type_, ready.get("reason") or f"{what}Unknown", message)


def resolved(type_: str, *found: Resolved | None) -> Condition:
    """Whether all of these lead somewhere; None: it was not asked for."""
    for each in found:
        if each is not None and not each.url:
            return false(type_, each.reason, each.message)
    return true(type_)


def is_newer(owner: Resource, resource: Resource, topic: Topic) -> bool:
    """Whether everything in the topic of a broker or channel came after the resource that reads it."""
    before = starts.noted_starts(resource).get(topic.name)
    if names.EXTERNAL_TOPIC in annotations_of(owner):
        return before is not None and before.topic_id != ""  # somebody made the topic anew under our eyes
    if before is not None:
        return True
    return str(owner["metadata"]["creationTimestamp"]) > str(resource["metadata"]["creationTimestamp"])


def disabled(found: Plan) -> Plan:
    """Of a subscriber that has answered 410 at this address: it gets nothing until somebody resumes it."""
    paused = tuple(
        msgspec.structs.replace(each, paused=GONE_REASON, paused_until=0.0) for each in found.subscriptions
    )
    return replace(found, subscriptions=paused)


def looping(found: Plan, loops: Sequence[Loop]) -> Plan:
    """Of what would send its own events to itself for ever: it is not begun. Where it only may, it is said."""
    endless = [each for each in loops if each.is_endless]
    if not endless:
        return replace(found, remark=f"its events may come back to it: {loops[0].shown}")
    why = f"its events would come back to it for ever: {endless[0].shown}; send them elsewhere, or filter them"
    return replace(found, subscriptions=(), refused=why)


def agreement(resource: Resource, subscriptions: tuple[Subscription, ...]) -> Agreement:
    return Agreement(uid=uid_of(resource), generation=generation_of(resource), subscriptions=subscriptions)


@dataclass(frozen=True)
class Told:
    """What the dispatcher says of the topics of a resource."""

    reports: tuple[QueryReport, ...] = ()
    is_alive: bool = True  # else the next one begins with what is agreed now


def served(plan: Plan, told: Told, now: datetime) -> Condition:
    """True once starts and contract are durable, and the dispatcher serves it as it is now.

    While no dispatcher runs it is True too: the next one begins with the present contract, at the start positions.
    """
    if plan.refused:
        return false(plan.served, "EndlessLoop", plan.refused)
    if plan.missing and plan.names_topics:
        return false(plan.served, "TopicMissing", _missing(plan.missing))
    if not plan.subscriptions:
        return unknown(plan.served, "NotSubscribed", plan.waits_for or "waits for what it refers to")
    first = plan.subscriptions[0]
    if first.paused == GONE_REASON:
        what = f"{first.subscriber_url} answered 410 Gone: nothing is delivered to it, and nothing is lost"
        advice = f"change its address, or resume the {first.kind.lower()}"
        return false(plan.served, "SubscriberGone", f"{what}; {advice}")
    if first.is_paused(now.timestamp()):
        until = first.paused_until
        end = f"until {timestamp(datetime.fromtimestamp(until, UTC))}" if until else "until it is resumed"
        return true(plan.served, "Paused", f"{first.paused}; nothing is delivered {end}")
    for report in told.reports:
        if refused := [report.refused[each.uid] for each in plan.subscriptions if each.uid in report.refused]:
            return false(plan.served, "FilterRefused", refused[0])
        if report.state in ("refused", "failed"):
            reason = "QueryRefused" if report.state == "refused" else "QueryFailed"
            return false(plan.served, reason, report.reason or f"the query of {report.topic} {report.state}")
        for each in plan.subscriptions:
            if each.place == report.topic and each.uid in report.failures:
                why = f"it is slow, so it is isolated, and its own query does not run: {report.failures[each.uid]}"
                return false(plan.served, "QueryFailed", why)
    if told.is_alive:
        for each in plan.subscriptions:
            version = _served_version(each, told)
            if version is None:
                return unknown(plan.served, "NotServedYet", "the dispatcher does not serve it yet; no event is lost")
            if version != each.version:
                return unknown(plan.served, "TakingOver", "the dispatcher does not serve the last change yet")
    return true(plan.served, "MayLoop", plan.remark) if plan.remark else true(plan.served)


def _missing(topics: Sequence[str]) -> str:
    if len(topics) == 1:
        return f"topic {topics[0]} does not exist"
    more = f" and {len(topics) - MOST_NAMED:,} more" if len(topics) > MOST_NAMED else ""
    return f"topics {', '.join(topics[:MOST_NAMED])}{more} do not exist"


def _served_version(subscription: Subscription, told: Told) -> str | None:
    """The version that a query serves; None: no query serves it."""
    for report in told.reports:
        if report.topic == subscription.place and subscription.uid in report.subscriptions:
            return dict(zip(report.subscriptions, report.versions, strict=False)).get(subscription.uid, "")
    return None


def status(resource: Resource, plan: Plan, decided: Starts, subscribed: Condition, now: datetime) -> dict[str, Any]:
    before = status_of(resource)
    notes = dict(noted(resource))
    if decided:
        notes[names.NOTED_START] = starts.as_note(decided)
    if plan.topics:
        notes.pop(names.NOTED_CLUSTER, None)
        if not plan.topics[0].cluster.is_home:  # its group is there, and is deleted there
            notes[names.NOTED_CLUSTER] = msgspec.json.encode(plan.topics[0].cluster).decode()
    shaped: dict[str, Any] = {
        "observedGeneration": generation_of(resource),
        "conditions": merged(before.get("conditions") or [], (*plan.conditions, subscribed), now),
        **{name: value for name, value in plan.shown.items() if value},
    }
    if notes:
        shaped["annotations"] = notes
    return shaped
