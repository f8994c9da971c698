"""The forms in which a subscriber gets events: as they are (binary), as JSON, or many at once as JSON. Pure.

Rows come as finished header lines and a body, which is binary mode; the other forms are made from that.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import msgspec

from penstock.delivery.row import Row
from penstock.errors import Rejected
from penstock.event.http import PLAIN, decode, encode_binary
from penstock.event.json_form import as_member, encode_event
from penstock.event.media import BATCHED, STRUCTURED, is_envelope, is_json
from penstock.event.model import Event

WIDE_BYTES = 7_000  # of header lines: with ours beside them, about what every HTTP server takes
WIDE_LINES = 90  # the same in number: many servers take 100
NO_CONTENT_TYPE = b"Content-Type:"  # tells libcurl not to invent one
TRACES = (b"traceparent:", b"tracestate:")
CONTENT_TYPE = b"content-type:"
PLACE = b"ce-knativekafka"  # where an event stands in Kafka
STRUCTURED_LINE = b"content-type:" + STRUCTURED.encode()
BATCHED_LINE = b"content-type:" + BATCHED.encode()
PLAIN_IN_JSON = PLAIN.replace(b"\\", b"")
ATTRIBUTE_LINE = re.compile(rb"ce-(?!data\Z|datacontenttype\Z)[a-z0-9]+")
NO_MEMBERS = (*(line[:-1] for line in TRACES), b"Content-Type")


def event_of(row: Row) -> Event:
    """The event of a row, with where it stands in Kafka."""
    fields = []
    for line in row.headers:
        name, colon, value = line.partition(b":")
        if not colon:  # an empty value, as libcurl wants it written
            fields.append((line.rstrip(b";").lower(), b""))
        elif value:
            fields.append((name.lower(), value))
    try:
        (event,) = decode(fields, row.body)
    except (Rejected, ValueError):  # it came out of Kafka as an event; whatever it is, nothing may stop the stream
        names = {name.decode("latin-1")[3:]: value.decode("latin-1") for name, value in fields if name[:3] == b"ce-"}
        return Event(names, row.body)
    if "knativekafkaoffset" not in event.attributes:  # it is in the body, and its place beside it
        place = {name.decode()[3:]: value.decode() for name, value in fields if name.startswith(PLACE)}
        event = Event({**event.attributes, **place}, event.data)
    return event


def is_structured(lines: list[bytes]) -> bool:
    """Whether the attributes are in the body: data that is itself an event can travel in no other way."""
    types = (line[len(CONTENT_TYPE) :] for line in lines if line.lower().startswith(CONTENT_TYPE))
    return any(is_envelope(each.decode("latin-1").strip()) for each in types)


def binary_lines(event: Event) -> tuple[list[bytes], bytes]:
    """Header lines and body of binary mode; of an event about an event, structured ones."""
    headers, body = encode_binary(event)
    lines = [name + b":" + value if value else name + b";" for name, value in headers]
    if event.content_type is None:
        lines.append(NO_CONTENT_TYPE)
    return lines, body


def are_wide(lines: list[bytes]) -> bool:
    """Whether the event travels as JSON, since servers would refuse its header lines."""
    return len(lines) > WIDE_LINES or sum(map(len, lines)) > WIDE_BYTES


def structured(lines: list[bytes], body: bytes) -> tuple[list[bytes], bytes]:
    """Header lines and body of the JSON form."""
    row = Row(0, (), lines, body)
    return [STRUCTURED_LINE, *traces(lines)], encode_event(event_of(row))


def batched(rows: list[Row], touch: Callable[[int], None] = lambda _: None) -> tuple[list[bytes], bytes]:
    """Header lines and body of many events at once; each is encoded once, however many lanes want it."""
    parts = []
    for row in rows:
        if row.json is None:
            touch(row.offset)
            row.json = _plain(row) or encode_event(event_of(row))
        parts.append(row.json)
    return [BATCHED_LINE], b"[" + b",".join(parts) + b"]"


class Frame(NamedTuple):
    """What the names of a row's header lines make of its JSON form."""

    template: bytes  # up to the content type
    attributes: Callable[[list[bytes]], tuple[bytes, ...]]  # of all values those that are attributes
    version: int  # the place of the specversion
    content_type: int


def _plain(row: Row) -> bytes | None:
    """The JSON form of an event with JSON data that needs no care, in a fraction of the time; None for any other."""
    if row.is_wide:
        return None  # a cache must not be filled with monsters
    parts = [line.partition(b":") for line in row.headers]
    frame = _frame(*[name for name, _, _ in parts])
    if frame is None:
        return None
    values = [value for _, _, value in parts]
    attributes = frame.attributes(values)
    content_type = _json_type(values[frame.content_type])
    if content_type is None or values[frame.version] != b"1.0" or as_member(row.body) is None:
        return None
    if b"".join(attributes).translate(None, PLAIN_IN_JSON):
        return None
    return b'%b"datacontenttype":%b,"data":%b}' % (frame.template % attributes, content_type, row.body)


@lru_cache(maxsize=256)
def _frame(*names: bytes) -> Frame | None:
    """None when there is a name that needs care, or one is missing that this form counts on."""
    places = [place for place, name in enumerate(names) if ATTRIBUTE_LINE.fullmatch(name)]
    others = [name for name in names if not ATTRIBUTE_LINE.fullmatch(name) and name not in NO_MEMBERS]
    has_all = {b"ce-specversion", b"ce-id"} <= set(names)
    if others != [b"content-type"] or len(set(names)) != len(names) or not has_all:
        return None
    template = b"".join(b'"%b":"%%b",' % names[place][3:] for place in places)
    return Frame(b"{" + template, itemgetter(*places), names.index(b"ce-specversion"), names.index(b"content-type"))


@lru_cache(maxsize=256)
def _json_type(value: bytes) -> bytes | None:
    """A content type as a JSON string, when data of this type is JSON."""
    if not value.isascii() or is_envelope(text := value.decode()) or not is_json(text):
        return None
    return msgspec.json.encode(text)


def traces(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if line.startswith(TRACES)]
