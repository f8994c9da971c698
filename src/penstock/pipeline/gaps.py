"""Offsets of a partition without a row. Owned by the worker that reads the partition.

Markers of transactions and compaction leave gaps: that is normal, so they are only counted. Retention leaves one if
it deletes records before they are read: that is a loss, and it is reported exactly. The first offset that Kafka still
has shows which of the two it is. A thread asks for it, a few times a minute at most, and nothing waits for the
answer.
"""

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("penstock.worker")

LOOK_SECONDS = 10.0
MOST_RANGES = 10_000  # that are kept between two looks; a few hundred kB

Range = tuple[int, int]  # first and last offset
AskFirst = Callable[[], int]  # the first offset that Kafka still has; raises when it does not answer
Report = Callable[[int, int], None]  # a range that was lost


class Gaps:
    def __init__(self, ask_first: AskFirst, report: Report) -> None:
        self.count = 0  # since the beginning
        self._ask_first = ask_first
        self._report = report
        self._ranges: list[Range] = []  # since the last look
        self._look_due = 0.0
        self._thread: threading.Thread | None = None

    def note(self, first: int, last: int) -> None:
        self.count += 1
        if len(self._ranges) < MOST_RANGES:
            self._ranges.append((first, last))

    def look(self, *, at_once: bool = False) -> None:
        """Called now and then. ``at_once``: the worker ends, so this is the last time."""
        if not self._ranges or (time.monotonic() < self._look_due and not at_once):
            return
        if self._thread is not None and self._thread.is_alive():
            return
        self._look_due = time.monotonic() + LOOK_SECONDS
        ranges, self._ranges = self._ranges, []
        self._thread = threading.Thread(target=self._look, args=(ranges,), name="gaps", daemon=True)
        self._thread.start()
        if at_once:
            self._thread.join(1.0)

    def _look(self, ranges: list[Range]) -> None:
        try:
            first = self._ask_first()
        except Exception as error:  # Kafka's clients have many classes
            logger.info("the cause of %d offset gaps is unknown: %s", len(ranges), error)
            return
        for begin, end in ranges:
            if end < first:  # a reader whose records were deleted goes on at Kafka's first offset
                self._report(begin, end)
