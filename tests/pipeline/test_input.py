"""Promises of reading what Spark sends: what is no event is passed by, counted, and complained about only once."""

import logging
import os

import pyarrow as pa
import pytest

from penstock.delivery.row import ForeignRow, Row
from penstock.event.foreign import Foreign
from penstock.pipeline.filter_errors import FilterErrors
from penstock.pipeline.handover import CUT, ORIGIN_WIDTH, PREFIX_WIDTH
from penstock.pipeline.input import SparkRows


def packed(
    offset: int,
    kind: str,
    places: str = "-",
    headers: tuple[bytes, ...] = (),
    data: bytes = b"",
    key: bytes | None = None,
) -> bytes:
    """As ``handed_over`` makes it: half of the headers are keys, the other half their values.

    With a key where there are sources.
    """
    prefix = f"{offset} 3 {kind} {places} - - {len(headers) // 2} {len(data)} 1700000000123".ljust(
        PREFIX_WIDTH
    ).encode()
    if places == "-":
        return prefix
    origin = b"" if key is None else key + f"{len(key)} 1577836800123".rjust(ORIGIN_WIDTH).encode()
    return prefix + b"\n" + CUT.join(headers) + data + origin


def read(rubbish: list[bytes], sources: frozenset[int] = frozenset()) -> tuple[SparkRows, list[Row]]:
    batches = [pa.record_batch([pa.array([None, each], pa.binary())], names=["row"]) for each in rubbish]
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as infile, os.fdopen(writing, "wb"):  # SparkRows looks for a file of this name
        rows = SparkRows(iter(batches), "orders", FilterErrors([]), lambda _: None, sources)
        assert rows.fileno() == infile.fileno()
        return rows, [row for _ in rubbish for row in rows.read()]


@pytest.mark.scenario(22)
def test_a_topic_full_of_rubbish_is_no_log_full_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """Kept promise: records that are no events reach nobody, are all counted, and cost one line in ten seconds."""
    rubbish = [
        packed(5, "x"),
        packed(6, "b", "0", (b"ce_id", b"a\r\nX-Evil: 1")),
        packed(7, "s", "0", (b"content-type", b"application/cloudevents+json"), b"{trunc"),
    ]
    with caplog.at_level(logging.WARNING, "penstock.worker"):
        rows, found = read(rubbish)
    assert [(row.offset, row.matched) for row in found] == [(5, ()), (6, ()), (7, ())]
    assert rows.bad_records == 3
    assert [record.getMessage() for record in caplog.records] == ["orders/3 offset 5 is no event: skipped (1 so far)"]


def test_what_is_no_event_goes_to_sources_and_only_what_nobody_takes_is_counted() -> None:
    """Kept promise: triggers do not get it, also when it proves to be none only here; key and headers are whole."""
    evil = (b"ce_id", b"a\r\nX-Evil: 1")
    rubbish = [
        packed(5, "x", "1,3", (b"a", b"b", b"1", b"\x01"), b"plain", b"k\n"),
        packed(6, "b", "0,1,2,3", evil, b"{}", b""),
        packed(7, "b", "0", evil, b"{}", b"k"),
        packed(8, "s", "0,3", (b"content-type", b"application/cloudevents+json"), b"{trunc", b"k"),
        packed(9, "x", "1", (b"a", b"", CUT), b"", b"k"),
    ]
    rows, found = read(rubbish, frozenset({1, 3}))
    assert [(row.offset, row.matched) for row in found] == [(5, (1, 3)), (6, (1, 3)), (7, ()), (8, (3,)), (9, (1,))]
    assert rows.bad_records == 1
    assert [row.body for row in found if row.matched] == [b"plain", b"{}", b"{trunc", b""]
    first, second, _, _, last = (row.record for row in found if isinstance(row, ForeignRow))
    assert first == Foreign(3, 5, 1577836800123, b"k\n", [(b"a", b"1"), (b"b", None)])
    assert second == Foreign(3, 6, 1577836800123, b"", [evil])
    assert last == Foreign(3, 9, 1577836800123, b"k", [])  # which header was which cannot be told


def test_what_is_discarded_is_waited_for_only_so_long() -> None:
    """Kept promise: who has lost its partition says so in time, also when nothing comes; or it sees the end."""
    batch = pa.record_batch([pa.array([packed(5, "x")], pa.binary())], names=["row"])
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as infile, os.fdopen(writing, "wb") as outfile:
        rows = SparkRows(iter([batch]), "orders", FilterErrors([]), lambda _: None)
        assert rows.fileno() == infile.fileno()
        rows.discard(0.05)
        assert not rows.is_over
        outfile.write(b"x")
        outfile.flush()
        rows.discard(5.0)
        assert rows.is_over
