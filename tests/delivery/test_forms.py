"""Promises of the JSON forms: what a subscriber gets in a batch is the event, whichever way the JSON was made."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.delivery import forms
from penstock.delivery.forms import batched
from penstock.delivery.row import Row
from penstock.event.http import encode_binary
from penstock.event.json_form import encode_event
from penstock.event.model import Event
from tests.event.events import events

CORE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def row_of(event: Event) -> Row:
    """As ``pipeline.handover`` makes it."""
    headers, body = encode_binary(event)
    lines = [name + b":" + value if value else name + b";" for name, value in headers]
    if event.content_type is None:
        lines.append(b"Content-Type:")
    lines += [b"traceparent:00-a-b-01", b"ce-knativekafkapartition:3", b"ce-knativekafkaoffset:7"]
    return Row(7, (0,), lines, body)


def slow(row: Row) -> bytes:
    return encode_event(forms.event_of(row))


@given(st.lists(events(), min_size=1, max_size=3))
def test_the_short_way_says_the_same_as_the_long_one(several: list[Event]) -> None:
    """Kept promise: speed changes nothing that a subscriber can see."""
    rows = [row_of(each) for each in several]
    _, body = batched(rows)
    assert json.loads(body) == [json.loads(slow(row)) for row in rows]


@pytest.mark.parametrize(
    ("attributes", "data"),
    [
        ({"subject": 'a "quoted" \\ one'}, b"{}"),
        ({"subject": "back\\slash"}, b"{}"),
        ({"subject": "100%"}, b"{}"),
        ({"empty": ""}, b"{}"),
        ({}, b'{"a": '),
        ({}, b'1], "id": "evil", "x": [1'),
        ({}, b""),
        ({"datacontenttype": "text/plain"}, b"[1]"),
        ({"datacontenttype": "application/json; charset=utf-8"}, b"[1]"),
        ({"datacontenttype": "application/cloudevents+json"}, b'{"specversion":"1.0"}'),
        ({"datacontenttype": 'application/json; v="1"'}, b'"\xc3\xa9"'),
        ({"datacontenttype": "application/json"}, b'"\xff"'),
    ],
)
def test_what_needs_care_gets_it(attributes: dict[str, str], data: bytes) -> None:
    """Kept promise: no value and no data can break out of its place in a batch."""
    row = row_of(Event({**CORE, "datacontenttype": "application/json", **attributes}, data or None))
    _, body = batched([row])
    assert json.loads(body) == [json.loads(slow(row))]


def test_the_usual_event_goes_the_short_way() -> None:
    """Kept promise: what most events look like is encoded without being decoded first."""
    row = row_of(Event({**CORE, "datacontenttype": "application/json"}, b'{"order": 4711}'))
    assert forms._plain(row) is not None
