"""What brokers and triggers come to, given the others: values in, values out."""

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.contract.model import Delivery, Gone, QueryReport, Route
from penstock.control import brokers, triggers
from penstock.control.conditions import true
from penstock.control.kinds import Resource, key_of
from penstock.control.settings import ControllerSettings
from penstock.errors import Misconfigured
from penstock.kafka.topics import TopicState
from tests.control.objects import NOON, annotated, broker, config_map, stored, trigger

SETTINGS = ControllerSettings(bootstrap_servers="kafka:9092")
TOPIC = TopicState("knative-broker-default-orders", "topic-id", 4)
CONFIGURED = {"apiVersion": "v1", "kind": "ConfigMap", "name": "kafka-config"}


def ready_broker(topic: TopicState | None = TOPIC, **spec: Any) -> Resource:
    resource = stored(broker(**spec), "broker-uid")
    config = brokers.configure(resource, None, SETTINGS)
    address = "http://ingress:8080/default/orders"
    findings = brokers.BrokerFindings((true("TopicReady"),), config, topic, address)
    return {**resource, "status": brokers.status(resource, findings, NOON)}


def among(*resources: Resource) -> Any:
    known = {key_of(each): each for each in resources}
    return lambda kind, namespace, name: known.get(f"{kind}/{namespace}/{name}")


def condition_of(plan: triggers.TriggerPlan, type_: str) -> tuple[str, str]:
    [found] = [each for each in plan.conditions if each.type == type_]
    return found.status, found.reason


def test_a_broker_without_config_gets_the_defaults() -> None:
    config = brokers.configure(stored(broker()), None, SETTINGS)
    assert (config.topic.name, config.topic.partitions, config.topic.replication_factor) == (TOPIC.name, 4, 0)
    assert config.topic.config["message.timestamp.type"] == "LogAppendTime"
    assert config.owned


def test_the_config_map_decides_about_the_topic() -> None:
    given = config_map(
        default_topic_partitions="2", default_topic_replication_factor="1", default_topic_config_retention_ms="60000"
    )
    config = brokers.configure(stored(broker(config=CONFIGURED)), stored(given), SETTINGS)
    assert config.topic.partitions == 2
    assert config.topic.config["retention.ms"] == "60000"


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1.5"])
def test_a_config_map_that_makes_no_sense_is_named(text: str) -> None:
    given = stored(config_map(default_topic_partitions=text))
    with pytest.raises(Misconfigured, match=r"default\.topic\.partitions"):
        brokers.configure(stored(broker(config=CONFIGURED)), given, SETTINGS)


def test_a_broker_survives_its_config_map() -> None:
    resource = stored(broker(config=CONFIGURED))
    with pytest.raises(Misconfigured, match="does not exist"):
        brokers.configure(resource, None, SETTINGS)
    config = brokers.configure(resource, stored(config_map(default_topic_partitions="2")), SETTINGS)
    settled = {**resource, "status": brokers.status(resource, brokers.BrokerFindings((), config, TOPIC), NOON)}
    assert brokers.configure(settled, None, SETTINGS).topic.partitions == 2


def test_the_agreement_of_a_broker_is_its_route() -> None:
    agreement = brokers.agreement(stored(broker()), "t")
    assert agreement.routes == (Route(path="/default/orders", topic="t"),)


def test_a_trigger_of_a_ready_broker_is_a_subscription() -> None:
    given = stored(
        trigger(filter={"attributes": {"type": "a"}}, delivery={"retry": 3, "backoffDelay": "PT1S"}), "uid"
    )
    plan = triggers.plan(given, among(ready_broker()))
    subscription = plan.subscription
    assert subscription is not None
    assert (subscription.uid, subscription.topic, subscription.group) == (
        "uid",
        TOPIC.name,
        "knative-trigger-default-audit",
    )
    assert subscription.filters == ({"attributes": {"type": "a"}},)
    assert (subscription.delivery.retry, subscription.delivery.backoff_delay_seconds) == (3, 1.0)
    assert subscription.order == "unordered"
    assert condition_of(plan, "DeadLetterSinkResolved") == ("True", "DeadLetterSinkNotConfigured")


