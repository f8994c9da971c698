"""The HTTP forms of an event: binary, structured and batched, both ways.

In: header names in lower case and values, as bytes, and the body. Out: events, or Rejected with the reason.
Called by the receiver for what comes in, by ``penstock send`` and the tests for what goes out.
"""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, unquote_to_bytes

from penstock.errors import Rejected
from penstock.event.attributes import check_attributes, check_name, check_text
from penstock.event.json_form import decode_batch, decode_event, encode_batch, encode_event, upgrade
from penstock.event.model import Event

Headers = Iterable[tuple[bytes, bytes]]

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"

# A value that stands for itself: visible ASCII without quotes and percent signs.
PLAIN = re.compile(rb"[\x21\x23\x24\x26-\x7e]+\Z")
# What percent-encoding leaves alone.
UNENCODED = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')
ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def decode(headers: Headers, body: bytes) -> list[Event]:
    """The events of a request: one, or those of a batch."""
    content_type: bytes | None = None
    attributes: dict[str, str] = {}
    for name, value in headers:
        if name.startswith(b"ce-"):
            _take(attributes, name, value)
        elif name == b"content-type":
            if content_type is not None:
                raise Rejected("the header Content-Type stands twice")
            content_type = value
    if content_type is not None:
        media = content_type.partition(b";")[0].strip().lower()
        if media.startswith(b"application/cloudevents"):
            _check_charset(content_type)
            if media == b"application/cloudevents+json":
                return [decode_event(body)]
            if media == b"application/cloudevents-batch+json":
                return decode_batch(body)
            raise Rejected(f"content type {media.decode('latin-1')!r}: the format is not known; {STRUCTURED} is")
        attributes["datacontenttype"] = _text("content-type", content_type)
    return [_binary(attributes, body)]


def _take(attributes: dict[str, str], header: bytes, value: bytes) -> None:
    name = _NAMES.get(header)
    if name is None:
        name = header[3:].decode("latin-1")
        check_name(name)
        if name == "datacontenttype":
            raise Rejected("in binary mode datacontenttype is the header Content-Type, not ce-datacontenttype")
        if len(_NAMES) < 1000:  # a sender's own names are remembered, an attacker's flood is not
            _NAMES[header] = name
    if name in attributes:
        raise Rejected(f"the header {header.decode()} stands twice")
    attributes[name] = value.decode("ascii") if PLAIN.match(value) else _decoded(name, value)


_NAMES: dict[bytes, str] = {}


def _binary(attributes: dict[str, str], body: bytes) -> Event:
    if "specversion" not in attributes:
        raise Rejected(
            "this is no CloudEvent: the header ce-specversion is missing",
            hint=f"send ce-specversion, ce-id, ce-source and ce-type, or a body of type {STRUCTURED}",
        )
    if attributes["specversion"] == "0.3":
        upgrade(attributes)
    check_attributes(attributes)
    # HTTP cannot tell empty data from none, and CloudEvents treats them alike.
    return Event(attributes, body or None)


def _decoded(name: str, value: bytes) -> str:
    """A header value as the binding says: unquote, then decode percent-encoded UTF-8."""
    text = _text(name, value).strip(" \t")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = ESCAPED.sub(r"\1", text[1:-1])
    if "%" in text:
        try:
            text = unquote_to_bytes(text).decode("utf-8")
        except UnicodeDecodeError:
            raise Rejected(f"attribute {name!r}: the percent-encoded value is not UTF-8") from None
    check_text(name, text)
    return text


def _text(name: str, value: bytes) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected(f"the value of {name!r} is not UTF-8") from None
    check_text(name, text)
    return text


def _check_charset(content_type: bytes) -> None:
    """JSON is UTF-8; a sender that says otherwise would be misread."""
    found = re.search(rb"charset\s*=\s*\"?([^\s;\"]+)", content_type, re.IGNORECASE)
    if found and found[1].lower() not in (b"utf-8", b"utf8", b"us-ascii"):
        raise Rejected(f"charset {found[1].decode('latin-1')!r}: events in JSON must be UTF-8")


def percent_encode_header(value: str) -> str:
    """A header value as the HTTP binding wants it: space, quote, percent and all beyond visible ASCII encoded."""
    return quote(value, safe=UNENCODED)


def encode_binary(event: Event) -> tuple[list[tuple[bytes, bytes]], bytes]:
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
