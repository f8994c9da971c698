"""What the dispatcher says of Spark and of its workers is read from Spark and from the workers."""

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.kafka.connection import KafkaConnection
from penstock.kafka.telemetry import Teller
from penstock.pipeline.marks import Marks
from penstock.pipeline.vitals import Vitals, resident_bytes, worker_pids


class Query:
    """What Spark tells of a query: its last two batches."""

    def __init__(self, *batches: tuple[int, str, int]) -> None:
        self.runId = "r-1"
        self.recentProgress: list[dict[str, Any]] = [
            {
                "batchId": number,
                "timestamp": began,
                "durationMs": {"triggerExecution": took},
                "sources": [{"description": "KafkaV2[Assign[my-orders-0, my-orders-1]]"}],
            }
            for number, began, took in batches
        ]


class Session:
    def __init__(self, query: Query) -> None:
        self.streams = self
        self.active = [query]


def test_a_gap_is_the_time_between_two_batches_and_counted_once(kafka: KafkaConnection, tmp_path: Path) -> None:
    query = Query((4, "2026-11-16T10:00:00.000Z", 1500), (5, "2026-11-16T10:00:02.000Z", 100))
    session: Any = Session(query)
    vitals = Vitals(session, tmp_path, Teller(kafka))
    gaps = vitals._new_gaps()
    assert gaps["my-orders"].count == 1
    assert gaps["my-orders"].sum == pytest.approx(0.5)
    assert vitals._new_gaps() == {}
    query.recentProgress[:] = Query(
        (7, "2026-11-16T10:00:03.000Z", 0), (9, "2026-11-16T10:00:09.000Z", 0)
    ).recentProgress
    assert vitals._new_gaps() == {}  # between those two there was another batch


def test_starts_are_counted_by_topic(kafka: KafkaConnection, tmp_path: Path) -> None:
    session: Any = Session(Query())
    vitals = Vitals(session, tmp_path, Teller(kafka))
    vitals.started("orders")
    vitals.started("orders")
    assert b'penstock_query_starts_total{topic="orders"} 2' in vitals.text()


def test_workers_are_those_that_serve_a_partition_now(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "t-0", 1)
    Marks(tmp_path / "t-1", 1).close()
    (tmp_path / "t-2").write_bytes(b"being made")
    assert worker_pids(tmp_path) == {os.getpid()}
    assert resident_bytes(os.getpid()) > 1_000_000
    marks.close()
    assert worker_pids(tmp_path) == set()
