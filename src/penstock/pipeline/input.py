"""The rows that Spark sends to a Python worker, read without a thread of their own.

PySpark gives a worker's function an iterator that blocks. A second thread for it would share the interpreter with
the thread that delivers, and each event would wake both. Instead the delivering loop waits for the socket behind
the iterator together with its own sockets, and calls ``read`` when there is something. The socket's file is a local
variable of PySpark's worker (pinned version; a test runs the real thing), found by going up the stack.
"""

import io
import logging
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock.delivery.row import Row
from penstock.pipeline.filter_errors import FilterErrors
from penstock.pipeline.handover import NO_ERRORS, parse_row, parse_row_of_source, place_of, untouched
from penstock.pipeline.marks import Marks
from penstock.telemetry.logs import about

logger = logging.getLogger("penstock.worker")

COMPLAINT_SECONDS = 10.0
MakeMarks = Callable[[int], Marks | None]  # for a partition
MOST_ROWS = 64  # in one go, before answers get their turn; a batch is taken whole
MOST_BYTES = 1024 * 1024


class SparkRows:
    """A ``delivery.row.Source`` over the Arrow batches of one task."""

    def __init__(
        self,
        batches: Iterator[Any],
        topic: str,
        filter_errors: FilterErrors,
        make_marks: MakeMarks,
        sources: frozenset[int] = frozenset(),
    ) -> None:
        self.is_over = False
        self.is_ready = False  # more is buffered on this side of the socket
        self.partition = -1  # known from the first row on
        self.marks: Marks | None = None  # made with the first row
        self._make_marks = make_marks
        self._batches = batches
        self._topic = topic
        self._filter_errors = filter_errors
        self._sources = sources  # places of subscriptions that take what is no event
        self._parse = parse_row_of_source if sources else parse_row
        self._file = _input_of_this_worker()
        self._expected_offset = -1
        self.first_gaps: list[tuple[int, int]] = []  # ranges of offsets without a row, among the first rows
        self.on_gap: Callable[[int, int], None] = lambda first, last: self.first_gaps.append((first, last))
        self.bad_records = 0  # records that are no events, and that nobody takes for one
        self._next_complaint = 0.0

    def fileno(self) -> int:
        return self._file.fileno()

    def read(self) -> list[Row]:
        """The rows that are there. Waits at most for the rest of a batch that has begun to arrive."""
        rows: list[Row] = []
        taken_bytes = 0
        while taken_bytes < MOST_BYTES and len(rows) < MOST_ROWS:
            batch = next(self._batches, None)
            if batch is None:
                self.is_over = True
                self.is_ready = False
                return rows
            taken_bytes += batch.nbytes
            rows += [self._row(packed) for packed in batch.column(0).to_pylist() if packed is not None]  # or a filler
            self.is_ready = self._has_more()
            if not self.is_ready:
                break
        return rows

    def read_first(self, patience_seconds: float, on_quiet: Callable[[], None]) -> list[Row]:
        """Waits for the first rows; none when the input ends without any. ``on_quiet``: it takes longer than this."""
        arriving = select.poll()
        arriving.register(self._file, select.POLLIN)
        if not self._has_more() and not arriving.poll(patience_seconds * 1000):
            on_quiet()
        rows: list[Row] = []
        while not rows and not self.is_over:
            rows = self.read()
        return rows

    def discard(self, seconds: float) -> None:
        """Reads and drops what comes, until the input is over or this time has passed."""
        until = time.monotonic() + seconds
        arriving = select.poll()
        arriving.register(self._file, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            if (self._has_more() or arriving.poll(left * 1000)) and next(self._batches, None) is None:
                self.is_over = True
                return

    def _row(self, packed: bytes) -> Row:
        partition, offset = place_of(packed)
        if partition != self.partition:
            self.marks = self._make_marks(partition)
        marks = self.marks
        if marks is not None:
            if offset == marks.poison:
                place = about(topic=self._topic, partition=partition, offset=offset)
                said = "%s/%d offset %d ended its worker twice: set aside"
                logger.error(said, self._topic, partition, offset, extra=place)
                self.partition, kind, errors, row = untouched(packed)
            else:
                marks.touch(offset)
                self.partition, kind, errors, row = self._parse(packed)
                marks.leave()
        else:
            self.partition, kind, errors, row = self._parse(packed)
        if errors != NO_ERRORS:
            self._filter_errors.note(errors, self.partition, row)
        if kind == "x":
            row.matched = tuple(place for place in row.matched if place in self._sources)
            if not row.matched:
                self._note_bad_record(row.offset)
        if self._expected_offset not in (-1, row.offset):
            self.on_gap(self._expected_offset, row.offset - 1)
        self._expected_offset = row.offset + 1
        return row

    def _note_bad_record(self, offset: int) -> None:
        """Counted; logged once in a while, so that a topic full of rubbish does not become a log full of it."""
        self.bad_records += 1
        if time.monotonic() >= self._next_complaint:
            self._next_complaint = time.monotonic() + COMPLAINT_SECONDS
            logger.warning(
                "%s/%d offset %d is no event: skipped (%d so far)",
                self._topic,
                self.partition,
                offset,
                self.bad_records,
                extra=about(topic=self._topic, partition=self.partition, offset=offset),
            )

    def _has_more(self) -> bool:
        """Whether bytes are buffered here; asks the socket too, but never waits for it."""
        fd = self._file.fileno()
        os.set_blocking(fd, False)
        try:
            return bool(self._file.peek(1))
        finally:
            os.set_blocking(fd, True)


def _input_of_this_worker() -> io.BufferedReader:
    frame = sys._getframe()
    while frame is not None:
        found = frame.f_locals.get("infile")
        if isinstance(found, io.BufferedReader):
            return found
        frame = frame.f_back  # type: ignore[assignment]  # None at the top
    raise RuntimeError("this is not a worker of the PySpark that Penstock is made for")
