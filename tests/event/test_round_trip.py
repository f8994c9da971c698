"""Any valid event comes out as it went in, whichever forms it takes on its way."""

import json
from collections.abc import Callable
from itertools import product
from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.event import http, kafka
from penstock.event.json_form import SPARE_DEPTH, decode_event, encode_event
from penstock.event.model import Event
from tests.event.events import MINIMAL, events, texts

Mode = Literal["binary", "structured"]
KAFKA_MODES: tuple[Mode, ...] = get_args(Mode)
HTTP_FORMS: list[Callable[[Event], tuple[list[tuple[bytes, bytes]], bytes]]] = [
    http.encode_binary,
    http.encode_structured,
    lambda event: http.encode_batched([event]),
]


def through_kafka(event: Event, mode: Mode) -> Event:
    record = kafka.encode_record(event, mode)
    return kafka.decode_record(record.value, record.headers)


@given(event=events())
def test_survives_http_to_kafka_to_http(event: Event) -> None:
    """Attributes and data are the same, bit for bit, after every combination of forms."""
    for enter, mode, leave in product(HTTP_FORMS, KAFKA_MODES, HTTP_FORMS):
        [received] = http.decode(*enter(event))
        [delivered] = http.decode(*leave(through_kafka(received, mode)))
        assert delivered.attributes == event.attributes
        assert (delivered.data or b"") == (event.data or b"")


@given(event=events())
def test_empty_data_is_not_no_data(event: Event) -> None:
    """Kafka and JSON tell empty data from none, and keep it so."""
    assert decode_event(encode_event(event)) == event
    assert through_kafka(event, "binary") == event
    assert through_kafka(event, "structured") == event


@given(batch=st.lists(events(), max_size=4))
def test_a_batch_keeps_its_events_and_their_order(batch: list[Event]) -> None:
    """All events of a batch come, in order; an empty batch is one of no events."""
    assert http.decode(*http.encode_batched(batch)) == batch


@given(event=events())
def test_what_is_written_is_safe_in_a_header(event: Event) -> None:
    """Header values hold visible ASCII only (a content type may have blanks inside), so nothing can be injected."""
    headers, _ = http.encode_binary(event)
    for name, value in headers:
        if name == b"content-type":
            assert value == value.strip()
            value = value.replace(b" ", b"").replace(b'"', b"").replace(b"%", b"")
        assert not value.translate(None, http.PLAIN + b"%")


@given(value=texts)
def test_percent_encoding_is_undone(value: str) -> None:
    """One round of decoding gives back what was encoded, percent signs and quotes included."""
    attributes = {**MINIMAL, "x": value}
    [event] = http.decode(
        [(b"ce-" + n.encode(), http.percent_encode_header(v).encode()) for n, v in attributes.items()], b""
    )
    assert event.attributes == attributes


@given(event=events())
def test_structured_form_is_json(event: Event) -> None:
    """What we write as JSON, any JSON parser reads; data of a JSON type is a value in it, not a string of one."""
    members = json.loads(encode_event(event))
    assert {n: v for n, v in members.items() if n not in ("data", "data_base64")} == event.attributes
    assert not ("data" in members and "data_base64" in members)


@pytest.mark.parametrize("depth", [1, SPARE_DEPTH, 700, 900, 5000])
def test_deep_data_survives(depth: int) -> None:
    """However deep JSON data nests, what we wrote can be read by whoever has less stack left than we had."""

    def read_with_less_stack(frames: int) -> Event:
        return decode_event(raw) if frames == 0 else read_with_less_stack(frames - 1)

    event = Event({**MINIMAL, "datacontenttype": "application/json"}, b"[" * depth + b"]" * depth)
    raw = encode_event(event)
    assert read_with_less_stack(100) == event


def test_an_event_about_an_event() -> None:
    """Data that is itself an event does not take the place of the event that carries it."""
    inner = encode_event(Event(MINIMAL))
    outer = Event({**MINIMAL, "id": "outer", "datacontenttype": "application/cloudevents+json"}, inner)
    for form in HTTP_FORMS:
        assert http.decode(*form(outer)) == [outer]
    assert through_kafka(outer, "binary") == outer


def test_record_key() -> None:
    """A record's key is the partitionkey, else the subject, else none; the attribute stays on the event."""
    assert kafka.encode_record(Event(MINIMAL)).key is None
    with_subject = Event({**MINIMAL, "subject": "ü"})
    assert kafka.encode_record(with_subject).key == "ü".encode()
    with_key = Event({**MINIMAL, "subject": "s", "partitionkey": "k"})
    record = kafka.encode_record(with_key, trace_headers=[("traceparent", b"00-1-2-01")])
    assert record.key == b"k"
    assert ("ce_partitionkey", b"k") in record.headers
    assert record.headers[-1] == ("traceparent", b"00-1-2-01")


def test_no_data_is_no_value() -> None:
    """An event without data is a record without value in binary mode, and never one in structured mode."""
    assert kafka.encode_record(Event(MINIMAL)).value is None
    assert kafka.encode_record(Event(MINIMAL), "structured").value is not None
