"""Events found in topics, by Spark: batch jobs in the session of the queries, over the newest records first.

    POST /search ─▶ offsets (Kafka) ─▶ piece by piece: stretches ─▶ workers (scan.py) ─▶ newest
                                       └─ told a few times a second; who goes away ends the job ─┘

A job has few tasks, so that deliveries hardly notice; at most two searches run at a time, and others wait for them.
Called by ``questions``.
"""

import os
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from typing import NamedTuple

from pyspark.sql import SparkSession

from penstock.contract.model import Cluster
from penstock.contract.moments import iso
from penstock.contract.questions import Search
from penstock.errors import PenstockError, Rejected, Unavailable
from penstock.kafka import topics
from penstock.kafka.clusters import Clusters
from penstock.kafka.record_times import RecordTimes, Spot
from penstock.kafka.stretches import Stretch
from penstock.pipeline import spans
from penstock.pipeline.places import Place, Places
from penstock.pipeline.running import first_line
from penstock.pipeline.scan import Scan, scan
from penstock.pipeline.spans import Partition, Span, Spans
from penstock.pipeline.wanted import Line, newest_first

AT_A_TIME = 2
TELL_SECONDS = 0.25
TIME_SECONDS = 0.5  # for a look at how far back it has come
TASKS = min(8, max(2, (os.cpu_count() or 2) // 2))  # of a job, whatever the number of partitions


class Searches:
    """All searches of a dispatcher."""

    def __init__(self, session: SparkSession, clusters: Clusters, places: Places) -> None:
        self._session = session
        self._clusters = clusters
        self._places = places
        self._seats = threading.BoundedSemaphore(AT_A_TIME)
        # Jobs run in threads of their own, since whoever asked is told meanwhile; and the same ones, since each has
        # a thread in the JVM.
        self._threads = ThreadPoolExecutor(AT_A_TIME, "search")

    def search(self, asked: Search) -> Generator[Line, None, None]:
        """Lines of progress, then the events, then a summary. Closing it ends the search.

        Raises Rejected at once when the contract knows none of the topics."""
        return self._lines(asked, self._places.find(asked.topics))

    def _lines(self, asked: Search, places: Sequence[Place]) -> Generator[Line, None, None]:
        began = time.monotonic()
        while not self._seats.acquire(timeout=TELL_SECONDS):
            yield {"waiting": f"{AT_A_TIME} other searches are running", "seconds": _since(began)}
        try:
            yield from _Running(self._session, self._clusters, self._threads, asked, places).lines()
        finally:
            self._seats.release()


class Piece(NamedTuple):
    """What was found in a piece."""

    rows: list[Line]
    matched: int
    event_time: float | None


class _Running:
    """One search."""

    def __init__(
        self,
        session: SparkSession,
        clusters: Clusters,
        threads: ThreadPoolExecutor,
        asked: Search,
        places: Sequence[Place],
    ) -> None:
        self._session = session
        self._clusters = clusters
        self._threads = threads
        self._asked = asked
        self._places = places
        self._began = time.monotonic()
        self._group = f"search-{uuid.uuid4()}"
        self._left: dict[Cluster, Spans] = {}
        self._rows: list[Line] = []
        self._total = self._scanned = self._matched = 0
        self._oldest: float | None = None
        self._event_time: float | None = None  # how far back it has come
        self._problems: list[str] = []

    def lines(self) -> Iterator[Line]:
        self._find_spans()
        self._total = sum(spans.size(each) for each in self._left.values())
        yield self._progress()
        piece = 0
        while self._left:
            piece = spans.next_size(piece, whole=self._asked.whole)
            for cluster in list(self._left):
                taken = spans.newest(self._left[cluster], piece)
                yield from self._take(cluster, taken)
            if self._is_enough():
                for cluster, missing in self._newer_than_found().items():
                    yield from self._take(cluster, missing)
                break
        for row in self._rows:
            yield {"event": row}
        is_more = bool(self._left) or self._matched > len(self._rows)
        yield {"done": self._counts() | {"oldest": _iso(self._oldest), "more": is_more, "problems": self._problems}}

    # ── which records ──

    def _find_spans(self) -> None:
        """A cluster that is away does not keep the others from being searched."""
        for cluster in dict.fromkeys(each.cluster for each in self._places):
            names = [each.topic for each in self._places if each.cluster == cluster]
            try:
                self._clusters.require(cluster)
                found = self._spans_of(cluster, names)
            except PenstockError as error:
                self._problems.append(error.message)
                continue
            if spans.size(found):
                self._left[cluster] = found
        if self._problems and not self._left:
            raise Unavailable("; ".join(self._problems))

    def _spans_of(self, cluster: Cluster, names: Sequence[str]) -> Spans:
        admin, asked = self._clusters.clients(cluster).admin, self._asked
        found: Spans = {}
        for name, state in topics.describe(admin, names).items():
            first = topics.earliest_offsets(admin, name, state.partitions)
            last = topics.latest_offsets(admin, name, state.partitions)
            times = topics.first_times(admin, name, state.partitions)
            self._oldest = min([*times.values(), *([] if self._oldest is None else [self._oldest])], default=None)
            if asked.since:
                first = topics.offsets_at(admin, name, state.partitions, asked.since)
            if asked.until:
                last = topics.offsets_at(admin, name, state.partitions, asked.until + 0.001)
            for partition in range(state.partitions):
                span = Span(first[partition], last[partition])
                if span.size:
                    found[Partition(name, partition)] = span
        return found

    def _is_enough(self) -> bool:
        return not self._asked.whole and len(self._rows) >= self._asked.latest

    def _newer_than_found(self) -> dict[Cluster, Spans]:
        """What no piece has had yet, and may still hold newer events than the last that was found."""
        last = self._rows[-1]["timestamp"] / 1000
        missing = {}
        for cluster, left in self._left.items():
            admin = self._clusters.clients(cluster).admin
            offsets: dict[Partition, int] = {}
            for topic in {where.topic for where in left}:
                partitions = max(where.number for where in left if where.topic == topic) + 1
                at = topics.offsets_at(admin, topic, partitions, last)
                offsets |= {Partition(topic, number): offset for number, offset in at.items()}
            found = spans.newer_than(left, offsets)
            if found:
                missing[cluster] = found
        return missing

    # ── jobs ──

    def _take(self, cluster: Cluster, taken: Spans) -> Iterator[Line]:
        """Searches a piece, and tells while it does."""
        job = self._threads.submit(self._job, cluster, taken)
        try:
            while not wait_for([job], TELL_SECONDS).done:
                yield self._progress()
            rows, matched, event_time = _result(job)
        finally:
            if not job.done():
                job.cancel()
                # And those of this group that are still being planned.
                self._session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group)
        self._rows = sorted([*self._rows, *rows], key=newest_first)[: self._asked.latest]
        self._matched += matched
        self._event_time = event_time or self._event_time
        self._scanned += spans.size(taken)
        self._left[cluster] = spans.without(self._left[cluster], taken)
        if not self._left[cluster]:
            del self._left[cluster]
        yield self._progress()

    def _job(self, cluster: Cluster, taken: Spans) -> Piece:
        context = self._session.sparkContext
        context.setJobGroup(self._group, "search")
        parts = [[Stretch(*where, *span) for where, span in part.items()] for part in spans.divided(taken, TASKS)]
        what = Scan(self._clusters.home, cluster, str(self._clusters.secrets_dir), self._asked, self._clusters.policy)
        found = context.parallelize(parts, len(parts)).mapPartitions(partial(scan, what)).collect()
        for each in found:
            if each.problem:
                raise Unavailable(each.problem)
        rows = [_placed(row, cluster) for each in found for row in each.rows]
        return Piece(rows, sum(each.matched for each in found), self._oldest_of(cluster, taken))

    def _oldest_of(self, cluster: Cluster, taken: Spans) -> float | None:
        """When the oldest record of a piece was written, by its largest span; nobody asks when nothing is left."""
        if spans.size(taken) == spans.size(self._left[cluster]):
            return None
        where, span = max(taken.items(), key=lambda each: each[1].size)
        times = RecordTimes(self._clusters.connection(cluster))
        try:
            return min(times.of([Spot(where.topic, where.number, span.begin)], TIME_SECONDS).values(), default=None)
        finally:
            times.close()

    # ── what is told ──

    def _progress(self) -> Line:
        return {"progress": self._counts() | {"of": self._total, "event_time": _iso(self._event_time)}}

    def _counts(self) -> Line:
        return {"scanned": self._scanned, "matched": self._matched, "seconds": _since(self._began)}


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────


def _result(job: "Future[Piece]") -> Piece:
    try:
        return job.result()
    except PenstockError:
        raise
    except Exception as error:  # Spark's own errors have many classes
        if "cancelled" in str(error):
            raise Rejected("the search was ended") from error
        raise Unavailable(f"the search failed: {first_line(error)}") from error


def _placed(row: Line, cluster: Cluster) -> Line:
    place = row["topic"] if cluster.is_home else f"{row['topic']}@{cluster.bootstrap_servers}"
    return {**row, "place": place, "received": _iso(row["received_ms"] / 1000)}


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else iso(seconds)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 2)
