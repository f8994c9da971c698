"""What the receiver says about itself on /metrics is what it did."""

from prometheus_client.parser import text_string_to_metric_families

from penstock.contract.telemetry import TELEMETRY_TOPIC, Telemetry, decode_telemetry
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import Table
from penstock.telemetry.metrics import BY_NAME, REJECTIONS
from tests.receiver.running import Receiver, give_address, running
from tests.waiting import until

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(receiver: Receiver) -> Samples:
    answer = receiver.ask("GET", "/metrics")
    assert (answer.status, answer.headers["content-type"][:10]) == (200, "text/plain")
    # Its parser gives a counter without "_total" that ending.
    text = answer.body.decode().replace("# TYPE eventing_kafka_produced_msg_count counter", "")
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def of(found: Samples, metric: str, **labels: str) -> float:
    return sum(v for (name, has), v in found.items() if name == metric and labels.items() <= dict(has).items())


def test_events_and_refusals_are_counted(kafka: KafkaConnection) -> None:
    """Accepted by address, refused by reason, and how long it took; all names are in the list of metrics."""
    path, topic = give_address(kafka, "counted")
    batch = b",".join(b'{"specversion":"1.0","id":"b%d","source":"/s","type":"t"}' % n for n in range(3))
    json_batch = {"Content-Type": "application/cloudevents-batch+json"}
    with running(kafka) as receiver:
        until(lambda: receiver.ask("POST", path, b"[" + batch + b"]", json_batch).status == 202, "the address")
        for _ in range(7):
            assert receiver.send(path).status == 202
        assert receiver.send(path, ce_specversion="9").status == 400
        assert receiver.send("/tests/nobody").status == 404
        assert receiver.ask("GET", path).status == 405
        assert receiver.raw(b"rubbish\r\n\r\n").status == 400
        # What was counted appears once a second, so the last one to be sent is waited for.
        rejected = "penstock_events_rejected_total"
        until(lambda: of(samples(receiver), rejected, reason="bad request") == 1, "counts")
        found = samples(receiver)
    assert of(found, "penstock_events_accepted_total", kind="Broker", namespace="tests", name="counted") == 10
    assert of(found, rejected, name="counted", reason="bad event") == 1
    assert of(found, rejected, name="counted", reason="wrong method") == 1
    assert of(found, rejected, name="", reason="unknown address") >= 1  # and as often as ours was not known yet
    assert of(found, "penstock_events_produced_total", topic=topic) == 10
    assert of(found, "eventing_kafka_produced_msg_count", topic=topic) == 10
    assert of(found, "penstock_ingress_seconds_count", name="counted") == 8  # requests
    known = set(BY_NAME) | {f"{name}_{part}" for name in BY_NAME for part in ("bucket", "sum", "count")}
    assert {name for name, _ in found} <= known
    reasons = {dict(labels)["reason"] for name, labels in found if name.endswith("rejected_total")}
    assert reasons <= set(REJECTIONS)


def test_several_processes_answer_with_the_sum(kafka: KafkaConnection) -> None:
    """Whichever process of several is asked: its answer holds what all of them accepted."""
    path, _ = give_address(kafka, "summed")
    with running(kafka, receiver_processes=2) as receiver:
        for _ in range(21):  # each process has to hear of the address first
            until(lambda: receiver.send(path).status == 202, "the address")
        for _ in range(4):  # each asks another process, as the system pleases
            until(lambda: of(samples(receiver), "penstock_events_accepted_total", name="summed") == 21, "sum")


def test_the_same_goes_to_the_telemetry_topic(receiver: Receiver, kafka: KafkaConnection) -> None:
    """For the controller, once a second."""
    topics.create_missing(kafka.admin(), [topics.TopicSpec(TELEMETRY_TOPIC, config=topics.SHORT_LIVED)])
    path, topic = give_address(kafka, "told")
    told: list[Telemetry] = []

    def take(_key: str, value: bytes | None) -> None:
        found = decode_telemetry(value or b"{}")
        if found.part == "receiver" and found.accepted.get(path):
            told.append(found)

    table = Table(kafka, TELEMETRY_TOPIC, take).start()
    try:
        table.wait_until_current()
        until(lambda: receiver.send(path).status == 202, "the address")
        for _ in range(4):
            assert receiver.send(path).status == 202
        until(lambda: sum(each.accepted[path] for each in told) == 5, "telemetry")
    finally:
        table.stop()
    last = told[-1]
    assert last.produced[topic] == last.accepted[path]
    assert last.ingress[path].count == last.accepted[path]
