"""The Kafka form of an event, by CloudEvents' Kafka protocol binding, both ways.

Binary (``ce_`` headers, data as the record's value) is what the receiver writes; structured (the whole event as
JSON in the value) is written where a route asks for it and read wherever it is met.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from penstock.errors import Rejected
from penstock.event.attributes import check_attributes, check_name, check_text
from penstock.event.http import STRUCTURED
from penstock.event.json_form import decode_event, encode_event, upgrade
from penstock.event.model import Event

KafkaHeaders = list[tuple[str, bytes]]
TRACE_HEADERS = ("traceparent", "tracestate")


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: KafkaHeaders


def encode_record(
    event: Event,
    content_mode: Literal["binary", "structured"] = "binary",
    trace_headers: Sequence[tuple[str, bytes]] = (),
) -> Record:
    """The record of an event. The key decides the partition, and so what is kept in order."""
    key = event.partition_key
    raw_key = None if key is None else key.encode()
    if content_mode == "structured":
        return Record(raw_key, encode_event(event), [("content-type", STRUCTURED.encode()), *trace_headers])
    headers: KafkaHeaders = []
    for name, value in event.attributes.items():
        headers.append(("content-type" if name == "datacontenttype" else "ce_" + name, value.encode()))
    headers.extend(trace_headers)
    return Record(raw_key, event.data, headers)


def decode_record(value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> Event:
    """The event of a record, or Rejected: not every record in a topic is one."""
    attributes: dict[str, str] = {}
    for key, raw in headers:
        if key == "content-type":
            attributes["datacontenttype"] = _text(key, raw)
        elif key.startswith("ce_"):
            check_name(key[3:])
            attributes[key[3:]] = _text(key, raw)
    if attributes.get("datacontenttype", "").lower().startswith("application/cloudevents"):
        if value is None:
            raise Rejected("a structured event without a value")
        return decode_event(value)
    if "specversion" not in attributes:
        raise Rejected("the record has no header ce_specversion, so it is no event")
    if attributes["specversion"] == "0.3":
        upgrade(attributes)
    check_attributes(attributes)
    return Event(attributes, value or None)


def _text(key: str, raw: bytes | None) -> str:
    try:
        text = (raw or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected(f"the record header {key} is not UTF-8") from None
    check_text(key, text)
    return text
