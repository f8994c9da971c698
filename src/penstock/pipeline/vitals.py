"""How the dispatcher itself is: Spark's batches, its heap and slots, the memory of Python workers.

A thread looks every few seconds, keeps the totals for ``/metrics``, and tells the growth to the telemetry topic. Gaps
between batches are read off what Spark says of the last two batches of a query; with short ones they are samples.
"""

import logging
import os
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.contract.model import QueryReport
from penstock.contract.telemetry import Telemetry
from penstock.kafka.telemetry import Teller
from penstock.pipeline.marks import STATE
from penstock.telemetry.exposition import Sample, render
from penstock.telemetry.histogram import Durations
from penstock.telemetry.metrics import (
    BAD_RECORDS,
    BATCH_GAP,
    JVM_HEAP,
    QUERY_STARTS,
    QUERY_STATE,
    SLOTS,
    WORKER_MEMORY,
    WORKERS,
)

logger = logging.getLogger("penstock.dispatcher")

LOOK_SECONDS = 5.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PARTITION = re.compile(r"\[Assign\[(.+?)-\d+[,\]]")  # as Spark describes a Kafka source

Slots = Callable[[], tuple[int, int]]  # free and used
Unreadable = Callable[[], dict[str, int]]  # records of Penstock's own topics that were skipped, by topic
Reports = Callable[[], list[QueryReport]]


class Vitals:
    def __init__(self, session: SparkSession, marks: Path, teller: Teller, unreadable: Unreadable = dict) -> None:
        self._session = session
        self._marks = marks
        self._teller = teller
        self._unreadable = unreadable
        self._told_unreadable: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._starts: Counter[str] = Counter()
        self._told_starts: Counter[str] = Counter()
        self._gaps: dict[str, Durations] = {}
        self._seen: dict[str, int] = {}  # the last batch of each run that was looked at
        self._gauges: dict[str, float] = {}
        self.slots: Slots = lambda: (0, 0)
        self.reports: Reports = list
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vitals", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=2.0)
        self._teller.close()

    def started(self, place: str) -> None:
        """A query of this topic was."""
        with self._lock:
            self._starts[place] += 1

    def text(self) -> bytes:
        """For Prometheus."""
        with self._lock:
            samples = [
                *(Sample(BAD_RECORDS, (topic,), n) for topic, n in sorted(self._unreadable().items())),
                *(Sample(QUERY_STARTS, (place,), n) for place, n in sorted(self._starts.items())),
                *(Sample(BATCH_GAP, (topic,), gaps) for topic, gaps in sorted(self._gaps.items())),
                *(Sample(m, (), self._gauges[m.name]) for m in (WORKERS, WORKER_MEMORY, JVM_HEAP) if self._gauges),
            ]
        free, used = self.slots()
        samples += [Sample(SLOTS, ("free",), free), Sample(SLOTS, ("used",), used)]
        samples += [Sample(QUERY_STATE, (r.topic, r.gear), int(r.state == "running")) for r in self.reports()]
        return render(samples, always=(QUERY_STARTS, BATCH_GAP, QUERY_STATE))

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                self._teller.tell(self._look())
            except Exception as error:  # Spark's errors have many classes; at its end the JVM is gone
                if not self._stopping.is_set():
                    logger.warning("Spark could not be looked at: %s", str(error).partition("\n")[0])

    def _look(self) -> Telemetry:
        gaps = self._new_gaps()
        pids = worker_pids(self._marks)
        free, used = self.slots()
        runtime = self._session._jvm.java.lang.Runtime.getRuntime()
        gauges = {
            WORKERS.name: float(len(pids)),
            WORKER_MEMORY.name: float(sum(map(resident_bytes, pids))),
            JVM_HEAP.name: float(runtime.totalMemory() - runtime.freeMemory()),
            f"{SLOTS.name}:free": float(free),
            f"{SLOTS.name}:used": float(used),
        }
        with self._lock:
            self._gauges = gauges
            for topic, durations in gaps.items():
                self._gaps.setdefault(topic, Durations({})).add(durations)
            starts = self._starts - self._told_starts
            self._told_starts = self._starts.copy()
        unreadable = Counter(self._unreadable())
        new, self._told_unreadable = unreadable - self._told_unreadable, unreadable
        return Telemetry(
            part="dispatcher",
            source=f"{socket.gethostname()}:{os.getpid()}",
            time=time.time(),
            gauges=gauges,
            batch_gaps=gaps,
            query_starts=dict(starts),
            bad_records=dict(new),
        )

    def _new_gaps(self) -> dict[str, Durations]:
        found: dict[str, Durations] = {}
        seen: dict[str, int] = {}
        for query in self._session.streams.active:
            batches = [progress for each in query.recentProgress if (progress := _batch(each)) is not None]
            run = str(query.runId)
            seen[run] = batches[-1][0] if batches else self._seen.get(run, -1)
            for (before, _, ended, _), (number, began, _, topic) in pairwise(batches):
                if number == before + 1 and number > self._seen.get(run, -1):
                    found.setdefault(topic, Durations({})).observe(max(0.0, began - ended))
        self._seen = seen
        return found


def _batch(progress: Any) -> tuple[int, float, float, str] | None:
    """Number, begin, end and topic of a batch, from what Spark says of it."""
    try:
        began = datetime.fromisoformat(str(progress["timestamp"]).replace("Z", "+00:00")).timestamp()
        took = float(progress["durationMs"]["triggerExecution"]) / 1000
        described = PARTITION.search(str(progress["sources"][0]["description"]))
        return int(progress["batchId"]), began, began + took, described[1] if described else ""
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def worker_pids(marks: Path) -> set[int]:
    """Of the Python workers on this host that serve a partition."""
    found = set()
    for path in marks.glob("*"):
        try:
            *_, pid, _, _ = STATE.unpack(path.read_bytes())
        except (OSError, struct.error):
            continue
        if pid > 0 and Path(f"/proc/{pid}").exists():
            found.add(pid)
    return found


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0
