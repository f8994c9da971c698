"""Sources: records of a topic that others write to, delivered as events."""

import base64
import struct
from typing import Any

import pytest

from tests.conformance.api import condition
from tests.conformance.kafka_topics import Topics
from tests.conformance.sending import attributes_of, ids
from tests.conformance.stage import Stage
from tests.conformance.statuses import check_conditions
from tests.sink import Answer
from tests.waiting import until

NEEDS = ("KafkaSource",)
KEY_TYPE = "kafkasources.sources.knative.dev/key-type"


def event(id_: str) -> dict[str, bytes]:
    """The headers of a record that is an event in binary mode."""
    told = {"specversion": "1.0", "id": id_, "source": "/written", "type": "written", "ext": "x"}
    return {f"ce_{name}": value.encode() for name, value in told.items()} | {"content-type": b"text/plain"}


def source(stage: Stage, name: str, *topics: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
    """Its events come to the path of its name, unless the spec has another sink."""
    whole = {"bootstrapServers": [stage.bootstrap_servers], "topics": list(topics), "sink": stage.to(f"/{name}")}
    stage.make("KafkaSource", name, whole | spec, labels=labels or {})


@pytest.fixture(scope="module")
def plain(stage: Stage, topics: Topics) -> str:
    """A source that is ready: its topic."""
    topic = topics.create(stage.name("plain"))
    source(stage, "plain", topic)
    stage.until_ready("KafkaSource", "plain")
    return topic


def test_event_in_binary_mode(stage: Stage, topics: Topics, plain: str) -> None:
    """A record that is an event in binary mode is delivered as this event."""
    topics.write(plain, b"\x00data", headers=event("binary"))
    request = stage.came("/plain", "binary")
    found = attributes_of(request)
    assert request.body == b"\x00data"
    assert (found["source"], found["type"], found["ext"]) == ("/written", "written", "x")
    assert found["datacontenttype"] == "text/plain"


def test_event_in_structured_mode(stage: Stage, topics: Topics, plain: str) -> None:
    """A record that is an event in structured mode is delivered as this event."""
    value = b'{"specversion":"1.0","id":"structured","source":"/written","type":"written","data_base64":"AGRhdGE="}'
    topics.write(plain, value, headers={"content-type": b"application/cloudevents+json"})
    request = stage.came("/plain", "structured")
    assert (attributes_of(request)["type"], request.body) == ("written", b"\x00data")


def test_record_that_is_no_event(stage: Stage, topics: Topics, plain: str) -> None:
    """Any other record becomes an event that tells from where it is; its value is the data."""
    topics.write(plain, b"just text", b"a key", {"Some-Header": b"value", "content-type": b"text/csv"})
    request = until(
        lambda: next((r for r in stage.subscriber.at("/plain") if r.body == b"just text"), None), "the event", 30
    )
    found = attributes_of(request)
    where = f"/apis/v1/namespaces/{stage.api.namespace}/kafkasources/{stage.name('plain')}#{plain}"
    assert (found["specversion"], found["type"], found["source"]) == ("1.0", "dev.knative.kafka.event", where)
    offset = found["id"].removeprefix("partition:0/offset:")
    assert offset.isdigit()
    assert found["subject"] == f"partition:0#{offset}"
    assert (found["key"], found["partitionkey"]) == ("a key", "a key")
    assert (found["kafkaheadersomeheader"], found["datacontenttype"]) == ("value", "text/csv")
    assert found["time"]


def test_record_without_anything(stage: Stage, topics: Topics, plain: str) -> None:
    """A record without key, value and headers is an event too, and stops nothing."""
    before = stage.subscriber.count("/plain")
    topics.write(plain, None)
    topics.write(plain, b"x", headers=event("after nothing"))
    stage.came("/plain", "after nothing")
    empty = stage.subscriber.at("/plain")[before]
    assert (attributes_of(empty)["type"], empty.body) == ("dev.knative.kafka.event", b"")


KEYS = {
    "string": ("k ä".encode(), "k ä"),
    "int": (struct.pack(">i", -42), "-42"),
    "float": (struct.pack(">d", 0.5), "0.5"),
    "byte-array": (b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
}


@pytest.fixture(scope="module")
def keyed(stage: Stage, topics: Topics) -> dict[str, str]:
    """A source for each type of key: its topic."""
    found = {kind: topics.create(stage.name(f"key-{kind}")) for kind in KEYS}
    for kind, topic in found.items():
        source(stage, f"key-{kind}", topic, labels={KEY_TYPE: kind})
    for kind in KEYS:
        stage.until_ready("KafkaSource", f"key-{kind}")
    for kind, topic in found.items():
        topics.write(topic, b"x", KEYS[kind][0])
    return found


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize("kind", KEYS)
def test_type_of_the_key(stage: Stage, kind: str) -> None:
    """A label says what keys are; numbers are told as numbers and bytes in base64."""
    assert attributes_of(stage.subscriber.wait_for(1, f"/key-{kind}")[0])["key"] == KEYS[kind][1]


def test_several_topics(stage: Stage, topics: Topics) -> None:
    """One source reads all of its topics."""
    names = [topics.create(stage.name(f"several-{n}")) for n in range(2)]
    source(stage, "several", *names)
    stage.until_ready("KafkaSource", "several")
    for number, topic in enumerate(names):
        topics.write(topic, b"x", headers=event(f"of-{number}"))
    assert sorted(ids(stage.subscriber.wait_for(2, "/several"))) == ["of-0", "of-1"]


@pytest.fixture(scope="module")
def offsets(stage: Stage, topics: Topics) -> None:
    """Two sources of a topic that has a record already, and gets another one when both are ready."""
    topic = topics.create(stage.name("offsets"))
    topics.write(topic, b"x", headers=event("before"))
    source(stage, "latest", topic)
    source(stage, "earliest", topic, initialOffset="earliest")
    stage.until_ready("KafkaSource", "latest")
    stage.until_ready("KafkaSource", "earliest")
    topics.write(topic, b"x", headers=event("after"))


@pytest.mark.usefixtures("offsets")
def test_initial_offset_latest(stage: Stage) -> None:
    """Unless told otherwise, a source delivers what is written from when it is ready on."""
    stage.came("/latest", "after")
    assert ids(stage.subscriber.at("/latest")) == ["after"]


@pytest.mark.usefixtures("offsets")
def test_initial_offset_earliest(stage: Stage) -> None:
    """A source may begin with what the topic has."""
    assert ids(stage.subscriber.wait_for(2, "/earliest")) == ["before", "after"]


def test_sources_are_ordered(stage: Stage, topics: Topics) -> None:
    """Unless told otherwise, a partition's records come in their order, also when something is tried again."""
    topic = topics.create(stage.name("ordered"))
    source(stage, "ordered", topic, delivery={"retry": 2, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"})
    stage.until_ready("KafkaSource", "ordered")
    stumbles = iter([503, 503])
    stage.subscriber.answer(
        "/ordered", with_=lambda request: Answer(next(stumbles, 200) if request.headers["ce-id"] == "2" else 200)
    )
    for n in range(5):
        topics.write(topic, b"x", headers=event(str(n)))
    assert ids(stage.subscriber.wait_for(7, "/ordered")) == ["0", "1", "2", "2", "2", "3", "4"]


def test_dead_letter(stage: Stage, topics: Topics) -> None:
    """What the sink does not take, after all retries, goes to the dead letter sink."""
    topic = topics.create(stage.name("strict"))
    sink = {"deadLetterSink": stage.to("/dead"), "retry": 1, "backoffDelay": "PT0.05S"}
    source(stage, "strict", topic, delivery=sink)
    stage.until_ready("KafkaSource", "strict")
    stage.subscriber.answer("/strict", with_=lambda _: Answer(503))
    topics.write(topic, b"x", headers=event("refused"))
    assert attributes_of(stage.came("/dead", "refused"))["knativeerrorcode"] == "503"
    assert stage.subscriber.count("/strict") == 2


def test_overrides(stage: Stage, topics: Topics) -> None:
    """``ceOverrides.extensions`` are attributes that every event gets."""
    topic = topics.create(stage.name("overrides"))
    source(stage, "overrides", topic, ceOverrides={"extensions": {"added": "yes", "ext": "y"}})
    stage.until_ready("KafkaSource", "overrides")
    topics.write(topic, b"x", headers=event("a"))
    found = attributes_of(stage.came("/overrides", "a"))
    assert (found["added"], found["ext"]) == ("yes", "y")


def test_sink_by_reference(stage: Stage, topics: Topics) -> None:
    """The sink of a source may be a broker, named by reference: its triggers see the records."""
    address = stage.broker("sink")
    stage.trigger("at-broker", "sink")
    stage.until_ready("Trigger", "at-broker")
    topic = topics.create(stage.name("to-broker"))
    source(stage, "to-broker", topic, sink={"ref": stage.reference("Broker", "sink")})
    assert stage.until_ready("KafkaSource", "to-broker")["status"]["sinkUri"] == address
    topics.write(topic, b"x", headers=event("through"))
    stage.came("/at-broker", "through")


def test_consumer_group(stage: Stage, topics: Topics) -> None:
    """The progress of a source is that of the consumer group it names, as every tool of Kafka shows it."""
    topic, group = topics.create(stage.name("group")), stage.name("a-group")
    source(stage, "group", topic, consumerGroup=group)
    stage.until_ready("KafkaSource", "group")
    topics.write(topic, b"x", headers=event("a"))
    stage.came("/group", "a")
    until(lambda: topics.committed(group, topic) == 1, "the position of the group", 30)


@pytest.mark.usefixtures("plain")
def test_status(stage: Stage) -> None:
    """A ready source tells the address of its sink, in conditions that are well formed."""
    found = stage.get("KafkaSource", "plain")
    assert found["status"]["sinkUri"] == stage.to("/plain")["uri"]
    assert condition(found, "SinkProvided")["status"] == "True"
    check_conditions(found)


def test_sink_that_cannot_be_resolved(stage: Stage, plain: str) -> None:
    """A source whose sink does not exist is not ready, says why, and has no address of it."""
    source(stage, "lost", plain, sink={"ref": stage.reference("Broker", "nobody")})
    found = stage.until_not_ready("KafkaSource", "lost", about="nobody")
    assert condition(found, "SinkProvided")["status"] == "False"
    assert not found["status"].get("sinkUri")
    check_conditions(found)


def test_topic_that_is_missing(stage: Stage, topics: Topics) -> None:
    """A source whose topic does not exist is not ready; once it exists, the source is, by itself."""
    topic = stage.name("late")
    source(stage, "late", topic)

    def reason() -> object:
        ready = condition(stage.get("KafkaSource", "late"), "Ready")
        return ready.get("status") != "True" and ready.get("reason")

    until(reason, "a reason", 30)
    topics.create(topic)
    stage.until_ready("KafkaSource", "late")


INVALID: dict[str, dict[str, Any]] = {
    "no-topics": {"topics": []},
    "no-servers": {"bootstrapServers": []},
    "unknown-offset": {"initialOffset": "middle"},
    "unknown-order": {"ordering": "sideways"},
    "no-sink": {"sink": None},
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_spec_is_refused(stage: Stage, name: str) -> None:
    """What makes no sense is refused when it is applied, with the reason."""
    good = {"bootstrapServers": ["localhost:9092"], "topics": ["t"], "sink": stage.to("/")}
    spec = {field: value for field, value in (good | INVALID[name]).items() if value is not None}
    answer = stage.api.create(stage.resource("KafkaSource", f"invalid-{name}", spec))
    assert 400 <= answer.status < 500
    assert answer.body