def test_every_delivery_setting_reaches_the_contract() -> None:
    """Kept promise: what a trigger asks for is what its lanes do, to the last field; the rest are defaults."""
    asked = {
        "retry": 3,
        "backoffPolicy": "linear",
        "backoffDelay": "PT0.5S",
        "timeout": "PT7S",
        "retryAfterMax": "PT0S",
        "format": "json",
        "deadLetterSink": {"uri": "http://dead.example/"},
    }
    found = triggers.plan(stored(trigger(delivery=asked)), among(ready_broker())).subscription
    assert found is not None
    assert found.delivery == Delivery(
        retry=3,
        backoff_policy="linear",
        backoff_delay_seconds=0.5,
        timeout_seconds=7.0,
        retry_after_max_seconds=0.0,
        dead_letter_url="http://dead.example/",
        format="json",
    )
    unasked = triggers.plan(stored(trigger()), among(ready_broker())).subscription
    assert unasked is not None
    assert unasked.delivery == Delivery(retry=0)
    assert unasked.reply_topic == TOPIC.name


def test_filters_replace_filter() -> None:
    both = stored(trigger(filter={"attributes": {"type": "a"}}, filters=[{"exact": {"type": "b"}}]))
    plan = triggers.plan(both, among(ready_broker()))
    assert plan.subscription is not None
    assert plan.subscription.filters == ({"exact": {"type": "b"}},)


def test_order_is_a_choice() -> None:
    ordered = annotated(trigger(), **{"kafka.eventing.knative.dev/delivery.order": "ordered"})
    plan = triggers.plan(stored(ordered), among(ready_broker()))
    assert plan.subscription is not None
    assert plan.subscription.order == "ordered"


def test_a_trigger_without_its_broker_is_no_subscription() -> None:
    plan = triggers.plan(stored(trigger()), among())
    assert plan.subscription is None
    assert condition_of(plan, "BrokerReady") == ("False", "BrokerDoesNotExist")


def test_a_broker_that_is_being_deleted_counts_as_gone() -> None:
    leaving = ready_broker()
    leaving["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z"
    assert triggers.plan(stored(trigger()), among(leaving)).subscription is None


def test_a_subscriber_that_cannot_be_found_has_a_reason_and_no_uri() -> None:
    lost = stored(trigger(subscriber={"ref": {"apiVersion": "x/v1", "kind": "Broker", "name": "lost"}}))
    plan = triggers.plan(lost, among(ready_broker()))
    assert (plan.subscription, plan.subscriber_uri) == (None, None)
    assert condition_of(plan, "SubscriberResolved") == ("False", "NotFound")


def test_a_subscriber_by_reference_is_the_address_of_the_resource() -> None:
    ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "orders"}
    plan = triggers.plan(stored(trigger(subscriber={"ref": ref})), among(ready_broker()))
    assert plan.subscriber_uri == "http://ingress:8080/default/orders"
    below = triggers.plan(stored(trigger(subscriber={"ref": ref, "uri": "?x=1"})), among(ready_broker()))
    assert below.subscriber_uri == "http://ingress:8080/default/orders?x=1"


def test_a_trigger_with_any_delivery_setting_ignores_the_brokers() -> None:
    of_broker = ready_broker(delivery={"retry": 9, "deadLetterSink": {"uri": "http://dead/"}})
    inherits = triggers.plan(stored(trigger()), among(of_broker)).subscription
    assert inherits is not None
    assert (inherits.delivery.retry, inherits.delivery.dead_letter_url) == (9, "http://dead/")
    own = triggers.plan(stored(trigger(delivery={"retry": 1})), among(of_broker)).subscription
    assert own is not None
    assert (own.delivery.retry, own.delivery.dead_letter_url) == (1, None)


