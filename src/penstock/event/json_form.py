"""The JSON form of an event, single or in a batch. The bytes of JSON data are kept as they came.

In and out: bytes and events; Rejected where the bytes are no event. Called by the HTTP and the Kafka form.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.errors import Rejected
from penstock.event.attributes import check_attributes, check_name, check_text, upgrade
from penstock.event.media import encode_text, is_json
from penstock.event.model import CORE, Event

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

SMALLEST_INTEGER, LARGEST_INTEGER = -(2**31), 2**31 - 1
# How deep JSON may nest depends on the stack of whoever reads it, so what we write keeps this far from the limit.
SPARE_DEPTH = 200


def decode_event(raw: bytes) -> Event:
    _check_utf8(raw)
    return _event(_parse(_members, raw, "the body is not a JSON object"))


def decode_batch(raw: bytes) -> list[Event]:
    _check_utf8(raw)
    events = []
    for index, each in enumerate(_parse(_array, raw, "the body is not a JSON array of events")):
        try:
            events.append(_event(_parse(_members, each, "it is not a JSON object")))
        except Rejected as error:
            raise Rejected(f"event {index} of the batch: {error.message}", hint=error.hint) from None
    return events


def encode_event(event: Event) -> bytes:
    members: dict[str, Any] = dict(event.attributes)
    if event.data is not None:
        raw = as_member(event.data) if event.content_type is not None and is_json(event.content_type) else None
        if raw is not None:
            members["data"] = raw
        else:
            members["data_base64"] = base64.b64encode(event.data).decode()
    return _encoder.encode(members)


def encode_batch(events: Sequence[Event]) -> bytes:
    return b"[" + b",".join(encode_event(event) for event in events) + b"]"


def _event(members: dict[str, msgspec.Raw]) -> Event:
    data, in_base64 = members.pop("data", None), members.pop("data_base64", None)
    attributes: dict[str, str] = {}
    for name, raw in members.items():
        value = _attribute(name, raw)
        if value is not None:
            attributes[name] = value
    if attributes.get("specversion") == "0.3":
        upgrade(attributes)
        if data is not None and attributes.get("datacontentencoding", "").lower() == "base64":
            del attributes["datacontentencoding"]
            data, in_base64 = None, data
    decoded = None if in_base64 is None else _from_base64(in_base64)
    if data is not None:
        if decoded is not None:
            raise Rejected("the event has both 'data' and 'data_base64'; send one of them")
        # Data without a type is JSON here, which other forms would not know.
        decoded = _from_data(data, attributes.setdefault("datacontenttype", "application/json"))
    check_attributes(attributes)
    return Event(attributes, decoded)


def _attribute(name: str, raw: msgspec.Raw) -> str | None:
    """A member as canonical text; None for null, which means that the attribute is absent."""
    check_name(name)
    value = _parse(_value, raw, f"attribute {name!r} cannot be read")
    if isinstance(value, str):
        check_text(name, value)
        return value
    if value is None:
        return None
    if name in CORE:
        raise Rejected(f"attribute {name!r} must be a string")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
            raise Rejected(f"attribute {name!r} is {value}, beyond 32 bits; send it as a string")
        return str(value)
    raise Rejected(f"attribute {name!r} must be a string, a whole number or true or false")


def _from_data(raw: msgspec.Raw, content_type: str) -> bytes | None:
    """JSON stays as it is written; of any other type the member holds the text, and null stands for nothing."""
    if is_json(content_type):
        return bytes(raw)
    value = _parse(_value, raw, "'data' cannot be read")
    if value is None:
        return None
    return encode_text(value, content_type) if isinstance(value, str) else bytes(raw)


def _from_base64(raw: msgspec.Raw) -> bytes | None:
    value = _parse(_value, raw, "the base64 data cannot be read")
    if value is None:
        return None
    if not isinstance(value, str):
        raise Rejected("data in base64 must be a string")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Rejected(f"the data is not valid base64: {error}") from None


def as_member(data: bytes) -> msgspec.Raw | None:
    """The data as a JSON member, if it is JSON and would come back byte for byte."""
    try:
        _check_utf8(data)
        if data.count(b"[") + data.count(b"{") > SPARE_DEPTH:  # it may be deep
            _array.decode(b"[" * SPARE_DEPTH + data + b"]" * SPARE_DEPTH)
        raw = _array.decode(b"[" + data + b"]")
    except (Rejected, msgspec.DecodeError, RecursionError):
        return None
    return raw[0] if len(raw) == 1 and bytes(raw[0]) == data else None


def _parse(decoder: msgspec.json.Decoder[Any], raw: bytes | msgspec.Raw, what: str) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected(f"{what}: {error}") from None


def _check_utf8(raw: bytes) -> None:
    """The parser does not look into members that it hands over as they are."""
    if not raw.isascii():
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Rejected(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
