"""The controller on a real Kafka: what people apply comes true, and stays true through kills and deletions."""

from datetime import UTC, datetime

from penstock.contract.model import REPORT_TOPIC, QueryReport, encode
from penstock.control.egress import DEAD_LETTERS_RETURN
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ledger import LaneKey, read_ledger
from penstock.kafka.table import put
from tests.control.conftest import TOPIC, Running, produce, starts
from tests.control.objects import annotated, broker, config_map, referred, sink, source, trigger
from tests.sink import Answer
from tests.waiting import until


def test_a_broker_becomes_a_topic_a_route_and_an_address(running: Running, kafka: KafkaConnection) -> None:
    running.apply(broker())
    ready = running.ready("Broker", "orders")
    assert ready["status"]["address"]["url"] == f"{running.ingress.url}/default/orders"
    assert ready["status"]["observedGeneration"] == ready["metadata"]["generation"]
    types = [each["type"] for each in ready["status"]["conditions"]]
    assert types == ["Addressable", "ConfigMapUpdated", "ConfigParsed", "DataPlaneAvailable", "ProbeSucceeded",
                     "Ready", "TopicReady"]  # fmt: skip
    assert topics.describe(kafka.admin(), [TOPIC])[TOPIC].partitions == 2
    agreement = running.agreement("Broker/default/orders")
    assert agreement is not None
    assert agreement.routes[0].topic == TOPIC


def test_a_broker_is_ready_only_when_the_receiver_knows_it(running: Running) -> None:
    ingress = running.ingress
    ingress.answer("/default/orders", status=404)
    running.apply(broker())
    assert running.condition("Broker", "orders", "ProbeSucceeded", "False")["reason"] == "RouteUnknown"
    ingress.answer("/readyz", status=503)
    assert running.condition("Broker", "orders", "DataPlaneAvailable", "False")["reason"] == "ReceiverNotReady"
    ingress.answer("/readyz", status=200)
    ingress.answer(
        "/default/orders", with_=lambda r: Answer(200, headers={"K-Network-Hash": r.headers["k-network-hash"]})
    )
    running.ready("Broker", "orders")


def test_a_new_trigger_sees_events_from_its_creation_on(running: Running, kafka: KafkaConnection) -> None:
    running.apply(broker())
    running.ready("Broker", "orders")
    produce(kafka, TOPIC, 6)
    uid = running.apply(trigger())["metadata"]["uid"]
    ready = running.ready("Trigger", "audit")
    assert ready["status"]["subscriberUri"] == "http://sink.example/"
    assert starts(kafka, uid) == {0: 3, 1: 3}
    agreement = running.agreement("Trigger/default/audit")
    assert agreement is not None
    assert agreement.subscriptions[0].topic == TOPIC
    lanes = until(lambda: running.controller.lag.read().get("Trigger/default/audit"))
    assert [(lane.position, lane.end, lane.lag) for lane in lanes] == [(3, 3, 0), (3, 3, 0)]


def test_a_trigger_may_ask_for_everything(running: Running, kafka: KafkaConnection) -> None:
    running.apply(broker())
    running.ready("Broker", "orders")
    produce(kafka, TOPIC, 4)
    uid = running.apply(annotated(trigger(), **{"penstock.dev/start": "earliest"}))["metadata"]["uid"]
    running.ready("Trigger", "audit")
    assert starts(kafka, uid) == {0: 0, 1: 0}


def test_a_trigger_may_ask_for_a_time(running: Running, kafka: KafkaConnection) -> None:
    running.apply(broker())
    running.ready("Broker", "orders")
    produce(kafka, TOPIC, 4)
    before = topics.latest_offsets(kafka.admin(), TOPIC, 2)
    instant = until(lambda: _later_than_the_last_record(kafka), "a moment between the two")
    produce(kafka, TOPIC, 4)
    uid = running.apply(annotated(trigger(), **{"penstock.dev/start": instant}))["metadata"]["uid"]
    running.ready("Trigger", "audit")
    assert starts(kafka, uid) == before


def _later_than_the_last_record(kafka: KafkaConnection) -> str | None:
    """A time after which nothing has come yet."""
    now = datetime.now(UTC)
    ends = topics.latest_offsets(kafka.admin(), TOPIC, 2)
    is_later = topics.offsets_at(kafka.admin(), TOPIC, 2, now.timestamp() - 0.05) == ends
    return now.isoformat().replace("+00:00", "Z") if is_later else None


def test_a_trigger_may_come_before_its_broker(running: Running, kafka: KafkaConnection) -> None:
    uid = running.apply(trigger())["metadata"]["uid"]
    assert running.condition("Trigger", "audit", "BrokerReady", "False")["reason"] == "BrokerDoesNotExist"
    running.apply(broker())
    running.ready("Trigger", "audit")
    assert starts(kafka, uid) == {0: 0, 1: 0}


def test_a_deleted_broker_leaves_nothing_behind(running: Running, kafka: KafkaConnection) -> None:
    running.apply(broker())
    running.apply(trigger())
    running.ready("Trigger", "audit")
    running.delete("Broker", "orders")
    assert topics.describe(kafka.admin(), [TOPIC]) == {}
    assert running.agreement("Broker/default/orders") is None
    assert running.condition("Trigger", "audit", "BrokerReady", "False")["reason"] == "BrokerDoesNotExist"
    assert running.agreement("Trigger/default/audit") is None


