"""Promises about which records a search takes for wanted events, and how it divides the work."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.questions import Search
from penstock.kafka.latest import found_in
from penstock.pipeline import spans, wanted
from penstock.pipeline.spans import Partition, Span
from penstock.pipeline.wanted import Wanted

BINARY: dict[str, bytes | None] = {"ce_specversion": b"1.0", "ce_id": b"1", "ce_source": b"/s", "ce_type": b"t"}


class Message:
    """As Kafka's client has it."""

    def __init__(self, headers: Any, value: bytes | None = b"{}", offset: int = 0, time_ms: int = 1000) -> None:
        self._headers = list(headers.items()) if isinstance(headers, dict) else headers
        self._value, self._offset, self._time_ms = value, offset, time_ms

    def headers(self) -> Any:
        return self._headers

    def value(self) -> bytes | None:
        return self._value

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._time_ms


class Garbled(Message):
    """The name of a header is not text."""

    def headers(self) -> Any:
        return b"\xff".decode()


def found(*messages: Message, **asked: Any) -> list[dict[str, Any]]:
    looking = Wanted(Search(topics=(), **asked))
    looking.take(messages)
    assert looking.matched >= len(looking.newest())
    return looking.newest()


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        (None, b"no event"),
        ({}, b""),
        ({"content-type": b"application/json"}, b'{"id": "1"}'),
        ({"content-type": b"application/cloudevents+json"}, b"{ no json"),
        ({"content-type": b"application/cloudevents+json"}, None),
        ({"content-type": b"application/cloudevents-batch+json"}, b"[]"),
        ({**BINARY, "ce_type": None}, b""),
        ({"ce_id": b"1"}, b""),
    ],
)
def test_what_is_no_event_is_not_found(headers: Any, value: bytes | None) -> None:
    assert found(Message(headers, value)) == []


def test_a_record_whose_header_has_no_readable_name_ends_no_search() -> None:
    """Kept promise: such a record is not a CloudEvent; the others are found, and a trial sees it without headers."""
    assert [each["id"] for each in found(Garbled({}), Message(BINARY))] == ["1"]
    assert found_in(Garbled({})).headers == ()


def test_odd_events_are_found_nevertheless() -> None:
    """Kept promise: a header that is no text, or is there twice, or a value that is none, hides no event."""
    odd = [*BINARY.items(), ("ce_subject", b"\xff\xfe"), ("ce_id", b"2"), ("nothing", None)]
    (row,) = found(Message(odd, None), id="2")
    assert (row["subject"], row["size"], row["datacontenttype"]) == ("��", 0, None)
    assert found(Message(odd, None), text="nowhere") == []
    structured = {"specversion": "1.0", "id": "ü", "source": "/s", "type": "t", "data": {"a": 1}}
    message = Message(
        {"content-type": b"Application/CloudEvents+json; charset=utf-8"}, json.dumps(structured).encode()
    )
    assert [each["id"] for each in found(message, id="ü", text='"A": 1')] == ["ü"]


def test_the_newest_are_kept_of_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted, "MOST_KEPT", 10)
    many = [Message(BINARY, offset=n, time_ms=n * 7 % 100) for n in range(100)]
    looking = Wanted(Search(topics=(), latest=3))
    looking.take(many)
    assert [each["timestamp"] for each in looking.newest()] == [99, 98, 97]
    assert looking.matched == 100


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 300)), max_size=6), st.integers(1, 5))
def test_parts_have_all_records_and_each_once(sizes: list[tuple[int, int]], parts: int) -> None:
    """Kept promise: nothing is searched twice or left out, and no part is larger than it should be."""
    whole = {Partition("t", n): Span(begin, begin + size) for n, (begin, size) in enumerate(sizes)}
    divided = spans.divided(whole, parts)
    offsets = [(w, offset) for part in divided for w, span in part.items() for offset in range(*span)]
    assert sorted(offsets) == sorted((w, offset) for w, span in whole.items() for offset in range(*span))
    assert len(divided) <= parts
    assert all(spans.size(part) <= -(-spans.size(whole) // parts) for part in divided)
