"""A row: one event as Spark hands it over, with the lanes that want it. Made by ``pipeline``, kept until all
its deliveries are finished. And where rows come from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.event.foreign import Foreign
from penstock.telemetry.traces import Parent


class RowTrace(NamedTuple):
    """What the spans of an event's deliveries share."""

    match: Parent  # the span that they belong to
    about: Mapping[str, str]  # the event


class Row:
    """plain slots, since one is made per event."""

    __slots__ = (
        "body",
        "headers",
        "is_poison",
        "is_wide",
        "json",
        "key",
        "matched",
        "offset",
        "received",
        "trace",
        "unfinished",
        "written",
    )

    def __init__(
        self, offset: int, matched: Sequence[int], headers: list[bytes], body: bytes, key: int | None = None
    ) -> None:
        self.offset = offset
        self.matched = matched  # places of subscriptions in the query's list
        self.headers = headers  # finished HTTP header lines, the same for every subscriber
        self.body = body
        self.key = key  # a checksum of the record's key, where somebody wants events in its order
        self.is_wide = False  # its header lines are more than servers take: it travels as JSON
        self.is_poison = False  # it ended its worker twice: it is given up without being touched
        self.json: bytes | None = None  # the whole event in JSON, once somebody needed it
        self.written = 0.0  # when Kafka had it, seconds since the epoch; 0: not known
        self.received = 0.0  # when the receiver had it
        self.trace: RowTrace | None = None  # of an event that is traced
        self.unfinished = 0  # deliveries that still hold the row


class ForeignRow(Row):
    """Of a record that is no event: a source makes one of it, and each source its own."""

    __slots__ = ("record",)

    def __init__(self, record: Foreign, matched: Sequence[int], body: bytes, key: int | None = None) -> None:
        super().__init__(record.offset, matched, [], body, key)
        self.record = record


class Source(Protocol):
    """Where rows come from."""

    is_over: bool  # no more will come

    @property
    def is_ready(self) -> bool:
        """Whether there are rows, whatever the descriptor says."""

    def fileno(self) -> int:
        """A descriptor that is readable when there are rows."""

    def read(self) -> Iterable[Row]:
        """The rows that are there."""