def test_a_broker_made_anew_is_seen_from_its_first_event(running: Running, kafka: KafkaConnection) -> None:
    running.apply(broker())
    running.ready("Broker", "orders")
    produce(kafka, TOPIC, 6)
    uid = running.apply(trigger())["metadata"]["uid"]
    running.ready("Trigger", "audit")
    running.delete("Broker", "orders")
    running.condition("Trigger", "audit", "Ready", "False")
    running.apply(broker())
    running.ready("Trigger", "audit")
    topic_id = topics.describe(kafka.admin(), [TOPIC])[TOPIC].topic_id
    entry = read_ledger(kafka).entry(LaneKey(uid, topic_id, 0))
    assert entry is not None
    assert entry.record.position == 0


def test_a_deleted_trigger_leaves_nothing_behind(running: Running, kafka: KafkaConnection) -> None:
    running.apply(broker())
    uid = running.apply(trigger())["metadata"]["uid"]
    running.ready("Trigger", "audit")
    running.delete("Trigger", "audit")
    assert starts(kafka, uid) == {}
    assert running.agreement("Trigger/default/audit") is None
    assert running.apply(trigger())["metadata"]["uid"] != uid


def test_an_external_topic_must_exist_and_stays(running: Running, kafka: KafkaConnection) -> None:
    admin = kafka.admin()
    external = annotated(broker("bills"), **{"kafka.eventing.knative.dev/external.topic": "of-somebody-else"})
    running.apply(external)
    assert running.condition("Broker", "bills", "TopicReady", "False")["reason"] == "ExternalTopicMissing"
    topics.create_missing(admin, [topics.TopicSpec("of-somebody-else", 3)])
    running.ready("Broker", "bills")
    running.delete("Broker", "bills")
    assert topics.describe(admin, ["of-somebody-else"])["of-somebody-else"].partitions == 3
    topics.delete(admin, ["of-somebody-else"])


def test_a_broken_config_map_does_not_stop_a_broker(running: Running) -> None:
    running.apply(config_map(default_topic_partitions="3"))
    running.apply(broker(config={"apiVersion": "v1", "kind": "ConfigMap", "name": "kafka-config"}))
    running.apply(trigger())
    running.ready("Trigger", "audit")
    running.apply(config_map(default_topic_partitions="three"))
    assert "three" in running.condition("Broker", "orders", "ConfigParsed", "False")["message"]
    running.condition("Trigger", "audit", "BrokerReady", "False")
    assert running.agreement("Broker/default/orders") is not None
    assert running.agreement("Trigger/default/audit") is not None
    running.delete("ConfigMap", "kafka-config")
    assert running.condition("Broker", "orders", "ConfigParsed", "True")["reason"] == "Remembered"


def test_what_kafka_refuses_is_the_reason(running: Running) -> None:
    running.apply(config_map(default_topic_config_segment_bytes="three"))
    running.apply(broker(config={"apiVersion": "v1", "kind": "ConfigMap", "name": "kafka-config"}))
    refused = running.condition("Broker", "orders", "TopicReady", "False")
    assert refused["reason"] == "TopicRefused"
    assert "three" in refused["message"]


def test_three_copies_are_one_on_a_single_broker(running: Running) -> None:
    """Kept promise: Knative's examples ask for three copies, and work on somebody's own machine."""
    running.apply(config_map(default_topic_replication_factor="3"))
    running.apply(broker(config={"apiVersion": "v1", "kind": "ConfigMap", "name": "kafka-config"}))
    running.condition("Broker", "orders", "TopicReady", "True")


def test_a_query_that_fails_makes_its_triggers_say_so(running: Running, kafka: KafkaConnection) -> None:
    running.apply(broker())
    running.apply(trigger())
    running.ready("Trigger", "audit")
    producer = kafka.producer()
    failed = QueryReport(topic=TOPIC, state="refused", reason="4 partitions need 4 slots, there are 2")
    put(producer, REPORT_TOPIC, f"query/{TOPIC}", encode(failed))
    assert "slots" in running.condition("Trigger", "audit", "SubscriptionReady", "False")["message"]
    put(producer, REPORT_TOPIC, f"query/{TOPIC}", None)
    running.ready("Trigger", "audit")


def test_a_dead_letter_sink_that_writes_to_the_topic_of_its_source_is_refused(
    running: Running, kafka: KafkaConnection
) -> None:
    """Kept promise: what fails never goes straight back to where it came from, also through another resource."""
    running.apply(sink("archive", topic="archived", numPartitions=1))
    running.ready("KafkaSink", "archive")
    dead = {"deadLetterSink": referred("KafkaSink", "archive")}
    running.apply(source("legacy", topics=["archived"], delivery=dead))
    refused = running.condition("KafkaSource", "legacy", "ConsumerGroup", "False")
    assert (refused["reason"], refused["message"]) == ("EndlessLoop", DEAD_LETTERS_RETURN)
    assert running.agreement("KafkaSource/default/legacy") is None
