"""Replies: events that a subscriber sends back with its answer. Pure.

In: an answer and the event, or batch, that it answers. Out: the events to be stored or sent on, each with one hop
less than its cause had, so that triggers which feed each other come to an end.
"""

from collections.abc import Sequence

from penstock.delivery.client import Answer, is_reply_status
from penstock.delivery.forms import event_of, is_structured, traces
from penstock.delivery.row import Row
from penstock.errors import Rejected
from penstock.event.http import decode
from penstock.event.kafka import Record, encode_record
from penstock.event.media import is_envelope
from penstock.event.model import Event

HOPS = "knativebrokerttl"
HOPS_LINE = b"ce-" + HOPS.encode() + b":"


class LoopCut(Exception):
    """The event has been passed on too often already, as a reply or as a dead letter."""


def replies(answer: Answer, rows: Sequence[Row], hop_limit: int) -> list[Event]:
    """The events in an answer, mostly none.

    Raises Rejected for what says it is an event and is none, and LoopCut when no hop is left.
    """
    if not (answer.body or answer.is_cut_off) or not is_reply_status(answer.status):
        return []
    fields = header_fields(answer.head)
    if not _is_event(fields):
        return []
    if answer.is_cut_off:
        raise Rejected("the reply is too large")
    events = decode(fields, answer.body)
    left = min(hops_left(row, hop_limit) for row in rows)
    if left <= 0:
        raise LoopCut
    return [_with_hops(event, left - 1) for event in events]


def reply_records(events: Sequence[Event], cause: Row) -> list[Record]:
    """The records of replies, with the trace of their cause."""
    told = [(name.decode(), value) for name, _, value in (line.partition(b":") for line in traces(cause.headers))]
    return [encode_record(event, trace_headers=told) for event in events]


def header_fields(head: bytes) -> list[tuple[bytes, bytes]]:
    """The header fields of the final answer, names in lower case; interim answers stand before it."""
    blocks = [block for block in head.split(b"\r\n\r\n") if block.startswith(b"HTTP/")]
    lines = blocks[-1].split(b"\r\n")[1:] if blocks else []
    fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if colon:
            fields.append((name.strip().lower(), value.strip()))
    return fields


def hops_left(row: Row, limit: int) -> int:
    """How often what follows from this event may be passed on; an event without a valid count has all hops."""
    text = _hops_of(row)
    return min(int(text), limit) if text.isdigit() and len(text) < 10 else limit


def _hops_of(row: Row) -> bytes:
    if is_structured(row.headers):  # its data is itself an event, so its attributes are in the body
        return event_of(row).attributes.get(HOPS, "").encode()
    return next((line[len(HOPS_LINE) :] for line in row.headers if line.startswith(HOPS_LINE)), b"")


def _is_event(fields: list[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"ce-specversion" or (name == b"content-type" and is_envelope(value.decode("latin-1")))
        for name, value in fields
    )


def _with_hops(event: Event, hops: int) -> Event:
    return Event({**event.attributes, HOPS: str(hops)}, event.data)
