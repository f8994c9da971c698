"""What the official SDK writes we read, and the other way round, in what both take for valid.

Left out where the SDK departs from the spec or from the bytes: it reads times into microseconds, wants extension
names of at most 20 characters, parses JSON data, and knows no batches.
"""

import json
from datetime import datetime

from cloudevents.core.bindings import http as sdk_http
from cloudevents.core.bindings import kafka as sdk_kafka
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from penstock.event import http, kafka
from penstock.event.model import Event
from tests.event.events import filled_texts, names, other_types, sources

sdk_names = names.filter(lambda name: name not in ("data", "partitionkey"))
shared_events = st.builds(
    lambda attributes, extensions, data: Event({**attributes, **extensions}, data),
    st.fixed_dictionaries(
        {
            "specversion": st.just("1.0"),
            "id": filled_texts,
            "source": sources,
            "type": filled_texts,
            "time": st.just("2018-04-05T17:31:00.123456Z"),
            "datacontenttype": other_types,
        },
        optional={"subject": filled_texts},
    ),
    st.dictionaries(sdk_names, filled_texts, max_size=3),
    st.binary(min_size=1, max_size=40),
)


def as_sdk(event: Event) -> CloudEvent:
    return CloudEvent({**event.attributes, "time": datetime.fromisoformat(event.attributes["time"])}, event.data)


def as_bytes(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def as_text(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in headers}


@given(event=shared_events)
def test_http_of_the_sdk_is_read(event: Event) -> None:
    """Requests that the SDK writes, binary and structured, are the events it meant."""
    for message in (sdk_http.to_binary_event(as_sdk(event)), sdk_http.to_structured_event(as_sdk(event))):
        assert http.decode(as_bytes(message.headers), message.body) == [event]


@given(event=shared_events)
def test_http_of_ours_is_read(event: Event) -> None:
    """The SDK finds the same attributes in our requests, and the same data."""
    headers, body = http.encode_binary(event)
    assert dict(headers) == dict(as_bytes(sdk_http.to_binary_event(as_sdk(event)).headers))
    read = sdk_http.from_binary_event(sdk_http.HTTPMessage(as_text(headers), body))
    assert read.get_attributes() == as_sdk(event).get_attributes()
    headers, body = http.encode_structured(event)
    read = sdk_http.from_structured_event(sdk_http.HTTPMessage(as_text(headers), body))
    assert read.get_attributes() == as_sdk(event).get_attributes()
    assert read.get_data() == event.data


@given(event=shared_events)
def test_kafka_of_the_sdk_is_read(event: Event) -> None:
    """Records that the SDK writes, binary and structured, are the events it meant."""
    for message in (sdk_kafka.to_binary_event(as_sdk(event)), sdk_kafka.to_structured_event(as_sdk(event))):
        assert kafka.decode_record(message.value, message.headers.items()) == event


@given(event=shared_events)
def test_kafka_of_ours_is_the_same(event: Event) -> None:
    """Our binary records have the headers and the value of the SDK's."""
    record = kafka.encode_record(event)
    message = sdk_kafka.to_binary_event(as_sdk(event))
    assert dict(record.headers) == message.headers
    assert record.value == message.value


def test_json_data_means_the_same() -> None:
    """JSON data of the SDK arrives as JSON of the same meaning."""
    attributes = {"type": "t", "source": "/s", "datacontenttype": "application/json"}
    message = sdk_http.to_structured_event(CloudEvent(attributes, {"a": [1, "ü"]}))
    [event] = http.decode(as_bytes(message.headers), message.body)
    assert event.data is not None
    assert json.loads(event.data) == {"a": [1, "ü"]}
