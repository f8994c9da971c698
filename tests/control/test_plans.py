"""What brokers and triggers come to, given the others: values in, values out."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.contract.model import Delivery, Gone, QueryReport, Route, decode_agreement, encode
from penstock.control import brokers, egress, ingress, starts, triggers
from penstock.control.conditions import true
from penstock.control.egress import Plan, Told
from penstock.control.ingress import Configured, Findings, Surroundings
from penstock.control.kinds import Resource, key_of
from penstock.control.secrets import Secrets
from penstock.control.settings import ControllerSettings
from penstock.control.starts import BEFORE_TOPIC, Start
from penstock.errors import Misconfigured
from penstock.kafka.topics import TopicState
from tests.control.objects import NOON, annotated, broker, config_map, stored, trigger

SECRETS = Secrets(Path("/nowhere"))
SETTINGS = ControllerSettings(bootstrap_servers="kafka:9092")
TOPIC = TopicState("knative-broker-default-orders", "topic-id", 4)
CONFIGURED = {"apiVersion": "v1", "kind": "ConfigMap", "name": "kafka-config"}


def among(*resources: Resource) -> Surroundings:
    known = {key_of(each): each for each in resources}

    def of_kind(kind: str) -> list[Resource]:
        return [each for each in resources if each["kind"] == kind]

    return Surroundings(
        lambda kind, namespace, name: known.get(f"{kind}/{namespace}/{name}"), of_kind, SETTINGS, SECRETS
    )


def configured(resource: Resource, config_map: Resource | None = None) -> Configured:
    return brokers.configure(resource, among(config_map) if config_map else among())


def planned(resource: Resource, *others: Resource) -> Plan:
    return triggers.plan(resource, among(*others), lambda *_: {})


def ready_broker(topic: TopicState | None = TOPIC, **spec: Any) -> Resource:
    resource = stored(broker(**spec), "broker-uid")
    config = configured(resource)
    address = "http://ingress:8080/default/orders"
    findings = Findings((true("TopicReady"),), config, topic, address=address)
    return {**resource, "status": ingress.status(resource, findings, NOON)}


def condition_of(plan: Plan, type_: str) -> tuple[str, str]:
    [found] = [each for each in plan.conditions if each.type == type_]
    return found.status, found.reason


def test_a_broker_without_config_gets_the_defaults() -> None:
    config = configured(stored(broker()))
    assert (config.topic.name, config.topic.partitions, config.topic.replication_factor) == (TOPIC.name, 4, 0)
    assert config.topic.config["message.timestamp.type"] == "LogAppendTime"
    assert config.may_create


def test_the_config_map_decides_about_the_topic() -> None:
    given = config_map(
        default_topic_partitions="2", default_topic_replication_factor="1", default_topic_config_retention_ms="60000"
    )
    config = configured(stored(broker(config=CONFIGURED)), stored(given))
    assert config.topic.partitions == 2
    assert config.topic.config["retention.ms"] == "60000"


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1.5"])
def test_a_config_map_that_makes_no_sense_is_named(text: str) -> None:
    given = stored(config_map(default_topic_partitions=text))
    with pytest.raises(Misconfigured, match=r"default\.topic\.partitions"):
        configured(stored(broker(config=CONFIGURED)), given)


def test_a_new_topic_has_no_more_partitions_than_the_setting_allows_and_an_old_one_keeps_its_own() -> None:
    wide = stored(config_map(default_topic_partitions="500"))
    with pytest.raises(Misconfigured, match="at most 256, the setting most_partitions; it is 500"):
        configured(stored(broker(config=CONFIGURED)), wide)
    before = ready_broker(TopicState(TOPIC.name, "topic-id", 500))
    there = {**before, "spec": {"config": CONFIGURED}}
    assert configured(there, wide).topic.partitions == 500


def test_a_broker_survives_its_config_map() -> None:
    resource = stored(broker(config=CONFIGURED))
    with pytest.raises(Misconfigured, match="does not exist"):
        configured(resource)
    config = configured(resource, stored(config_map(default_topic_partitions="2")))
    settled = {**resource, "status": ingress.status(resource, Findings((), config, TOPIC), NOON)}
    assert configured(settled).topic.partitions == 2


def test_the_agreement_of_a_broker_is_its_route() -> None:
    agreement = ingress.agreement(stored(broker()), configured(stored(broker())))
    assert agreement.routes == (Route(path="/default/orders", topic=TOPIC.name),)


def test_a_trigger_of_a_ready_broker_is_a_subscription() -> None:
    given = stored(
        trigger(filter={"attributes": {"type": "a"}}, delivery={"retry": 3, "backoffDelay": "PT1S"}), "uid"
    )
    plan = planned(given, ready_broker())
    [subscription] = plan.subscriptions
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
    [found] = planned(stored(trigger(delivery=asked)), ready_broker()).subscriptions
    assert found.delivery == Delivery(
        retry=3,
        backoff_policy="linear",
        backoff_delay_seconds=0.5,
        timeout_seconds=7.0,
        retry_after_max_seconds=0.0,
        dead_letter_url="http://dead.example/",
        format="json",
    )
    [unasked] = planned(stored(trigger()), ready_broker()).subscriptions
    assert unasked.delivery == Delivery(retry=0)
    assert unasked.reply_topic == TOPIC.name


def test_filters_replace_filter() -> None:
    both = stored(trigger(filter={"attributes": {"type": "a"}}, filters=[{"exact": {"type": "b"}}]))
    plan = planned(both, ready_broker())
    assert plan.subscriptions[0].filters == ({"exact": {"type": "b"}},)


def test_order_is_a_choice() -> None:
    ordered = annotated(trigger(), **{"kafka.eventing.knative.dev/delivery.order": "ordered"})
    plan = planned(stored(ordered), ready_broker())
    assert plan.subscriptions[0].order == "ordered"


def test_a_trigger_without_its_broker_is_no_subscription() -> None:
    plan = planned(stored(trigger()))
    assert not plan.subscriptions
    assert condition_of(plan, "BrokerReady") == ("False", "BrokerDoesNotExist")


def test_a_broker_that_is_being_deleted_counts_as_gone() -> None:
    leaving = ready_broker()
    leaving["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z"
    assert not planned(stored(trigger()), leaving).subscriptions


def test_a_subscriber_that_cannot_be_found_has_a_reason_and_no_uri() -> None:
    lost = stored(trigger(subscriber={"ref": {"apiVersion": "x/v1", "kind": "Broker", "name": "lost"}}))
    plan = planned(lost, ready_broker())
    assert (plan.subscriptions, plan.shown["subscriberUri"]) == ((), None)
    assert condition_of(plan, "SubscriberResolved") == ("False", "NotFound")


def test_a_subscriber_by_reference_is_the_address_of_the_resource() -> None:
    ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "orders"}
    plan = planned(stored(trigger(subscriber={"ref": ref})), ready_broker())
    assert plan.shown["subscriberUri"] == "http://ingress:8080/default/orders"
    below = planned(stored(trigger(subscriber={"ref": ref, "uri": "?x=1"})), ready_broker())
    assert below.shown["subscriberUri"] == "http://ingress:8080/default/orders?x=1"


def test_a_trigger_with_any_delivery_setting_ignores_the_brokers() -> None:
    of_broker = ready_broker(delivery={"retry": 9, "deadLetterSink": {"uri": "http://dead/"}})
    [inherits] = planned(stored(trigger()), of_broker).subscriptions
    assert (inherits.delivery.retry, inherits.delivery.dead_letter_url) == (9, "http://dead/")
    [own] = planned(stored(trigger(delivery={"retry": 1})), of_broker).subscriptions
    assert (own.delivery.retry, own.delivery.dead_letter_url) == (1, None)


@pytest.mark.parametrize("uri", ["http://INGRESS.:8080/default/orders", "http://ingress:8080/default/orders/?x=1"])
def test_no_spelling_hides_that_dead_letters_come_back(uri: str) -> None:
    """Kept promise: the trigger's own broker is refused as a dead letter sink however its address is written."""
    plan = planned(stored(trigger(delivery={"deadLetterSink": {"uri": uri}})), ready_broker())
    assert not plan.subscriptions
    assert condition_of(plan, "DeadLetterSinkResolved") == ("False", "DeadLetterSinkLoops")


