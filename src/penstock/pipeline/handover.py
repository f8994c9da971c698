"""The form in which a row leaves the JVM, both ends of it: ``handed_over`` builds it in Spark, ``parse_row``
(``parse_row_of_source`` where there is one) takes it apart in Python.

Everything about an event goes into one binary column, because each further column costs Python more than
cutting bytes does:

    offset partition kind places errors key count length time <blanks> LF   padded to a fixed width
    key CUT key CUT ... value CUT value                                of the record's headers, in their order
    data                                                               ``length`` bytes

``kind`` is b (an event in binary mode), s (structured: the data holds the whole event) or x (no event).
``places`` are the subscriptions that matched, as numbers in the query's list, or ``-``; a row that nobody wants
has no headers and no data and only moves the positions. ``errors`` are those of filters, as ``filter.matching``
writes them, or ``-``. ``key`` is a checksum of the record's key, or ``-`` when it has none or nobody needs it.
``count`` is the number of record headers, so that one that holds a CUT shows itself. ``time`` is when Kafka had the
record, in milliseconds.

Where a source is among the subscriptions, rows that somebody wants end in the record's key, its length, and when the
record was written, the two numbers in a fixed width. A source makes an event of what is none (delivery/dress.py).

In live mode a null row follows every row. Spark keeps back the last row it has until it knows the next one;
so it keeps back the filler, and the event leaves at once (session.LIVE_BATCH_BYTES).
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from pyspark.sql import DataFrame

from penstock.contract.model import ADDRESSEE, Subscription
from penstock.contract.telemetry import RECEIVED as RECEIVED_HEADER
from penstock.delivery.forms import NO_CONTENT_TYPE, WIDE_BYTES, WIDE_LINES, are_wide, binary_lines
from penstock.delivery.row import ForeignRow, Row
from penstock.errors import Rejected
from penstock.event.foreign import Foreign
from penstock.event.http import PLAIN, STRUCTURED, percent_encode_header
from penstock.event.kafka import decode_record
from penstock.event.model import REQUIRED
from penstock.filter.matching import Column, Matching, text_of
from penstock.filter.sql_text import literal
from penstock.pipeline.decode import decoded, with_columns

PREFIX_WIDTH = 48
WHOLE_STAGE_SQL = 6_000  # characters of the filters' SQL

# Between headers: nobody writes this by chance, as they would a NUL, since private headers hold numbers in binary.
CUT, CUT_SQL = "\0\u2016\0".encode(), r"'\0\u2016\0'"
NO_VALUE, NO_VALUE_SQL = b"\x01", r"'\u0001'"  # a control character: no attribute has such a value
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
NOT_PRINTABLE = re.compile(rb"[^\x20-\x7e]")
HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
TRACES = (b"traceparent:", b"tracestate:")
PASSED_ON = (b"content-type", b"traceparent", b"tracestate")  # beside attributes
RECEIVED, RECEIVED_WIDTH = RECEIVED_HEADER.encode(), 16  # microseconds since the epoch, until the year 2286
OWN_ATTRIBUTES = b"ce-knativekafka"  # where an event stands in Kafka: said anew by every broker
NONE = NO_ERRORS = b"-"

# ── in Spark ──────────────────────────────────────────────────────────────────────────────────────────

# No lambda over the headers: Spark interprets those, which costs more than all the rest of the query.
HEADERS_SQL = (
    f"coalesce(array_join(concat(headers.key, cast(headers.value AS array<string>)), {CUT_SQL}, {NO_VALUE_SQL}), '')"
)
PREFIX_SQL = """
    concat_ws(' ', offset, partition,
        CASE WHEN NOT is_event THEN 'x' WHEN is_structured THEN 's' ELSE 'b' END,
        CASE WHEN places = '' THEN '-' ELSE places END,
        CASE WHEN errors = '' THEN '-' ELSE errors END,
        {key},
        coalesce(size(headers), 0),
        coalesce(octet_length(value), 0),
        {time})
"""
ORIGIN_WIDTH = 32
ORIGIN_SQL = (
    ", coalesce(key, X''), encode(lpad(concat_ws(' ', coalesce(octet_length(key), 0), "
    f"coalesce(unix_millis(timestamp), -1)), {ORIGIN_WIDTH}), 'utf-8')"
)
KEY_SQL = "coalesce(cast(crc32(key) AS string), '-')"
NO_KEY_SQL = "'-'"
TIME_SQL, NO_TIME_SQL = "coalesce(unix_millis(timestamp), 0)", "0"
PADDED_SQL = (
    f"encode(CASE WHEN length(prefix) < {PREFIX_WIDTH} THEN rpad(prefix, {PREFIX_WIDTH}) ELSE prefix END, 'utf-8')"
)
ROW_SQL = f"""
    CASE WHEN places = '' THEN {PADDED_SQL}
    ELSE concat({PADDED_SQL}, cast(concat('\\n', {HEADERS_SQL}) AS binary), coalesce(value, X'')%s) END
