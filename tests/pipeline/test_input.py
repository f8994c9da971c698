"""Promises of reading what Spark sends: what is no event is passed by, counted, and complained about only once."""

import logging
import os

import pyarrow as pa
import pytest

from penstock.pipeline.filter_errors import FilterErrors
from penstock.pipeline.handover import CUT, PREFIX_WIDTH
from penstock.pipeline.input import SparkRows


def packed(offset: int, kind: str, places: str = "-", headers: tuple[bytes, ...] = (), data: bytes = b"") -> bytes:
    """As ``handed_over`` makes it: half of the headers are keys, the other half their values."""
    prefix = f"{offset} 3 {kind} {places} - - {len(headers) // 2} {len(data)}".ljust(PREFIX_WIDTH).encode()
    return prefix if places == "-" else prefix + b"\n" + CUT.join(headers) + data


@pytest.mark.scenario(22)
def test_a_topic_full_of_rubbish_is_no_log_full_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """Kept promise: records that are no events reach nobody, are all counted, and cost one line in ten seconds."""
    rubbish = [
        packed(5, "x"),
        packed(6, "b", "0", (b"ce_id", b"a\r\nX-Evil: 1")),
        packed(7, "s", "0", (b"content-type", b"application/cloudevents+json"), b"{trunc"),
    ]
    batches = [pa.record_batch([pa.array([None, each], pa.binary())], names=["row"]) for each in rubbish]
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as infile, os.fdopen(writing, "wb"):  # SparkRows looks for a file of this name
        rows = SparkRows(iter(batches), "orders", FilterErrors([]), lambda _: None)
        assert rows.fileno() == infile.fileno()
        with caplog.at_level(logging.WARNING, "penstock.worker"):
            found = [row for _ in rubbish for row in rows.read()]
    assert [(row.offset, row.matched) for row in found] == [(5, ()), (6, ()), (7, ())]
    assert rows.bad_records == 3
    assert [record.getMessage() for record in caplog.records] == ["orders/3 offset 5 is no event: skipped (1 so far)"]