def test_dead_letters_never_come_back_to_their_own_broker() -> None:
    ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "orders"}
    plan = planned(stored(trigger(delivery={"deadLetterSink": {"ref": ref}})), ready_broker())
    assert not plan.subscriptions
    assert condition_of(plan, "DeadLetterSinkResolved") == ("False", "DeadLetterSinkLoops")


def test_the_dispatchers_refusal_is_the_triggers_reason() -> None:
    plan = planned(stored(trigger()), ready_broker())
    now = datetime.now(UTC)
    report = QueryReport(topic="t", state="refused", reason="not enough slots")
    refused = egress.served(plan, Told((report,)), now)
    assert (refused.status, refused.message) == ("False", "not enough slots")


def test_a_filter_that_the_dispatcher_refuses_is_the_reason_of_its_trigger_alone() -> None:
    """Kept promise: a trigger with an invalid filter has that as a condition; the others of the topic are served."""
    plan = planned(stored(trigger()), ready_broker())
    [subscription] = plan.subscriptions
    report = QueryReport(TOPIC.name, "running", refused={subscription.uid: "filters[0].exact: wrong"})
    refused = egress.served(plan, Told((report,)), NOON)
    assert (refused.status, refused.reason) == ("False", "FilterRefused")
    assert refused.message == "filters[0].exact: wrong"
    fine = QueryReport(TOPIC.name, "running", subscriptions=(subscription.uid,), versions=(subscription.version,))
    others = msgspec.structs.replace(fine, refused={"somebody": "wrong"})
    assert egress.served(plan, Told((others,)), NOON).status == "True"