"""


def handed_over(records: DataFrame, matched: Matching, subscriptions: Sequence[Subscription] = ()) -> DataFrame:
    """The records of the Kafka source as packed rows, matched against the filters of all subscriptions at once.

    A record that is addressed to one subscription (a dead letter on its second way) goes there and nowhere else.

    Each step adds the columns that the steps after it use more than once.
    """
    for name, value in codegen_settings(matched).items():
        records.sparkSession.conf.set(name, value)
    time = TIME_SQL if "timestamp" in records.columns else NO_TIME_SQL
    records = with_columns(records, (*decoded(matched), *matched.steps, *_packed(matched, subscriptions, time)))
    origin = ORIGIN_SQL if _sources(subscriptions) else ""
    return records.selectExpr(f"{ROW_SQL % origin} AS row")


def codegen_settings(matched: Matching) -> dict[str, str]:
    """Spark can write all steps into one method. The JVM refuses such a method when it is long."""
    return {"spark.sql.codegen.wholeStage": str(matched.sql_length <= WHOLE_STAGE_SQL).lower()}


def _sources(subscriptions: Sequence[Subscription]) -> str:
    """The places of those that take what is no event."""
    return ",".join(str(place) for place, each in enumerate(subscriptions) if each.records is not None)


def _packed(matched: Matching, subscriptions: Sequence[Subscription], time: str) -> Iterator[list[Column]]:
    uids = ",".join(each.uid for each in subscriptions)
    key = KEY_SQL if any(each.order == "key" for each in subscriptions) else NO_KEY_SQL
    yield [
        Column("is_event", " AND ".join(f"{text_of(name)} IS NOT NULL" for name in REQUIRED)),
        Column("addressee", f"cast(element_at(by_name, '{ADDRESSEE}') AS string)"),
    ]
    place = f"find_in_set(addressee, {literal(uids)})"
    yield [
        Column(
            "places",
            f"CASE WHEN NOT is_event THEN {literal(_sources(subscriptions))} "
            f"WHEN addressee IS NULL THEN {matched.places} "
            f"WHEN {place} > 0 THEN cast({place} - 1 AS string) ELSE '' END",
        ),
        Column("errors", f"CASE WHEN is_event AND addressee IS NULL THEN {matched.errors} ELSE '' END"),
    ]
    yield [Column("prefix", PREFIX_SQL.format(key=key, time=time))]


# ── in Python ─────────────────────────────────────────────────────────────────────────────────────────


class Parsed(NamedTuple):
    partition: int
    kind: str
    errors: bytes  # of filters; NO_ERRORS when there are none
    row: Row


def place_of(packed: bytes) -> tuple[int, int]:
    """Partition and offset of a packed row, without looking at the rest."""
    offset, partition, _ = packed[:PREFIX_WIDTH].split(b" ", 2)
    return int(partition), int(offset)


def untouched(packed: bytes) -> Parsed:
    """Of an event that must not be touched: where it stands, and who wanted it."""
    offset, partition, kind, places, *_ = packed.partition(b"\n")[0].split()
    lines = [b"ce-knativekafkapartition:" + partition, b"ce-knativekafkaoffset:" + offset]
    row = Row(int(offset), () if places == NONE else _places(places), lines, b"")
    row.is_poison = True
    return Parsed(int(partition), kind.decode(), NO_ERRORS, row)


def parse_row(packed: bytes) -> Parsed:
    """A packed row, taken apart. A record may prove to be no event only now."""
    prefix, _, rest = packed.partition(b"\n")
    offset_text, partition, kind_text, places, errors, key, count, length, milliseconds = prefix.split()
    offset = int(offset_text)
    kind = kind_text.decode()
    if places == NONE:
        return Parsed(int(partition), kind, errors, Row(offset, (), [], b""))
    cut = len(rest) - int(length)
    pieces, data = rest[:cut].split(CUT), rest[cut:]
    middle = int(count)
    try:
        if len(pieces) != 2 * middle:
            raise Rejected("a record header holds what stands between them")
        find = _names.__wrapped__ if cut > WIDE_BYTES else _names  # a cache must not be filled with monsters
        names, values = find(*pieces[:middle]), pieces[middle:]
        if kind == "s":
            lines, data = _structured(names, values, data)
        else:
            lines = _lines(names, values)
    except Rejected:
        return Parsed(int(partition), "x", errors, Row(offset, (), [], b""))
    lines.append(b"ce-knativekafkapartition:" + partition)
    lines.append(b"ce-knativekafkaoffset:" + offset_text)
    row = Row(offset, _places(places), lines, data, None if key == NONE else int(key))
    row.written = int(milliseconds) / 1000
    row.received = _received(names, values)
    may_be_wide = cut > WIDE_BYTES or len(lines) > WIDE_LINES or kind == "s"  # else there is no need to look
    row.is_wide = may_be_wide and are_wide(lines)  # private headers do not count
    return Parsed(int(partition), kind, errors, row)


def parse_row_of_source(packed: bytes) -> Parsed:
    """The same where there are sources. What is no event has all of its record, and is for those who wanted it; it is
    up to the caller to leave out who is no source."""
    if b"\n" not in packed:
        return parse_row(packed)
    width, milliseconds = packed[-ORIGIN_WIDTH:].split()
    end = len(packed) - ORIGIN_WIDTH - int(width)
    prefix, _, rest = packed[:end].partition(b"\n")
    offset, partition, kind, places, errors, key, count, length, _ = prefix.split()
    if kind != b"x":
        parsed = parse_row(packed[:end])
        if parsed.kind != "x":
            return parsed
    cut = len(rest) - int(length)
    headers = _pairs(rest[:cut].split(CUT), int(count))
    record = Foreign(int(partition), int(offset), int(milliseconds), packed[end:-ORIGIN_WIDTH], headers)
    row = ForeignRow(record, _places(places), rest[cut:], None if key == NONE else int(key))
    row.written = int(milliseconds) / 1000
    return Parsed(record.partition, "x", errors, row)


def _pairs(pieces: list[bytes], count: int) -> list[tuple[bytes, bytes | None]]:
    """The headers of a record; none when one of them holds what stands between them."""
    if len(pieces) != 2 * count:
        return []
    values = (None if value == NO_VALUE else value for value in pieces[count:])
    return list(zip(pieces[:count], values, strict=True))


class Names(NamedTuple):
    """The keys of a record's headers, as HTTP has them."""

    fields: tuple[
        bytes, ...
    ]  # each with its colon; empty: nothing for subscribers, and those at the end are left out
    is_all: bool  # no field is empty
    flaw: bool  # an attribute's name cannot be that of an HTTP header
    has_content_type: bool
    received: int  # the place of the receiver's own header; -1: it is not there


