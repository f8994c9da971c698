"""The HTTP forms of an event: binary, structured and batched, both ways.

In: header names in lower case and values, as bytes, and the body. Out: events, or Rejected with the reason.
Called by the receiver for what comes in; by the pipeline, ``penstock send`` and the tests for what goes out.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from penstock.errors import Rejected
from penstock.event.attributes import check_attributes, check_name, check_text, upgrade
from penstock.event.json_form import decode_batch, decode_event, encode_batch, encode_event
from penstock.event.media import BATCHED as BATCHED
from penstock.event.media import STRUCTURED as STRUCTURED
from penstock.event.media import is_envelope, mode_of
from penstock.event.model import Event

REMEMBERED_NAMES = 40  # header names of a request; a cache must not be filled with the monsters of a few senders
Headers = Sequence[tuple[bytes, bytes]]

# What stands for itself in a header: visible ASCII without quotes and percent signs.
PLAIN = bytes(set(range(0x21, 0x7F)) - set(b'"%'))
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"\Z', re.DOTALL)
ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Shape(NamedTuple):
    """What the header names of a request say: where its content type stands, and where its attributes."""

    content_type: int | None
    names: tuple[str, ...]
    places: tuple[int, ...]
    flaw: str | None  # what is wrong with the names of the attributes; of interest in binary mode only


def decode(headers: Headers, body: bytes) -> list[Event]:
    """The events of a request: one, or those of a batch."""
    names, values = zip(*headers, strict=True) if headers else ((), ())
    shape = _shape(names) if len(names) <= REMEMBERED_NAMES else _shape.__wrapped__(names)
    attributes: dict[str, str] = {}
    if shape.content_type is not None:
        mode, content_type = _content_type(values[shape.content_type])
        if mode == "structured":
            return [decode_event(body)]
        if mode == "batched":
            return decode_batch(body)
        attributes["datacontenttype"] = content_type
    if shape.flaw is not None:
        raise Rejected(shape.flaw)
    own = [values[place] for place in shape.places]
    encoded = b"".join(own).translate(None, PLAIN)  # one look at all values: most requests have none
    texts = map(_decoded, shape.names, own) if encoded else map(bytes.decode, own)
    attributes.update(zip(shape.names, texts, strict=True))
    return [_binary(attributes, body)]


# A sender's requests have the same header names each time, so these are looked at once.
@lru_cache(maxsize=256)
def _shape(names: tuple[bytes, ...]) -> Shape:
    if names.count(b"content-type") > 1:
        raise Rejected("the header content-type occurs more than once")
    content_type = names.index(b"content-type") if b"content-type" in names else None
    places: dict[str, int] = {}
    flaw = None
    for place, header in enumerate(names):
        if header.startswith(b"ce-"):
            name = header[3:].decode("latin-1")
            flaw = flaw or _flaw(name, places)
            places[name] = place
    return Shape(content_type, tuple(places), tuple(places.values()), flaw)


def _flaw(name: str, others: dict[str, int]) -> str | None:
    if name in others:
        return f"the header ce-{name} occurs more than once"
    if name == "datacontenttype":
        return "in binary mode datacontenttype is the header content-type, not ce-datacontenttype"
    try:
        check_name(name)
    except Rejected as error:
        return error.message
    return None


@lru_cache(maxsize=256)
def _content_type(value: bytes) -> tuple[str, str]:
    """The mode of a request and its content type as text."""
    text = _text("datacontenttype", value)
    check_text("datacontenttype", text)
    return mode_of(text), text


def _binary(attributes: dict[str, str], body: bytes) -> Event:
    version = attributes.get("specversion")
    if version is None:
        raise Rejected(
            "this is no CloudEvent: the header ce-specversion is missing",
            hint=f"send ce-specversion, ce-id, ce-source and ce-type, or a body of type {STRUCTURED}",
        )
    if version == "0.3":
        upgrade(attributes)
    check_attributes(attributes)
    # A body of no bytes is no data: HTTP cannot tell the two apart.
    return Event(attributes, body or None)


def _decoded(name: str, value: bytes) -> str:
    """A header value as the binding says: unquote, then decode percent-encoded UTF-8."""
    text = _text(name, value)
    if not value.translate(None, PLAIN):
        return text
    quoted = QUOTED.match(text)
    if quoted:
        text = ESCAPED.sub(r"\1", quoted[1])
    if "%" in text:
        try:
            text = unquote_to_bytes(text).decode("utf-8")  # a % that encodes nothing stays as it is
        except UnicodeDecodeError:
            raise Rejected(f"attribute {name!r}: the percent-encoded value is not UTF-8") from None
    check_text(name, text)
    return text


def _text(name: str, value: bytes) -> str:
    """A header value as text. Plain UTF-8 is more than HTTP allows, but what it means is beyond doubt."""
    try:
        return value.decode("utf-8").strip(" \t")
    except UnicodeDecodeError:
        raise Rejected(f"the value of {name!r} is not UTF-8") from None


def percent_encode_header(value: str) -> str:
    """A header value as the HTTP binding wants it: space, quote, percent and all beyond visible ASCII encoded."""
    raw = value.encode()
    return quote_from_bytes(raw, safe=PLAIN) if raw.translate(None, PLAIN) else value


def encode_binary(event: Event) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Binary mode, unless the data is itself an event: that would be taken for this one, so it goes structured."""
    content_type = event.content_type
    if content_type is not None and is_envelope(content_type):
        return encode_structured(event)
    headers = []
    for name, value in event.attributes.items():
        if name == "datacontenttype":
            headers.append((b"content-type", value.encode()))
        else:
            headers.append((b"ce-" + name.encode(), percent_encode_header(value).encode()))
    return headers, event.data or b""


def encode_structured(event: Event) -> tuple[list[tuple[bytes, bytes]], bytes]:
    return [(b"content-type", STRUCTURED.encode())], encode_event(event)


def encode_batched(events: Sequence[Event]) -> tuple[list[tuple[bytes, bytes]], bytes]:
    return [(b"content-type", BATCHED.encode())], encode_batch(events)