def test_a_change_is_ready_when_it_is_in_force() -> None:
    """Kept promise: while the earlier filter or address is still served, the trigger does not say Ready."""
    before = planned(stored(trigger()), ready_broker())
    [served] = before.subscriptions
    report = QueryReport(TOPIC.name, "running", subscriptions=(served.uid,), versions=(served.version,))
    assert egress.served(before, Told((report,)), NOON).status == "True"
    changed = planned(stored(trigger(filter={"attributes": {"type": "b"}})), ready_broker())
    taking = egress.served(changed, Told((report,)), NOON)
    assert (taking.status, taking.reason) == ("Unknown", "TakingOver")
    assert egress.served(changed, Told((report,), is_alive=False), NOON).status == "True"  # the next one begins anew


def test_a_trigger_is_ready_when_the_dispatcher_serves_it() -> None:
    """Kept promise: Ready means that an event sent now arrives; a trigger that no query serves yet is not Ready."""
    plan = planned(stored(trigger()), ready_broker())
    other = QueryReport(TOPIC.name, "running", subscriptions=("somebody",), versions=("v",))
    for told in (Told(), Told((other,))):
        waits = egress.served(plan, told, NOON)
        assert (waits.status, waits.reason) == ("Unknown", "NotServedYet")
    assert egress.served(plan, Told(is_alive=False), NOON).status == "True"  # the next one begins with it


def test_a_failure_of_an_isolated_query_is_the_triggers_reason() -> None:
    """Kept promise: a trigger whose own query does not run is not Ready; the others of its topic stay Ready."""
    plan = planned(stored(trigger()), ready_broker())
    [served] = plan.subscriptions
    fine = QueryReport(TOPIC.name, "running", subscriptions=(served.uid,), versions=(served.version,))
    mine = msgspec.structs.replace(fine, failures={served.uid: "no room"})
    failed = egress.served(plan, Told((mine,)), NOON)
    assert (failed.status, failed.reason) == ("False", "QueryFailed")
    assert "no room" in failed.message
    others = msgspec.structs.replace(fine, failures={"somebody": "no room"})
    assert egress.served(plan, Told((others,)), NOON).status == "True"


