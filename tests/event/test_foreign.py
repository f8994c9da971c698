"""Promises of events that are made of records which are none, after Knative's Kafka source."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.event.foreign import Foreign, KeyType, event_of_record
from penstock.event.http import decode, encode_binary
from penstock.event.model import Event

SOURCE = "/apis/v1/namespaces/shop/kafkasources/orders#topic"
Headers = list[tuple[bytes, bytes | None]]


def made(
    key: bytes | None = None, key_type: KeyType = "string", headers: Headers | None = None, value: bytes | None = b"v"
) -> Event:
    return event_of_record(Foreign(3, 41, 1_577_836_800_123, key, headers or []), value, SOURCE, key_type)


def test_a_record_becomes_an_event_that_says_where_it_stands() -> None:
    """Kept promise: the attributes are those that Knative's source gives, and the data is the value."""
    event = made(b"k-1", headers=[(b"content-type", b"text/plain"), (b"X-Trace.Id", b"7"), (b"xtraceid", b"8")])
    assert event.attributes == {
        "specversion": "1.0",
        "id": "partition:3/offset:41",
        "source": SOURCE,
        "type": "dev.knative.kafka.event",
        "subject": "partition:3#41",
        "time": "2020-01-01T00:00:00.123Z",
        "datacontenttype": "text/plain",
        "kafkaheaderxtraceid": "8",
        "key": "k-1",
        "partitionkey": "k-1",
    }
    assert event.data == b"v"


@pytest.mark.parametrize(
    ("key_type", "key", "text"),
    [
        ("string", "schlüssel".encode(), "schlüssel"),
        ("string", b"\0\0\0\x07", "AAAABw=="),
        ("string", b"\xff\xfe", "//4="),
        ("int", struct.pack(">i", -7), "-7"),
        ("int", b"seven", "seven"),
        ("int", struct.pack(">q", 7), "AAAAAAAAAAc="),
        ("float", struct.pack(">f", 0.1), "0.1"),
        ("float", struct.pack(">d", 0.1), "0.1"),
        ("float", struct.pack(">d", 100.0), "100.0"),
        ("float", struct.pack(">d", -0.0), "-0.0"),
        ("float", struct.pack(">d", 1e7), "1.0E7"),
        ("float", struct.pack(">d", 1.5e-9), "1.5E-9"),
        ("float", struct.pack(">f", 3.4028235e38), "3.4028235E38"),
        ("float", struct.pack(">d", 5e-324), "5.0E-324"),
        ("float", struct.pack(">d", float("inf")), "Infinity"),
        ("float", struct.pack(">d", float("nan")), "NaN"),
        ("float", b"pi", "pi"),
        ("byte-array", b"abc", "YWJj"),
    ],
)
def test_a_key_is_read_by_its_type(key_type: KeyType, key: bytes, text: str) -> None:
    """Kept promise: a key of another length is taken for a string, and no key is lost."""
    event = made(key, key_type)
    assert event.attributes["key"] == event.attributes["partitionkey"] == text


@pytest.mark.parametrize("key", [None, b""])
def test_without_a_key_there_is_no_extension(key: bytes | None) -> None:
    """Kept promise: a record without a key makes an event without one."""
    assert not {"key", "partitionkey"} & set(made(key).attributes)


def test_what_can_be_no_attribute_is_left_out() -> None:
    """Kept promise: strange headers, no content type, no timestamp and no value cost nothing but themselves."""
    headers: Headers = [(b"a", None), (b"b", b"\0\1"), (b"c", b"\xff"), (b"Content-Type", b"nonsense"), (b"d", b"")]
    event = event_of_record(Foreign(0, 0, -1, None, headers), None, SOURCE, "string")
    assert set(event.attributes) == {"specversion", "id", "source", "type", "subject", "kafkaheaderd"}
    assert event.data is None


@given(
    st.binary(max_size=20) | st.none(),
    st.sampled_from(["string", "int", "float", "byte-array"]),
    st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=12) | st.none()), max_size=4),
    st.integers(-1, 2**63 - 1),
    st.binary(max_size=20),
)
def test_every_record_becomes_an_event_that_everybody_takes(
    key: bytes | None, key_type: KeyType, headers: Headers, milliseconds: int, value: bytes
) -> None:
    """Kept promise: whatever is in a topic, the event made of it is valid and comes through HTTP as it was."""
    event = event_of_record(Foreign(1, 2, milliseconds, key, headers), value, SOURCE, key_type)
    assert decode(*encode_binary(event)) == [event]
