"""A record that is no event, made into one as Knative's Kafka source does it. Pure, and it takes everything.

    id partition:P/offset:O   subject partition:P#O   type dev.knative.kafka.event   time that of the record
    its key: the extensions key and partitionkey      its headers: kafkaheader…, but for the content type
    its value: the data, byte for byte

What cannot be an attribute is left out: a record header that holds control characters, or has no value. The key is
never left out: one that is no text is written in base64, as Knative writes those of type byte-array.
"""

import base64
import contextlib
import math
import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal, NamedTuple

from penstock.event.attributes import FORBIDDEN, is_media_type
from penstock.event.model import Event

KeyType = Literal["string", "int", "float", "byte-array"]

TYPE = "dev.knative.kafka.event"
HEADER_PREFIX = "kafkaheader"
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
LAST_MILLISECOND = 253_402_300_799_999  # of the year 9999: no time that can be written comes behind it


class Foreign(NamedTuple):
    """What a record is besides its value."""

    partition: int
    offset: int
    milliseconds: int  # since the epoch; -1: it has no timestamp
    key: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]]


def event_of_record(record: Foreign, value: bytes | None, source: str, key_type: KeyType) -> Event:
    attributes = {
        "specversion": "1.0",
        "id": f"partition:{record.partition}/offset:{record.offset}",
        "source": source,
        "type": TYPE,
        "subject": f"partition:{record.partition}#{record.offset}",
    }
    if 0 <= record.milliseconds <= LAST_MILLISECOND:
        attributes["time"] = _time(record.milliseconds)
    attributes.update(_of_headers(record.headers))
    if record.key:  # an empty one is none, as Knative has it
        attributes["key"] = attributes["partitionkey"] = _key(record.key, key_type)
    return Event(attributes, value or None)


def _time(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    written = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{written}.{rest:03}Z" if rest else f"{written}Z"


def _of_headers(headers: Sequence[tuple[bytes, bytes | None]]) -> Iterator[tuple[str, str]]:
    """Of two with the same name the last one counts."""
    for raw_name, raw in headers:
        text = _text(raw)
        if text is None:
            continue
        name = raw_name.decode("utf-8", "replace").lower()
        if name != "content-type":
            yield HEADER_PREFIX + "".join(each for each in name if each in NAME_CHARACTERS), text
        elif is_media_type(text):
            yield "datacontenttype", text


def _key(key: bytes, key_type: KeyType) -> str:
    """Numbers are big-endian, as Kafka's own serializers write them; one of another length is taken for a string."""
    if key_type == "int" and len(key) == 4:
        return str(int.from_bytes(key, "big", signed=True))
    if key_type == "float" and len(key) in (4, 8):
        return _number(key)
    text = None if key_type == "byte-array" else _text(key)
    return base64.b64encode(key).decode() if text is None else text


def _text(raw: bytes | None) -> str | None:
    if raw is None:
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if FORBIDDEN.search(text) else text


def _number(key: bytes) -> str:
    """A floating point number as Java writes it, in the fewest digits that tell it from all others of its size."""
    (value,) = struct.unpack(">f" if len(key) == 4 else ">d", key)
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shortest = Decimal(_shortest_single(value, key) if len(key) == 4 else repr(value)).normalize()
    if not value or 1e-3 <= abs(value) < 1e7:
        plain = f"{shortest:f}"
        return plain if "." in plain else plain + ".0"
    digits, exponent = f"{shortest:e}".split("e")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _shortest_single(value: float, key: bytes) -> str:
    for digits in range(1, 9):
        text = f"{value:.{digits}g}"
        with contextlib.suppress(OverflowError):  # rounded up beyond the largest one
            if struct.pack(">f", float(text)) == key:
                return text
    return f"{value:.9g}"
