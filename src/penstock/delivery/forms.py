"""The forms in which a subscriber gets events: as they are (binary), as JSON, or many at once as JSON. Pure.

Rows come as finished header lines and a body, which is binary mode; the other forms are made from that.
"""

from collections.abc import Callable

from penstock.delivery.row import Row
from penstock.errors import Rejected
from penstock.event.http import decode
from penstock.event.json_form import encode_event
from penstock.event.media import BATCHED, STRUCTURED
from penstock.event.model import Event

TRACES = (b"traceparent:", b"tracestate:")
STRUCTURED_LINE = b"content-type:" + STRUCTURED.encode()
BATCHED_LINE = b"content-type:" + BATCHED.encode()


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
        event = Event(names, row.body)
    return event


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
            row.json = encode_event(event_of(row))
        parts.append(row.json)
    return [BATCHED_LINE], b"[" + b",".join(parts) + b"]"


def traces(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if line.startswith(TRACES)]
