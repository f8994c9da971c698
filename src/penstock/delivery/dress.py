"""An event as one subscription gets it, where that is not as all others do. Pure.

    a source       makes an event of a record that is none, and says in it who it is
    extensions     are set on every event, whatever it says of them itself

Made once for a lane; a lane without either has none and its rows go out as they came.
"""

import re

from penstock.contract.model import RecordsAsEvents, Subscription
from penstock.delivery.forms import TRACES, are_wide, binary_lines, event_of, is_structured, traces
from penstock.delivery.row import ForeignRow, Row
from penstock.event.attributes import FORBIDDEN, NAME
from penstock.event.foreign import event_of_record
from penstock.event.http import percent_encode_header
from penstock.event.model import CORE, Event

TRACE = re.compile(rb"[\x20-\x7e]+")


class Dress:
    def __init__(self, subscription: Subscription) -> None:
        self._records = subscription.records
        self._extensions = {
            name: value for name, value in subscription.extensions.items() if _may_be_set(name, value)
        }
        self._lines = [_line(name, value) for name, value in self._extensions.items()]
        self._replaced = tuple(b"ce-" + name.encode() + end for name in self._extensions for end in (b":", b";"))

    def event(self, row: Row) -> Row:
        """The event itself, which a dead letter keeps."""
        if isinstance(row, ForeignRow) and self._records is not None:
            return _made(row, self._records)
        return row

    def outgoing(self, row: Row) -> Row:
        """What is sent."""
        row = self.event(row)
        if not self._lines:
            return row
        if is_structured(row.headers):
            event = event_of(row)
            event = Event({**event.attributes, **self._extensions}, event.data)
            return _with(row, event, traces(row.headers))
        kept = [line for line in row.headers if not line.lower().startswith(self._replaced)]
        return _sized(Row(row.offset, row.matched, kept + self._lines, row.body, row.key))


def dress_of(subscription: Subscription) -> Dress | None:
    return Dress(subscription) if subscription.records or subscription.extensions else None


def _made(row: ForeignRow, records: RecordsAsEvents) -> Row:
    foreign = row.record
    event = event_of_record(foreign, row.body, records.source, records.key_type)
    place = {"knativekafkapartition": str(foreign.partition), "knativekafkaoffset": str(foreign.offset)}
    told = {name + b":": value for name, value in foreign.headers}  # of two the last one counts
    lines = [name + value for name in TRACES if (value := told.get(name)) and TRACE.fullmatch(value)]
    return _with(row, Event({**event.attributes, **place}, event.data), lines)


def _with(row: Row, event: Event, more_lines: list[bytes]) -> Row:
    lines, body = binary_lines(event)
    return _sized(Row(row.offset, row.matched, lines + more_lines, body, row.key))


def _sized(row: Row) -> Row:
    row.is_wide = are_wide(row.headers)
    return row


def _may_be_set(name: str, value: str) -> bool:
    """Only extensions are: what an event is cannot be overridden."""
    return bool(NAME.match(name)) and name not in CORE and name != "data" and not FORBIDDEN.search(value)


def _line(name: str, value: str) -> bytes:
    """An empty value is written as libcurl wants it."""
    return f"ce-{name}:{percent_encode_header(value)}".encode() if value else f"ce-{name};".encode()