def test_dead_letters_never_come_back_to_their_own_broker() -> None:
    ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "orders"}
    plan = triggers.plan(stored(trigger(delivery={"deadLetterSink": {"ref": ref}})), among(ready_broker()))
    assert plan.subscription is None
    assert condition_of(plan, "DeadLetterSinkResolved") == ("False", "DeadLetterSinkLoops")


def test_the_dispatchers_refusal_is_the_triggers_reason() -> None:
    plan = triggers.plan(stored(trigger()), among(ready_broker()))
    now = datetime.now(UTC)
    assert triggers.subscription_ready(plan, None, now).status == "True"
    report = QueryReport(topic="t", state="refused", reason="not enough slots")
    refused = triggers.subscription_ready(plan, report, now)
    assert (refused.status, refused.message) == ("False", "not enough slots")


def noted(resource: Resource, start: triggers.Start) -> Resource:
    plan = triggers.plan(resource, among())
    return {**resource, "status": triggers.status(resource, plan, start, true("SubscriptionReady"), NOON)}


def test_a_start_is_decided_once_per_topic() -> None:
    start = triggers.Start("topic-id", {0: 5, 1: 7}, written=True)
    resource = noted(stored(trigger()), start)
    assert triggers.decided_start(resource, triggers.Topic("t", "topic-id", 2)) == start
    assert triggers.decided_start(resource, triggers.Topic("t", "made-anew", 2)) is None


def test_partitions_that_come_later_are_seen_from_their_beginning() -> None:
    grown = triggers.Start("topic-id", {0: 5, 1: 7}, written=True).covering(4)
    assert grown == triggers.Start("topic-id", {0: 5, 1: 7, 2: 0, 3: 0}, written=False)


def test_where_a_trigger_starts() -> None:
    new, of = stored(trigger()), ready_broker()
    assert not triggers.starts_at_earliest(new, of)
    asked = stored(annotated(trigger(), **{"penstock.dev/start": "earliest"}))
    assert triggers.starts_at_earliest(asked, of)
    waited = triggers.decided_start_before_topic(new, None)
    assert waited is not None
    assert triggers.starts_at_earliest(noted(new, waited), of)  # it was there before the topic
    late = stored(annotated(trigger(), **{"penstock.dev/start": "latest"}))
    assert triggers.asked_start(late) is None
    assert not triggers.starts_at_earliest(noted(late, waited), of)  # even though it was there before the topic
    moved = noted(new, triggers.Start("older-topic", {0: 9}))
    assert triggers.starts_at_earliest(moved, of)  # the topic was made anew
    assert triggers.decided_start_before_topic(new, of) is None  # the topic is only away for a moment


def test_a_subscriber_that_is_gone_gets_nothing_until_somebody_says_so() -> None:
    """Kept promise: 410 disables with a condition; another address, or a resume, ends it."""
    resource = stored(trigger())
    found = triggers.plan(resource, among(ready_broker()))
    assert found.subscription is not None
    gone = Gone(TOPIC.name, found.subscription.subscriber_url)
    assert gone.is_about(found.subscription)
    disabled = triggers.disabled(found)
    assert disabled.subscription is not None
    assert disabled.subscription.is_paused(NOON.timestamp())
    condition = triggers.subscription_ready(disabled, None, NOON)
    assert (condition.status, condition.reason) == ("False", "SubscriberGone")
    assert not Gone(TOPIC.name, "http://elsewhere/").is_about(found.subscription)
    back = annotated(resource, **{"penstock.dev/resumed": "2026-11-15T12:00:00Z"})
    resumed = triggers.plan(back, among(ready_broker()))
    assert resumed.subscription is not None
    assert not gone.is_about(resumed.subscription)


def test_a_gear_may_be_pinned_by_trigger_or_broker() -> None:
    """Kept promise: the trigger's own annotation counts, else its broker's."""
    of = annotated(ready_broker(), **{"penstock.dev/delivery.gear": "live"})
    for notes, expected in (({}, "live"), ({"penstock.dev/delivery.gear": "bulk"}, "bulk")):
        found = triggers.plan(annotated(stored(trigger()), **notes), among(of))
        assert found.subscription is not None
        assert found.subscription.gear == expected