# The records of a sender have the same keys each time, so these are looked at once.
@lru_cache(maxsize=256)
def _names(*keys: bytes) -> Names:
    fields = [b"ce-" + key[3:] if key.startswith(b"ce_") else key if key in PASSED_ON else b"" for key in keys]
    last = {field: place for place, field in enumerate(fields)}
    for place, field in enumerate(fields):
        if field.startswith(OWN_ATTRIBUTES) or last[field] != place:  # of two the last one counts
            fields[place] = b""
    while fields and not fields[-1]:  # mostly the receiver's own header
        fields.pop()
    return Names(
        fields=tuple(field + b":" if field else b"" for field in fields),
        is_all=all(fields),
        flaw=any(field and not HEADER_NAME.fullmatch(field) for field in fields),
        has_content_type=b"content-type" in keys,
        received=keys.index(RECEIVED) if RECEIVED in keys else -1,
    )


def _lines(names: Names, values: list[bytes]) -> list[bytes]:
    """Finished HTTP header lines."""
    if names.flaw:
        raise Rejected("the key of a record header is no name of an attribute")
    if b"".join(values).translate(None, PLAIN) or b"" in values:
        pairs = zip(names.fields, values, strict=False)
        lines = [line for line in (_careful(field, value) for field, value in pairs if field) if line]
    elif names.is_all:
        lines = list(map(bytes.__add__, names.fields, values))
    else:
        lines = [field + value for field, value in zip(names.fields, values, strict=False) if field]
    if not names.has_content_type:
        lines.append(NO_CONTENT_TYPE)
    return lines


def _received(names: Names, values: list[bytes]) -> float:
    """Seconds since the epoch; 0 when nobody said so in a way that we understand."""
    if names.received < 0:
        return 0.0
    text = values[names.received]
    return int(text) / 1e6 if len(text) == RECEIVED_WIDTH and text.isdigit() else 0.0


def _structured(names: Names, values: list[bytes], data: bytes) -> tuple[list[bytes], bytes]:
    """A structured record in binary form: what subscribers get."""
    event = decode_record(data, [("content-type", STRUCTURED.encode())])
    lines, body = binary_lines(event)
    lines = [line for line in lines if not line.startswith(OWN_ATTRIBUTES)]
    for field, value in zip(names.fields, values, strict=False):
        if field in TRACES and (line := _careful(field, value)):
            lines.append(line)
    return lines, body


@lru_cache(maxsize=4096)
def _places(text: bytes) -> tuple[int, ...]:
    return tuple(int(place) for place in text.split(b","))


def _careful(field: bytes, value: bytes) -> bytes:
    """A header line whose value needs encoding, or is empty, which libcurl wants written with a semicolon.

    A trace that cannot be a header is left out (an empty line): it is not worth an event.
    """
    if field in TRACES:
        return b"" if NOT_PRINTABLE.search(value) or not value else field + value
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected("a record header is not UTF-8") from None
    if CONTROL.search(text):
        raise Rejected("a record header holds a control character, or has no value")
    if not text:
        return field[:-1] + b";"
    if field.startswith(b"ce-"):
        text = percent_encode_header(text)
    return field + text.encode("latin-1", "replace")
