"""Sinks: an address whose events become records of a topic."""

import json
from typing import Any

import pytest

from tests.conformance.kafka_topics import Topics
from tests.conformance.sending import ask, binary, send
from tests.conformance.stage import Stage
from tests.conformance.statuses import check_conditions
from tests.waiting import until

NEEDS = ("KafkaSink",)


def make_sink(stage: Stage, name: str, topic: str, **spec: Any) -> None:
    stage.make("KafkaSink", name, {"bootstrapServers": [stage.bootstrap_servers], "topic": topic, **spec})


@pytest.fixture(scope="module")
def url(stage: Stage, topics: Topics) -> str:
    """A sink of a topic that is there already."""
    make_sink(stage, "plain", topics.create(stage.name("sink-plain")), contentMode="binary")
    return stage.address("KafkaSink", "plain")


def test_event_becomes_a_record(stage: Stage, topics: Topics, url: str) -> None:
    """With ``contentMode: binary`` attributes are headers of the record, and the data is its value."""
    headers = binary("a", subject="s ä", ext="x") | {"content-type": "text/plain"}
    assert ask("POST", url, b"\x00data", headers).status == 202
    record = topics.read(stage.name("sink-plain"), 1)[0]
    assert record.value == b"\x00data"
    wanted = {"ce_specversion": "1.0", "ce_id": "a", "ce_source": "/conformance", "ce_type": "test", "ce_ext": "x"}
    wanted |= {"ce_subject": "s ä", "content-type": "text/plain"}
    assert {name: record.headers.get(name) for name in wanted} == {n: v.encode() for n, v in wanted.items()}


def test_binary_mode_is_the_default(stage: Stage, topics: Topics) -> None:
    """A sink that names no content mode writes records in binary mode."""
    make_sink(stage, "default", topics.create(stage.name("sink-default")))
    send(stage.address("KafkaSink", "default"), "a", data=b"data")
    assert topics.read(stage.name("sink-default"), 1)[0].value == b"data"


def test_partition_key_is_the_key(stage: Stage, topics: Topics) -> None:
    """The extension ``partitionkey`` is the record's key, so that what belongs together stays in order."""
    make_sink(stage, "keyed", topics.create(stage.name("sink-keyed")))
    send(stage.address("KafkaSink", "keyed"), "a", partitionkey="a key")
    assert topics.read(stage.name("sink-keyed"), 1)[0].key == b"a key"


def test_structured_mode(stage: Stage, topics: Topics) -> None:
    """With ``contentMode: structured`` the whole event is the value, as JSON."""
    make_sink(stage, "structured", topics.create(stage.name("sink-structured")), contentMode="structured")
    send(stage.address("KafkaSink", "structured"), "a", data=b'{"x": 1}', ext="x")
    record = topics.read(stage.name("sink-structured"), 1)[0]
    assert record.headers["content-type"].startswith(b"application/cloudevents+json")
    event = json.loads(record.value or b"")
    assert (event["id"], event["type"], event["ext"], event["data"]) == ("a", "test", "x", {"x": 1})


def test_invalid_event_is_refused(url: str) -> None:
    """What is not a valid event is answered with 400."""
    assert ask("POST", url, b"x", {"content-type": "text/plain"}).status == 400


def test_topic_is_created(stage: Stage, topics: Topics) -> None:
    """With partitions and replication given, the sink makes its topic."""
    make_sink(stage, "owner", stage.name("sink-owned"), numPartitions=3, replicationFactor=1)
    send(stage.address("KafkaSink", "owner"), "a")
    assert topics.partitions(stage.name("sink-owned")) == 3
    assert len(topics.read(stage.name("sink-owned"), 1)) == 1


def test_topic_that_is_missing(stage: Stage, topics: Topics) -> None:
    """A sink whose topic is somebody else's and does not exist is not ready; once it exists, it is, by itself."""
    make_sink(stage, "late", stage.name("sink-late"))
    stage.until_not_ready("KafkaSink", "late", about="sink-late")
    topics.create(stage.name("sink-late"))
    stage.until_ready("KafkaSink", "late")


def test_topic_of_somebody_else_stays(stage: Stage, topics: Topics) -> None:
    """When a sink is deleted, its address ends, and a topic that it did not make stays."""
    topic = topics.create(stage.name("sink-foreign"), partitions=2)
    make_sink(stage, "guest", topic)
    address = stage.address("KafkaSink", "guest")
    stage.delete("KafkaSink", "guest")
    until(lambda: ask("POST", address, b"x", binary("late")).status == 404, "the end of the address")
    assert topics.partitions(topic) == 2


def test_sink_as_subscriber(stage: Stage, topics: Topics) -> None:
    """A sink is addressable: a trigger can name it as its subscriber."""
    address = stage.broker("into-sink")
    make_sink(stage, "subscriber", topics.create(stage.name("sink-subscriber")), contentMode="binary")
    sink = stage.address("KafkaSink", "subscriber")
    stage.trigger("into-sink", "into-sink", subscriber={"ref": stage.reference("KafkaSink", "subscriber")})
    assert stage.until_ready("Trigger", "into-sink")["status"]["subscriberUri"] == sink
    send(address, "through", data=b"data")
    record = topics.read(stage.name("sink-subscriber"), 1)[0]
    assert (record.headers["ce_id"], record.value) == (b"through", b"data")


@pytest.mark.usefixtures("url")
def test_status(stage: Stage) -> None:
    """Conditions are well formed, and every aspect that may fail by itself has one of its own."""
    found = stage.get("KafkaSink", "plain")
    check_conditions(found)
    assert {"Ready", "Addressable", "TopicReady"} <= {each["type"] for each in found["status"]["conditions"]}


INVALID: dict[str, dict[str, Any]] = {
    "no-topic": {"topic": ""},
    "no-servers": {"bootstrapServers": []},
    "unknown-mode": {"contentMode": "xml"},
    "no-partitions": {"numPartitions": 0},
    "negative-replication": {"replicationFactor": -1},
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_spec_is_refused(stage: Stage, name: str) -> None:
    """What makes no sense is refused when it is applied, with the reason."""
    spec = {"bootstrapServers": ["localhost:9092"], "topic": "t"} | INVALID[name]
    answer = stage.api.create(stage.resource("KafkaSink", f"invalid-{name}", spec))
    assert 400 <= answer.status < 500
    assert answer.body
