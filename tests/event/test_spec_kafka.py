"""The rules of the Kafka protocol binding, one row each."""

import pytest

from penstock.errors import Rejected
from penstock.event import kafka
from penstock.event.json_form import encode_event
from penstock.event.model import Event
from tests.event.events import MINIMAL

HEADERS: list[tuple[str, bytes | None]] = [("ce_" + name, value.encode()) for name, value in MINIMAL.items()]


def test_binary_record() -> None:
    """Attributes are ce_ headers in plain UTF-8, datacontenttype is content-type, and data is the value."""
    event = Event({**MINIMAL, "subject": "€ 50%", "datacontenttype": "text/plain"}, b"a")
    record = kafka.encode_record(event)
    assert dict(record.headers) == {
        "ce_specversion": b"1.0",
        "ce_id": b"1",
        "ce_source": b"/orders",
        "ce_type": b"order.created",
        "ce_subject": "€ 50%".encode(),
        "content-type": b"text/plain",
    }
    assert record.value == b"a"


def test_structured_record() -> None:
    """A structured record holds the event in its value; ce_ headers beside it count for nothing."""
    record = kafka.encode_record(Event(MINIMAL), "structured")
    assert record.headers == [("content-type", b"application/cloudevents+json")]
    assert kafka.decode_record(record.value, [*record.headers, ("ce_id", b"other"), ("ce_", None)]) == Event(MINIMAL)
    upper: list[tuple[str, bytes | None]] = [("content-type", b"Application/CloudEvents+JSON; charset=UTF-8")]
    assert kafka.decode_record(encode_event(Event(MINIMAL)), upper) == Event(MINIMAL)


def test_empty_value() -> None:
    """A record without value is an event without data, one with an empty value has empty data."""
    assert kafka.decode_record(None, HEADERS).data is None
    assert kafka.decode_record(b"", HEADERS).data == b""


def test_values_are_taken_as_they_are() -> None:
    """Header values are neither unquoted nor percent-decoded nor stripped."""
    assert kafka.decode_record(None, [*HEADERS, ("ce_x", b' "%41" ')]).attributes["x"] == ' "%41" '


def test_doubled_headers() -> None:
    """Of doubled headers the last counts, as for Spark, which has filtered the record by it."""
    assert kafka.decode_record(None, [*HEADERS, ("ce_id", b"2")]).attributes["id"] == "2"


def test_ce_datacontenttype() -> None:
    """A producer that also writes ce_datacontenttype is understood; content-type comes first."""
    headers = [*HEADERS, ("ce_datacontenttype", b"a/b")]
    assert kafka.decode_record(None, headers).content_type == "a/b"
    assert kafka.decode_record(None, [("content-type", b"c/d"), *headers]).content_type == "c/d"


def test_other_headers_are_let_alone() -> None:
    """Headers that are no attributes may hold anything."""
    assert kafka.decode_record(None, [*HEADERS, ("", None), ("x", b"\xff"), ("traceparent", b"1")]) == Event(MINIMAL)


def test_version_0_3() -> None:
    """A record of version 0.3 is read as an event of 1.0."""
    headers: list[tuple[str, bytes | None]] = [*HEADERS, ("ce_specversion", b"0.3"), ("ce_schemaurl", b"a:b")]
    assert kafka.decode_record(b"x", headers) == Event({**MINIMAL, "dataschema": "a:b"}, b"x")


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b"{}", []),
        (b"x", HEADERS[1:]),
        (b"x", HEADERS[:-1]),
        (b"x", [*HEADERS, ("ce_a_b", b"x")]),
        (b"x", [*HEADERS, ("ce_A", b"x")]),
        (b"x", [*HEADERS, ("ce_", b"x")]),
        (b"x", [*HEADERS, ("ce_x", None)]),
        (b"x", [*HEADERS, ("ce_x", b"\xff")]),
        (b"x", [*HEADERS, ("ce_x", b"a\nb")]),
        (b"x", [*HEADERS, ("content-type", None)]),
        (b"x", [*HEADERS, ("content-type", b"")]),
        (None, [("content-type", b"application/cloudevents+json")]),
        (b"", [("content-type", b"application/cloudevents+json")]),
        (b"[]", [("content-type", b"application/cloudevents-batch+json")]),
        (b"x", [*HEADERS, ("content-type", b"application/cloudevents+avro")]),
    ],
)
def test_records_that_are_no_events(value: bytes | None, headers: list[tuple[str, bytes | None]]) -> None:
    """What is no event is Rejected, so that it can be counted and passed over."""
    with pytest.raises(Rejected):
        kafka.decode_record(value, headers)
