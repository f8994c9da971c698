"""The form in which a row leaves the JVM, both ends of it: ``handed_over`` builds it in Spark, ``parse_row``
takes it apart in Python.

Everything about an event goes into one binary column, because each further column costs Python more than
cutting bytes does:

    offset partition kind places count length <blanks> LF     padded to a fixed width
    line NUL line NUL ... line                                finished HTTP header lines, one per record header
    data                                                      ``length`` bytes

``kind`` is b (an event in binary mode), s (structured: the data holds the whole event) or x (no event).
``places`` are the subscriptions that matched, as numbers in the query's list, or ``-``; a row that nobody wants
has no lines and no data and only moves the positions. ``count`` is the number of record headers, so that a
header value that holds a NUL shows itself.

In live mode a null row follows every row. Spark keeps back the last row it has until it knows the next one;
so it keeps back the filler, and the event leaves at once (session.LIVE_BATCH_BYTES).
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own idiom

from penstock.contract.model import Subscription
from penstock.delivery.row import Row
from penstock.errors import Rejected
from penstock.event.http import STRUCTURED, encode_binary, percent_encode_header
from penstock.event.kafka import decode_record
from penstock.filter.columns import matches

PREFIX_WIDTH = 48
REQUIRED = ("specversion", "id", "source", "type")

# What a header line may hold to be sent as it is: visible ASCII except " and %, and a value that is not empty.
NEEDS_CARE = re.compile(rb"[^\x00\x21\x23\x24\x26-\x7e]|:(?=\x00|\Z)")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
NOT_PRINTABLE = re.compile(rb"[^\x20-\x7e]")
HEADER_NAME = re.compile(rb"[A-Za-z0-9_-]+")
TRACES = (b"traceparent", b"tracestate")
OWN_ATTRIBUTES = b"ce-knativekafka"  # where an event stands in Kafka: said anew by every broker
NO_CONTENT_TYPE = b"Content-Type:"  # tells libcurl not to invent one

LINES_SQL = """
    array_join(transform(coalesce(headers, array()), h -> case
        when startswith(h.key, 'ce_') then concat('ce-', substring(h.key, 4), ':', cast(h.value as string))
        when h.key in ('content-type', 'traceparent', 'tracestate') then concat(h.key, ':', cast(h.value as string))
        else '' end), '\\0')
"""


# ── in Spark ──────────────────────────────────────────────────────────────────────────────────────────


def handed_over(subscriptions: Sequence[Subscription]) -> Column:
    """The packed column of a record of the Kafka source, matched against all subscriptions at once."""
    by_name = F.map_from_entries("headers")
    content_type = F.element_at(by_name, F.lit("content-type")).cast("string")
    is_structured = F.coalesce(F.lower(content_type).startswith("application/cloudevents"), F.lit(False))
    members = F.when(is_structured, F.from_json(F.col("value").cast("string"), "map<string,string>"))

    def attribute(name: str) -> Column:
        in_header = F.element_at(by_name, F.lit(f"ce_{name}")).cast("string")
        in_binary = content_type if name == "datacontenttype" else in_header
        in_value = F.element_at(members, F.lit(name))
        # Spark's JSON has limits that events have not; our own records have their attributes in headers as well.
        in_structured = F.when(members.isNotNull(), in_value).otherwise(in_header)
        return F.when(is_structured, in_structured).otherwise(in_binary)

    is_event = F.lit(True)
    for name in REQUIRED:
        is_event = is_event & attribute(name).isNotNull()
    kind = F.when(~is_event, "x").when(is_structured, "s").otherwise("b")
    wanted = [
        F.when(is_event & matches(each.filters, attribute), str(place)) for place, each in enumerate(subscriptions)
    ]
    places = F.concat_ws(",", *wanted)
    count = F.coalesce(F.size("headers"), F.lit(0)).cast("string")
    nobody = places == ""
    prefix = F.concat_ws(
        " ",
        F.col("offset").cast("string"),
        F.col("partition").cast("string"),
        kind,
        F.when(nobody, "-").otherwise(places),
        count,
        F.coalesce(F.octet_length("value"), F.lit(0)).cast("string"),
    )
    prefix = F.when(F.length(prefix) < PREFIX_WIDTH, F.rpad(prefix, PREFIX_WIDTH, " ")).otherwise(prefix)
    rest = F.concat(F.lit("\n"), F.expr(LINES_SQL))
    return F.when(nobody, F.encode(prefix, "utf-8")).otherwise(
        F.concat(F.encode(prefix, "utf-8"), rest.cast("binary"), F.coalesce(F.col("value"), F.lit(b"")))
    )


# ── in Python ─────────────────────────────────────────────────────────────────────────────────────────


def parse_row(packed: bytes) -> tuple[int, str, Row]:
    """The partition, the kind (``x`` also when the record proves to be no event after all), and the row."""
    prefix, _, rest = packed.partition(b"\n")
    offset_text, partition, kind_text, places, count, length = prefix.split()
    offset = int(offset_text)
    kind = kind_text.decode()
    if places == b"-":
        return int(partition), kind, Row(offset, (), [], b"")
    cut = len(rest) - int(length)
    block, data = rest[:cut], rest[cut:]
    try:
        if kind == "s":
            lines, data = _structured(block, data)
        else:
            lines = block.split(b"\0")
            if len(lines) != int(count):
                raise Rejected("a record header holds a NUL, or has no value")
            if NEEDS_CARE.search(block):
                lines = [_careful(line) for line in lines if line]
            lines = [line for line in lines if line]
            if not (block.startswith(b"content-type:") or b"\0content-type:" in block):
                lines.append(NO_CONTENT_TYPE)
    except Rejected:
        return int(partition), "x", Row(offset, (), [], b"")
    if OWN_ATTRIBUTES in block or kind == "s":  # the event came by way of another broker
        lines = [line for line in lines if not line.startswith(OWN_ATTRIBUTES)]
    lines.append(b"ce-knativekafkapartition:" + partition)
    lines.append(b"ce-knativekafkaoffset:" + offset_text)
    return int(partition), kind, Row(offset, _places(places), lines, data)


def _structured(block: bytes, data: bytes) -> tuple[list[bytes], bytes]:
    """A structured record in binary form: what subscribers get."""
    event = decode_record(data, [("content-type", STRUCTURED.encode())])
    headers, body = encode_binary(event)
    traces = [line for line in block.split(b"\0") if line.partition(b":")[0] in TRACES]
    lines = [name + b":" + value if value else name + b";" for name, value in headers]
    if event.content_type is None:
        lines.append(NO_CONTENT_TYPE)
    return lines + [line for line in map(_careful, traces) if line], body


@lru_cache(maxsize=4096)
def _places(text: bytes) -> tuple[int, ...]:
    return tuple(int(place) for place in text.split(b","))


def _careful(line: bytes) -> bytes:
    """A header line whose value needs encoding, or is empty, which libcurl wants written with a semicolon.

    A trace that cannot be a header is left out (an empty line): it is not worth an event.
    """
    name, _, value = line.partition(b":")
    if name in TRACES:
        return b"" if NOT_PRINTABLE.search(value) or not value else line
    if not HEADER_NAME.fullmatch(name):
        raise Rejected("the key of a record header is no name of an attribute")
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected("a record header is not UTF-8") from None
    if CONTROL.search(text):
        raise Rejected("a record header holds a control character")
    if not text:
        return name + b";"
    if name.startswith(b"ce-"):
        text = percent_encode_header(text)
    return name + b":" + text.encode("latin-1", "replace")
