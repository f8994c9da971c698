"""What a Subscription wants: all events of a channel, in order, at one subscriber; its answers go to ``reply``."""

import msgspec

from penstock.contract.model import Subscription
from penstock.control import deliveries, egress, names, starts
from penstock.control.addresses import resolve
from penstock.control.egress import Find, Plan
from penstock.control.ingress import Surroundings, is_refused, topic_of
from penstock.control.kinds import (
    CHANNEL,
    Resource,
    annotations_of,
    is_being_deleted,
    namespace_of,
    spec_of,
    uid_of,
)


def plan(subscription: Resource, around: Surroundings, _find: Find) -> Plan:
    namespace, spec, lookup = namespace_of(subscription), spec_of(subscription), around.lookup
    name = str(spec["channel"]["name"])
    channel = lookup(CHANNEL.name, namespace, name)
    if channel is not None and is_being_deleted(channel):
        channel = None
    topic = topic_of(channel)
    subscriber = resolve(spec["subscriber"], namespace, lookup) if spec.get("subscriber") else None
    reply = resolve(spec["reply"], namespace, lookup) if spec.get("reply") else None
    delivery = deliveries.chosen(spec.get("delivery"), spec_of(channel).get("delivery") if channel else None)
    sink = egress.dead_letter_sink(delivery, namespace, channel, lookup)
    references = egress.resolved("ReferencesResolved", subscriber, reply, sink)
    # Without a subscriber, events go as they are to where its answers would go.
    target = subscriber or reply
    subscriptions: tuple[Subscription, ...] = ()
    if topic is not None and target is not None and target.url and references.status == "True":
        common = egress.common(subscription, topic, group_of(subscription), target.url, channel)
        subscriptions = (
            msgspec.structs.replace(
                common,
                delivery=egress.delivery_of(subscription, delivery, sink),
                order=egress.order_of(subscription, "ordered"),
                gear=egress.gear_of(subscription, channel),
                reply_url=(reply.url or "") if subscriber is not None and reply is not None else "",
            ),
        )
    is_newer = channel is not None and topic is not None and egress.is_newer(channel, subscription, topic)
    physical = {
        "subscriberUri": subscriber.url if subscriber else None,
        "replyUri": reply.url if reply else None,
        "deadLetterSinkUri": sink.url if sink else None,
    }
    return Plan(
        served="AddedToChannel",
        conditions=(references, egress.owner_ready("ChannelReady", channel, "Channel", name)),
        topics=(topic,) if topic is not None else (),
        missing=() if topic is not None or is_refused(channel) else (names.channel_topic(namespace, name),),
        begin=starts.asked(annotations_of(subscription).get(names.START), is_newer=is_newer),
        subscriptions=subscriptions,
        shown={"physicalSubscription": {each: url for each, url in physical.items() if url}},
        waits_for="waits for the channel, the subscriber, the reply or the sink",
    )


def group_of(subscription: Resource) -> str:
    channel = str(spec_of(subscription)["channel"]["name"])
    return names.subscription_group(namespace_of(subscription), channel, uid_of(subscription))