@pytest.mark.parametrize(
    "delivery",
    [
        {"retry": 4, "backoffPolicy": "exponential"},
        {"timeout": "PT30S"},
        {"format": "binary", "backoffDelay": "PT3S"},
    ],
)
def test_a_delivery_that_spells_out_a_default_is_in_force_too(delivery: dict[str, Any]) -> None:
    """Kept promise: what the dispatcher serves is recognised as what was agreed, however it was written."""
    applied = json.loads(json.dumps(trigger(delivery=delivery)))  # as it comes in: no value is one of our own objects
    plan = planned(stored(applied), ready_broker())
    [read] = decode_agreement(encode(egress.agreement(stored(applied), plan.subscriptions))).subscriptions
    report = QueryReport(TOPIC.name, "running", subscriptions=(read.uid,), versions=(read.version,))
    assert egress.served(plan, Told((report,)), NOON).status == "True"


def noted(resource: Resource, start: Start) -> Resource:
    plan = planned(resource)
    status = egress.status(resource, plan, {TOPIC.name: start}, true("SubscriptionReady"), NOON)
    return {**resource, "status": status}


def test_a_start_is_decided_once_per_topic() -> None:
    start = Start("topic-id", {0: 5, 1: 7}, written=True)
    resource = noted(stored(trigger()), start)
    assert starts.decided(resource, "topic-id") == start
    assert starts.decided(resource, "made-anew") is None


def test_partitions_that_come_later_are_seen_from_their_beginning() -> None:
    grown = Start("topic-id", {0: 5, 1: 7}, written=True).covering(4)
    assert grown == Start("topic-id", {0: 5, 1: 7, 2: 0, 3: 0}, written=False)


def test_where_a_trigger_starts() -> None:
    new, of = stored(trigger()), ready_broker()
    assert not planned(new, of).begin.earliest
    asked = stored(annotated(trigger(), **{"penstock.dev/start": "earliest"}))
    assert planned(asked, of).begin.earliest
    assert planned(new).missing == (TOPIC.name,)
    assert planned(noted(new, BEFORE_TOPIC), of).begin.earliest  # it was there before the topic
    late = stored(annotated(trigger(), **{"penstock.dev/start": "latest"}))
    assert not planned(noted(late, BEFORE_TOPIC), of).begin.earliest  # even though it was there before the topic
    assert planned(late, of).begin.since is None
    moved = noted(new, Start("older-topic", {0: 9}))
    assert planned(moved, of).begin.earliest  # the topic was made anew


def test_a_start_of_an_earlier_version_is_still_known() -> None:
    """Kept promise: who upgrades does not begin anew."""
    note = '{"topicId":"topic-id","positions":{"0":5},"written":true}'
    resource = {**stored(trigger()), "status": {"annotations": {"penstock.dev/start-positions": note}}}
    assert starts.decided(resource, "topic-id") == Start("topic-id", {0: 5}, written=True)


def test_a_subscriber_that_is_gone_gets_nothing_until_somebody_says_so() -> None:
    """Kept promise: 410 disables with a condition; another address, or a resume, ends it."""
    resource = stored(trigger())
    found = planned(resource, ready_broker())
    gone = Gone(TOPIC.name, found.subscriptions[0].subscriber_url)
    assert gone.is_about(found.subscriptions[0])
    disabled = egress.disabled(found)
    assert disabled.subscriptions[0].is_paused(NOON.timestamp())
    condition = egress.served(disabled, Told(), NOON)
    assert (condition.status, condition.reason) == ("False", "SubscriberGone")
    assert not Gone(TOPIC.name, "http://elsewhere/").is_about(found.subscriptions[0])
    back = annotated(resource, **{"penstock.dev/resumed": "2026-11-15T12:00:00Z"})
    resumed = planned(back, ready_broker())
    assert not gone.is_about(resumed.subscriptions[0])


def test_a_gear_may_be_pinned_by_trigger_or_broker() -> None:
    """Kept promise: the trigger's own annotation counts, else its broker's."""
    of = annotated(ready_broker(), **{"penstock.dev/delivery.gear": "live"})
    for notes, expected in (({}, "live"), ({"penstock.dev/delivery.gear": "bulk"}, "bulk")):
        found = planned(annotated(stored(trigger()), **notes), of)
        assert found.subscriptions[0].gear == expected
