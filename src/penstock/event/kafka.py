"""The Kafka form of an event, by CloudEvents' Kafka protocol binding, both ways.

Binary (``ce_`` headers, data as the record's value) is what the receiver writes; structured (the whole event as
JSON in the value) is written where a route asks for it and read wherever it is met.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from penstock.errors import Rejected
from penstock.event.attributes import check_attributes, check_name, check_text, upgrade
from penstock.event.json_form import decode_event, encode_event
from penstock.event.media import STRUCTURED, is_envelope, mode_of
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
    """The record of an event. The key decides the partition, and so what is kept in order.

    Data that is itself an event would be taken for this one in binary mode, so it is written structured; with the
    attributes as headers too, which the binding allows, for readers who do not look into every value.
    """
    key = event.partition_key
    raw_key = None if key is None else key.encode()
    content_type = event.content_type
    if content_mode == "structured" or (content_type is not None and is_envelope(content_type)):
        headers = [("content-type", STRUCTURED.encode())]
        if content_mode == "binary":
            headers += [("ce_" + name, value.encode()) for name, value in event.attributes.items()]
        return Record(raw_key, encode_event(event), [*headers, *trace_headers])
    headers = [
        ("content-type" if name == "datacontenttype" else "ce_" + name, value.encode())
        for name, value in event.attributes.items()
    ]
    headers.extend(trace_headers)
    return Record(raw_key, event.data, headers)


def decode_record(value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> Event:
    """The event of a record, or Rejected: not every record in a topic is one. Of doubled headers the last counts."""
    fields = dict(headers)
    content_type = _text("content-type", fields["content-type"]) if "content-type" in fields else None
    if content_type is not None:
        mode = mode_of(content_type)
        if mode == "structured":
            return decode_event(value or b"")
        if mode == "batched":
            raise Rejected("a record holds one event, not a batch")
    attributes: dict[str, str] = {}
    for key, raw in fields.items():
        if key.startswith("ce_"):
            check_name(key[3:])
            attributes[key[3:]] = _text(key, raw)
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    version = attributes.get("specversion")
    if version is None:
        raise Rejected("the record has no header ce_specversion, so it is no event")
    if version == "0.3":
        upgrade(attributes)
    check_attributes(attributes)
    return Event(attributes, value)


def _text(key: str, raw: bytes | None) -> str:
    if raw is None:
        raise Rejected(f"the record header {key} has no value")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected(f"the record header {key} is not UTF-8") from None
    check_text(key, text)
    return text
