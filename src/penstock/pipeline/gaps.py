"""Offsets of a partition without a row. Owned by the worker that reads the partition.

Markers of transactions and compaction leave gaps: that is normal, so they are only counted. Retention leaves one if
it deletes records before they are read: that is a loss, and it is reported exactly. The first offset that Kafka still
has shows which of the two it is. A thread asks for it, a few times a minute at most. Only a worker that ends waits
for the answer, for a limited time. While Kafka does not answer, the ranges are kept for the next look, up to a limit.
"""

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("penstock.worker")

LOOK_SECONDS = 10.0
LAST_SECONDS = 2.0  # longest wait of a worker that ends
MOST_RANGES = 10_000  # that are kept between two looks; a few hundred kB
MOST_FAILURES = 6  # looks in a row without an answer; later, retention may have deleted what was read in time

Range = tuple[int, int]  # first and last offset
AskFirst = Callable[[], int]  # the first offset that Kafka still has; raises when it does not answer
Report = Callable[[int, int], None]  # a range that was lost


class Gaps:
    def __init__(self, ask_first: AskFirst, report: Report) -> None:
        self.count = 0  # since the beginning
        self._ask_first = ask_first
        self._report = report
        self._ranges: list[Range] = []  # since the last look
        self._unresolved: list[Range] = []  # of a look without an answer. Its thread writes it before it ends.
        self._failures = 0  # looks in a row without an answer
        self._look_due = 0.0
        self._thread: threading.Thread | None = None

    def note(self, first: int, last: int) -> None:
        self.count += 1
        if len(self._ranges) < MOST_RANGES:
            self._ranges.append((first, last))

    def look(self, *, at_once: bool = False) -> None:
        """Called now and then. ``at_once``: the worker ends, so this is the last time."""
        deadline = time.monotonic() + LAST_SECONDS
        if at_once:
            self._join(deadline)
        elif time.monotonic() < self._look_due:
            return
        if self._thread is not None and self._thread.is_alive():
            if at_once:
                logger.warning("the cause of the last offset gaps is unknown: Kafka has not answered")
            return
        ranges = (self._unresolved + self._ranges)[:MOST_RANGES]
        if not ranges:
            return
        self._look_due = time.monotonic() + LOOK_SECONDS
        self._ranges, self._unresolved = [], []
        self._thread = threading.Thread(target=self._look, args=(ranges,), name="gaps", daemon=True)
        self._thread.start()
        if at_once:
            self._join(deadline)

    def _join(self, deadline: float) -> None:
        """Waits for the look that is under way."""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))

    def _look(self, ranges: list[Range]) -> None:
        try:
            first = self._ask_first()
        except Exception as error:  # Kafka's clients have many classes
            self._failures += 1
            if self._failures < MOST_FAILURES:
                logger.info("the cause of %d offset gaps is not known yet: %s", len(ranges), error)
                self._unresolved = ranges
            else:
                logger.warning("the cause of %d offset gaps is unknown: %s", len(ranges), error)
                self._failures = 0
            return
        self._failures = 0
        for begin, end in ranges:
            if end < first:  # a reader whose records were deleted goes on at Kafka's first offset
                self._report(begin, end)
