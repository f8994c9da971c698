"""Which records are the events that a search wants, and what is told of them. Pure; runs in the search's workers.

Of most records one header says that they are none; the JSON of an event without headers is only looked into for the
rest.
"""

import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.contract.model import ADDRESSEE
from penstock.contract.moments import received_us
from penstock.contract.questions import Search
from penstock.contract.telemetry import RECEIVED
from penstock.errors import Rejected
from penstock.event.globs import Glob
from penstock.event.json_form import decode_event
from penstock.event.media import mode_of
from penstock.event.model import REQUIRED
from penstock.kafka.latest import headers_of

EXACT = ("id", "source", "subject")
SHOWN = ("id", "source", "type", "subject", "time", "datacontenttype")
MOST_KEPT = 5_000  # rows, before all but the newest are dropped

Line = dict[str, Any]
Fields = Mapping[str, bytes | None]


class Wanted:
    """Takes records one after the other; keeps the newest that are wanted, and counts all of them."""

    def __init__(self, asked: Search) -> None:
        self.matched = 0
        self._latest = asked.latest
        self._rows: list[Line] = []
        exact = {name: getattr(asked, name) for name in EXACT if getattr(asked, name)}
        self._exact = tuple(exact.items())
        self._headers = tuple((f"ce_{name}", value.encode()) for name, value in exact.items())
        self._type = Glob(asked.type) if asked.type else None
        self._text = asked.text.lower()
        self._since = int(asked.since * 1000)
        self._until = int(asked.until * 1000) if asked.until else None

    def take(self, messages: Iterable[Any]) -> None:
        for message in messages:
            fields: Fields = dict(headers_of(message))  # of doubled headers the last counts
            if "ce_id" in fields:
                for name, value in self._headers:
                    if fields.get(name) != value:
                        break
                else:
                    self._look(message, fields, _in_headers(fields))
            elif fields.get("content-type"):
                attributes = _in_json(fields, message.value())
                if attributes is not None and all(attributes.get(name) == value for name, value in self._exact):
                    self._look(message, fields, attributes)

    def newest(self) -> list[Line]:
        return heapq.nsmallest(self._latest, self._rows, key=newest_first)

    def _look(self, message: Any, fields: Fields, attributes: Mapping[str, str | None]) -> None:
        """At the rest, now that it may be one."""
        if any(attributes.get(name) is None for name in REQUIRED):  # else it is no event
            return
        _, timestamp = message.timestamp()
        if timestamp < self._since or (self._until is not None and timestamp > self._until):
            return
        if self._type is not None and not self._type.fits(attributes["type"] or ""):
            return
        value = message.value() or b""
        if self._text and not self._has_text(fields, value):
            return
        self.matched += 1
        self._rows.append(
            {
                "topic": message.topic(),
                "partition": message.partition(),
                "offset": message.offset(),
                "timestamp": timestamp,
                "size": len(value),
                **{name: attributes.get(name) for name in SHOWN},
                "received_ms": received_us(fields.get(RECEIVED), timestamp) // 1000,
                "addressee": _text(fields, ADDRESSEE),
            }
        )
        if len(self._rows) >= MOST_KEPT:
            self._rows = self.newest()

    def _has_text(self, fields: Fields, value: bytes) -> bool:
        everything = b"\n".join([*(each for each in fields.values() if each), value])
        return self._text in everything.decode("utf-8", "replace").lower()


def newest_first(row: Line) -> tuple[int, str, int, int]:
    return -row["timestamp"], row["topic"], -row["partition"], -row["offset"]


def _in_headers(fields: Fields) -> dict[str, str | None]:
    """Whoever has an id among the headers has the others there too."""
    found = {name: _text(fields, f"ce_{name}") for name in (*REQUIRED, *SHOWN)}
    found["datacontenttype"] = found["datacontenttype"] or _text(fields, "content-type")
    return found


def _in_json(fields: Fields, value: bytes | None) -> Mapping[str, str | None] | None:
    """None: it is no event."""
    try:
        if mode_of(_text(fields, "content-type") or "") == "structured":
            return decode_event(value or b"").attributes
    except Rejected:
        pass
    return None


def _text(fields: Fields, key: str) -> str | None:
    value = fields.get(key)
    return None if value is None else value.decode("utf-8", "replace")
