"""The JSON form of an event, single or in a batch. The bytes of JSON data are kept as they came."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.errors import Rejected
from penstock.event.attributes import check_attributes, check_name, check_text
from penstock.event.model import Event, is_json

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_batch = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

SMALLEST_INTEGER, LARGEST_INTEGER = -(2**31), 2**31 - 1


def decode_event(raw: bytes | msgspec.Raw) -> Event:
    members = _parse(_members, raw, "the body is not a JSON object")
    attributes: dict[str, str] = {}
    for name, value in members.items():
        if name not in ("data", "data_base64"):
            text = _attribute(name, value)
            if text is not None:
                attributes[name] = text
    read_data = _data_0_3 if attributes.get("specversion") == "0.3" else _data
    data = read_data(attributes, members)
    if data is not None and "datacontenttype" not in attributes and "data_base64" not in members:
        attributes["datacontenttype"] = "application/json"  # what the JSON format implies
    check_attributes(attributes)
    return Event(attributes, data)


def decode_batch(raw: bytes) -> list[Event]:
    events = []
    for index, each in enumerate(_parse(_batch, raw, "the body is not a JSON array of events")):
        try:
            events.append(decode_event(each))
        except Rejected as error:
            raise Rejected(f"event {index} of the batch: {error.message}") from None
    return events


def encode_event(event: Event) -> bytes:
    members: dict[str, Any] = dict(event.attributes)
    if event.data is not None:
        raw = _as_json(event)
        if raw is not None:
            members["data"] = raw
        else:
            members["data_base64"] = base64.b64encode(event.data).decode()
    return _encoder.encode(members)


def encode_batch(events: Sequence[Event]) -> bytes:
    return b"[" + b",".join(encode_event(event) for event in events) + b"]"


def _parse(decoder: msgspec.json.Decoder[Any], raw: bytes | msgspec.Raw, what: str) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected(f"{what}: {error}") from None


def _attribute(name: str, raw: msgspec.Raw) -> str | None:
    """A member as canonical text; None for null, which means that the attribute is absent."""
    check_name(name)
    value = _parse(_value, raw, f"attribute {name!r} is not valid JSON")
    if isinstance(value, str):
        check_text(name, value)
        return value
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
            raise Rejected(f"attribute {name!r} is {value}, beyond 32 bits; send it as a string")
        return str(value)
    raise Rejected(f"attribute {name!r} must be a string, a whole number or true or false")


def _data(attributes: dict[str, str], members: dict[str, msgspec.Raw]) -> bytes | None:
    if "data_base64" in members:
        if "data" in members:
            raise Rejected("the event has both 'data' and 'data_base64'; send one of them")
        return _from_base64(members["data_base64"], "data_base64")
    if "data" not in members:
        return None
    return _data_member(attributes, members["data"])


def _data_member(attributes: dict[str, str], raw: msgspec.Raw) -> bytes | None:
    if is_json(attributes.get("datacontenttype")):
        _parse(_value, raw, "'data' is not valid JSON")
        return bytes(raw)
    value = _parse(_value, raw, "'data' is not valid JSON")
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return None if value is None else bytes(raw)


def _data_0_3(attributes: dict[str, str], members: dict[str, msgspec.Raw]) -> bytes | None:
    """Version 0.3: another name for the schema, and base64 announced by an attribute."""
    upgrade(attributes)
    if attributes.pop("datacontentencoding", "").lower() == "base64" and "data" in members:
        return _from_base64(members["data"], "data")
    return _data_member(attributes, members["data"]) if "data" in members else None


def upgrade(attributes: dict[str, str]) -> None:
    """An event of version 0.3 becomes one of 1.0."""
    attributes["specversion"] = "1.0"
    if "schemaurl" in attributes:
        attributes["dataschema"] = attributes.pop("schemaurl")


def _from_base64(raw: msgspec.Raw, member: str) -> bytes | None:
    value = _parse(_value, raw, f"{member!r} is not valid JSON")
    if value is None:
        return None
    if not isinstance(value, str):
        raise Rejected(f"{member!r} must be a string of base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Rejected(f"{member!r} is not valid base64: {error}") from None


def _as_json(event: Event) -> msgspec.Raw | None:
    """The data as a JSON member, if it is JSON and would come back byte for byte."""
    if event.content_type is None or not is_json(event.content_type) or event.data is None:
        return None
    try:
        _value.decode(event.data)
        raw = _batch.decode(b"[" + event.data + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return raw[0] if len(raw) == 1 and bytes(raw[0]) == event.data else None
