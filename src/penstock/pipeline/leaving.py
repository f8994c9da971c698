"""Queries that have handed over, while some of their workers still wait for answers of slow subscribers.

    replaced, or stopped ─▶ everything is handed over ─▶ the last answers come, or a limit is reached ─▶ stopped

Nothing else waits for them: the successor serves all other lanes meanwhile. Owned by the dispatcher's thread.
"""

import logging
import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.kafka.ledger import FollowedLedger, query_of

if TYPE_CHECKING:
    from penstock.pipeline.running import Running

logger = logging.getLogger("penstock.dispatcher")

LONGEST_SECONDS = 35.0  # a little more than a worker waits for answers
LOOK_SECONDS = 0.05


class LeavingQueries:
    def __init__(self) -> None:
        self._ledger: FollowedLedger | None = None  # set with the first query
        self._until: dict[int, float] = {}  # by query, on the monotonic clock
        self._leaving: dict[int, tuple[str, Running]] = {}  # by query: its place

    def slots(self, place: str) -> int:
        """Tasks of the queries that leave this topic."""
        leaving = list(self._leaving.values())  # a copy: other threads ask too
        return sum(len(running.partitions) for of, running in leaving if of == place)

    def add(self, place: str, running: "Running", ledger: FollowedLedger) -> None:
        """A query whose workers have handed over. It is stopped at once if nothing is in flight."""
        self._ledger, query = ledger, running.assignment.query
        self._leaving[query] = place, running
        self._until[query] = time.monotonic() + LONGEST_SECONDS
        _try_to_read(ledger.read_to_end)
        self._stop_drained(ledger)

    def advance(self) -> None:
        if self._leaving and self._ledger is not None:
            _try_to_read(self._ledger.poll)
            self._stop_drained(self._ledger)

    def finish(self, seconds: float, place: str | None = None) -> None:
        """Waits for the last answers for this time at most, then stops the queries: of this topic, or all."""
        meant = {query for query, (of, _) in self._leaving.items() if place in (None, of)}
        deadline = time.monotonic() + seconds
        while meant & self._leaving.keys() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            self.advance()
        for query in meant & self._leaving.keys():
            self._stop(query)

    def _stop_drained(self, ledger: FollowedLedger) -> None:
        draining = {query_of(generation) for generation in ledger.draining().values()}
        now = time.monotonic()
        for query, (_, running) in list(self._leaving.items()):
            is_active = running.query is not None and running.query.isActive
            if query not in draining or now > self._until[query] or not is_active:
                self._stop(query)

    def _stop(self, query: int) -> None:
        _, running = self._leaving.pop(query)
        del self._until[query]
        end_query(running)


def _try_to_read(read: Callable[[], None]) -> None:
    """An unreadable ledger must not end the dispatcher: these queries are stopped when their time is over."""
    try:
        read()
    except Exception as error:  # Kafka's errors have many classes
        logger.warning("the ledger cannot be read, so draining queries stop only when their time is over: %s", error)


def end_query(running: "Running") -> None:
    """Stops Spark's query at once; its workers end with it."""
    if running.query is None:
        return
    try:
        running.query.stop()
    except Exception as error:  # a timeout of the stop; the workers are fenced in any case
        logger.warning("stopping the query of %s: %s", running.assignment.topic, str(error).partition("\n")[0])
    shutil.rmtree(running.checkpoint, ignore_errors=True)
