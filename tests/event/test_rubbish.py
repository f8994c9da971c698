"""Whatever comes in, the only answer besides an event is Rejected."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Rejected
from penstock.event import http, kafka
from penstock.event.model import Event
from tests.event.events import MINIMAL, events

ATTRIBUTES = [
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "subject",
    "dataschema",
    "datacontenttype",
    "data",
    "",
    "é",
]
CONTENT_TYPES = [
    b"application/json",
    b"application/cloudevents+json",
    b"application/cloudevents-batch+json; charset=utf-8",
    b"application/cloudevents+xml",
    b"",
]
VERSIONS = [b"1.0", b"0.3"]
http_names = st.sampled_from([b"ce-" + name.encode() for name in ATTRIBUTES] + [b"content-type"]) | st.binary()
kafka_names = st.sampled_from(["ce_" + name for name in ATTRIBUTES] + ["content-type"]) | st.text()
values = (
    st.binary()
    | st.sampled_from(CONTENT_TYPES + VERSIONS)
    | st.text().map(lambda text: text.encode("utf-8", "replace"))
)
fragments = st.sampled_from(
    [
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b":",
        b",",
        b"null",
        b"1e999",
        b'"data"',
        b'"data_base64"',
        b'"specversion":"0.3"',
        b"\\ud800",
    ]
)
bodies = st.binary() | st.lists(fragments).map(b"".join)


@given(headers=st.lists(st.tuples(http_names, values), max_size=8), body=bodies)
def test_any_request(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """No headers and no body make decoding fail with anything but Rejected."""
    with suppress(Rejected):
        http.decode(headers, body)


@given(headers=st.lists(st.tuples(kafka_names, st.none() | values), max_size=8), body=st.none() | bodies)
def test_any_record(headers: list[tuple[str, bytes | None]], body: bytes | None) -> None:
    """No record makes decoding fail with anything but Rejected."""
    with suppress(Rejected):
        kafka.decode_record(body, headers)


@given(event=events(), cut=st.integers(0, 400), damage=bodies, batched=st.booleans())
def test_any_damage_to_json(event: Event, cut: int, damage: bytes, batched: bool) -> None:
    """An event in JSON with a piece replaced is an event or Rejected."""
    headers, body = http.encode_batched([event]) if batched else http.encode_structured(event)
    with suppress(Rejected):
        http.decode(headers, body[:cut] + damage + body[cut + 3 :])


@given(event=events(), name=st.sampled_from(ATTRIBUTES), value=values)
def test_any_damage_to_headers(event: Event, name: str, value: bytes) -> None:
    """What is accepted with a damaged header can be written in every form again."""
    headers, body = http.encode_binary(event)
    damaged = dict(headers) | {b"ce-" + name.encode(): value}
    with suppress(Rejected):
        for accepted in http.decode(list(damaged.items()), body):
            assert http.decode(*http.encode_structured(accepted)) == [accepted]
            record = kafka.encode_record(accepted)
            assert kafka.decode_record(record.value, record.headers) == accepted


@given(event=events(), data=st.data())
def test_truncated_json(event: Event, data: st.DataObject) -> None:
    """An event in JSON that was cut off anywhere is Rejected."""
    headers, body = http.encode_structured(event)
    end = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(Rejected):
        http.decode(headers, body[:end])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source", "//" + "@:" * 100_000 + " "),
        ("source", "a" * 200_000 + "%zz"),
        ("source", "/" + "%41" * 70_000 + " "),
        ("time", "2026-01-01T00:00:00." + "0" * 200_000),
        ("datacontenttype", "a/b" + " " * 200_000 + ";" + " " * 200_000),
        ("datacontenttype", "text/plain" + "; charset =" * 20_000),
        ("id", '"' + "\\" * 200_001 + '"'),
        ("id", "%F0%9F%98" * 20_000),
    ],
)
def test_hostile_values_cost_little(name: str, value: str) -> None:
    """The time a long value takes grows with its length, not with the square of it."""
    header = b"content-type" if name == "datacontenttype" else b"ce-" + name.encode()
    headers = {b"ce-" + other.encode(): text.encode() for other, text in MINIMAL.items()} | {header: value.encode()}
    start = time.process_time()
    with suppress(Rejected):
        http.decode(list(headers.items()), b"")
    assert time.process_time() - start < 2
