"""Promises of routes that ask for structured records, as a KafkaSink may: the value is the whole event."""

from typing import NamedTuple

import msgspec
import pytest

from penstock.event.kafka import decode_record
from penstock.event.model import Event
from penstock.kafka.connection import KafkaConnection
from tests.receiver.conftest import Address
from tests.receiver.running import EVENT, Receiver, give_address, records
from tests.waiting import until

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BATCH = b'[{"specversion":"1.0","id":"b1","source":"/s","type":"t","data":"text"},{"specversion":"1.0","id":"b2",' \
    b'"source":"/s","type":"t","data_base64":"AP8="}]'  # fmt: skip


@pytest.fixture(scope="module")
def structured(receiver: Receiver, kafka: KafkaConnection) -> Address:
    path, topic = give_address(kafka, "sink", content_mode="structured", is_foreign=True)
    until(lambda: receiver.send(path, ce_id="first").status == 202, "the new address")
    return Address(path, topic)


def stored(kafka: KafkaConnection, topic: str, identity: str) -> tuple[dict[str, object], Event]:
    """The members of the record's value, and the event that every reader makes of it."""
    for record in records(kafka, topic):
        members = msgspec.json.decode(record.value())
        if members["id"] == identity:
            return members, decode_record(record.value(), record.headers())
    raise AssertionError(f"no record holds the event {identity}")


class Sent(NamedTuple):
    name: str
    content_type: str | None
    data: bytes
    member: dict[str, object]  # of the JSON form: where the data is, if it can be said briefly


SENT = [
    Sent("json", "application/json", b'{"a": [1, 2.50]}', {"data": {"a": [1, 2.5]}}),
    Sent("suffix", "application/problem+json; charset=utf-8", b'"x"', {"data": "x"}),
    Sent("binary", "application/octet-stream", bytes(range(256)), {}),
    Sent("text", "text/plain", "grüß".encode(), {"data_base64": "Z3LDvMOf"}),
    Sent("broken", "application/json", b"{trunc", {"data_base64": "e3RydW5j"}),
    Sent("untyped", None, b"\0\1", {"data_base64": "AAE="}),
    Sent("none", None, b"", {}),
]


@pytest.mark.parametrize("sent", SENT, ids=lambda sent: sent.name)
def test_data_of_every_type_comes_back_byte_for_byte(
    receiver: Receiver, structured: Address, kafka: KafkaConnection, sent: Sent
) -> None:
    """JSON data is a member of the event, all other is in base64, and its type stands beside it."""
    headers = {**EVENT, "ce-id": sent.name, "ce-subject": "order 7", "ce-region": "%C3%BC"}
    if sent.content_type is not None:
        headers["content-type"] = sent.content_type
    assert receiver.ask("POST", structured.path, sent.data, headers).status == 202
    members, event = stored(kafka, structured.topic, sent.name)
    assert (members.get("datacontenttype"), members["region"]) == (sent.content_type, "ü")
    assert ("data" in members or "data_base64" in members) == bool(sent.data)
    assert {key: members[key] for key in sent.member} == sent.member
    assert (event.data, event.attributes["subject"]) == (sent.data or None, "order 7")


def test_the_record_has_the_key_the_trace_and_its_type(
    receiver: Receiver, structured: Address, kafka: KafkaConnection
) -> None:
    """What orders and what is traced stays outside, where it is found without reading the value."""
    assert receiver.send(structured.path, ce_id="keyed", ce_partitionkey="k-1", traceparent=TRACE).status == 202
    (record,) = [each for each in records(kafka, structured.topic) if each.key() == b"k-1"]
    assert dict(record.headers()) == {"content-type": b"application/cloudevents+json", "traceparent": TRACE.encode()}


def test_structured_and_batched_requests_end_alike(
    receiver: Receiver, structured: Address, kafka: KafkaConnection
) -> None:
    """However an event is sent, its record is the same."""
    one = b'{"specversion":"1.0","id":"s1","source":"/s","type":"t","datacontenttype":"text/plain","data":"x"}'
    for content_type, body in (("application/cloudevents+json", one), ("application/cloudevents-batch+json", BATCH)):
        assert receiver.ask("POST", structured.path, body, {"content-type": content_type}).status == 202
    found = {each: stored(kafka, structured.topic, each)[1].data for each in ("s1", "b1", "b2")}
    assert found == {"s1": b"x", "b1": b'"text"', "b2": b"\0\xff"}


def test_data_that_is_too_large_in_base64_is_refused(receiver: Receiver, structured: Address) -> None:
    """413, and not an endless 503: base64 makes binary data larger than the topic takes."""
    answer = receiver.send(structured.path, b"\xff" * 1024 * 1024, content_type="application/octet-stream")
    assert answer.status == 413
    assert answer.error
