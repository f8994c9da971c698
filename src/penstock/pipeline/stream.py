"""THE PATH, second part: from a topic to matched rows in Python workers. One Spark query per topic.

    Kafka source ─▶ decode headers ─▶ match all subscriptions ─▶ pack ─▶ Python worker per partition
                    └────────── one projection, generated code ──────┘    (worker.serve_partition)

Two gears with the same code: *live* (real-time mode, a task per partition that never ends of itself) and *bulk*
(micro-batches); see ``gears.py``. Spark's checkpoint is scratch in both: a query starts at the ledger's positions.
"""

import json
import logging
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from pyspark.sql.udf import _create_udf
from pyspark.util import PythonEvalType

from penstock.contract.model import CONTRACT_TOPIC
from penstock.errors import Misconfigured
from penstock.filter.matching import Matching, matching
from penstock.kafka.connection import KafkaConnection
from penstock.pipeline.gears import Gear
from penstock.pipeline.handover import codegen_settings, handed_over
from penstock.pipeline.session import arrow_settings
from penstock.pipeline.settings import DispatcherSettings, megabytes
from penstock.pipeline.worker import Assignment, serve_partition

logger = logging.getLogger("penstock.dispatcher")

# 1,000 CESQL filters of three terms have 240,000 characters of SQL, and planning them takes some 250 MB.
FILTER_SQL_PER_MEGABYTE = 600
NICENESS = "PENSTOCK_WORKER_NICENESS"  # in the environment of daemon.py
ASIDE_NICENESS = 10  # about a tenth of what the others get, when there is not enough for all
WARM_SECONDS = 10.0  # at most: a new system has no record that could come through
Serve = Callable[[Iterator[Any]], Iterator[Any]]  # what runs in a Python worker
BULK_OPTIONS = {
    "maxOffsetsPerTrigger": "1000000",  # real-time mode knows no such bound
    # All of what was fetched: with every poll of a micro-batch Spark throws the rest away, and fetches it again.
    "kafka.max.poll.records": "50000",
}


@dataclass(frozen=True)
class QueryPlan:
    """All that distinguishes one query from another."""

    assignment: Assignment
    starting_offsets: Mapping[int, int]  # exactly the topic's partitions
    checkpoint: str
    gear: Gear = "live"
    source: Mapping[str, str] = field(default_factory=dict)  # of Kafka's client: its cluster, and what was chosen


@dataclass(frozen=True)
class PreparedQuery:
    """Analysed by Spark, which is a quarter of its start; it may be started at any time, once."""

    plan: QueryPlan
    session: SparkSession
    writer: DataStreamWriter
    settings: Mapping[str, str]

    def start(self) -> StreamingQuery:
        for name, value in self.settings.items():  # the query keeps those that it was started with
            self.session.conf.set(name, value)
        _make_checkpoint(Path(self.plan.checkpoint))
        return self.writer.start()


def start_query(session: SparkSession, settings: DispatcherSettings, plan: QueryPlan) -> StreamingQuery:
    return prepare_query(session, settings, plan).start()


def prepare_query(
    session: SparkSession, settings: DispatcherSettings, plan: QueryPlan, serve: Serve | None = None
) -> PreparedQuery:
    is_live = plan.gear == "live"
    records = _records(session, plan, {} if is_live else BULK_OPTIONS)
    subscriptions = plan.assignment.subscriptions()
    matched = matching(each.filters for each in subscriptions)
    _check_size(matched, settings)
    rows = _rows(handed_over(records, matched, subscriptions), fillers=is_live)
    with _behind_the_others(session, is_meant=plan.assignment.is_aside):
        delivered = _map_in_arrow(rows, serve or partial(serve_partition, plan.assignment))
    writer = delivered.writeStream.format("noop").outputMode("update").option("checkpointLocation", plan.checkpoint)
    if is_live:
        writer = writer.trigger(realTime=f"{round(settings.live_batch_minutes * 60)} seconds")
    else:
        writer = writer.trigger(processingTime=f"{int(settings.bulk_interval_seconds * 1000)} milliseconds")
    return PreparedQuery(plan, session, writer, {**arrow_settings(plan.gear), **codegen_settings(matched)})


@contextmanager
def _behind_the_others(session: SparkSession, *, is_meant: bool) -> Iterator[None]:
    """Functions that are made in here run in workers which leave the processor to all others first.

    Who catches up takes all there is for minutes, and those who are up to date would wait for it.
    """
    environment = session.sparkContext.environment
    if is_meant:
        environment[NICENESS] = str(ASIDE_NICENESS)
    try:
        yield
    finally:
        environment.pop(NICENESS, None)


def _make_checkpoint(checkpoint: Path) -> None:
    """Empty, as Spark would make it; it would start a process for the rights of each folder."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    for folder in ("offsets", "commits", "sources/0"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))


def _check_size(matched: Matching, settings: DispatcherSettings) -> None:
    """Before Spark runs out of memory over them, which would end every query."""
    limit = FILTER_SQL_PER_MEGABYTE * megabytes(settings.driver_memory)
    if matched.sql_length > limit:
        raise Misconfigured(
            f"the filters of this topic are too many for a heap of {settings.driver_memory}: {matched.sql_length} "
            f"characters of SQL, of at most {limit}; give the dispatcher a larger --driver-memory"
        )


def warm_up(
    session: SparkSession, settings: DispatcherSettings, connection: KafkaConnection, is_over: Callable[[], bool]
) -> None:
    """Classes load, code compiles, the Python daemon starts, and all of it works, before the first event comes.

    Without it the first query of a dispatcher takes several seconds longer to deliver its first event. It is not
    needed: whatever goes wrong, or something to do, ends it.
    """
    scratch = Path(settings.data_dir, "scratch").absolute()
    mark, checkpoint = scratch / "warm", scratch / "warm-up"
    try:
        one_row(session)
        if is_over():
            return
        plan = QueryPlan(Assignment.of_nobody(connection, CONTRACT_TOPIC), {0: 0}, str(checkpoint))
        query = prepare_query(session, settings, plan, partial(_touch, str(mark))).start()
        deadline = time.monotonic() + WARM_SECONDS
        while not mark.exists() and query.isActive and time.monotonic() < deadline and not is_over():
            time.sleep(0.02)
        query.stop()
    except Exception as error:  # Spark's own errors have many classes
        logger.warning("not warmed up: %s", str(error).partition("\n")[0])
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)


def _touch(mark: str, batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        Path(mark).touch()
    yield from ()


def one_row(session: SparkSession) -> None:
    """Runs one row through the same plan, as a batch; needs no Kafka."""
    record = session.range(0, 1, 1, numPartitions=1).selectExpr(  # one task, or there is a worker for every slot
        "id as offset",
        "0 as partition",
        "cast('{}' as binary) as value",
        "array(named_struct('key', 'ce_id', 'value', cast('1' as binary))) as headers",
    )
    rows = handed_over(record, matching([()]))
    _map_in_arrow(rows, _discard).write.format("noop").mode("append").save()


def _discard(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        pass
    yield from ()


def _records(session: SparkSession, plan: QueryPlan, options: Mapping[str, str]) -> DataFrame:
    topic = plan.assignment.topic
    starts = json.dumps({topic: {str(p): offset for p, offset in sorted(plan.starting_offsets.items())}})
    return (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", plan.assignment.connection.bootstrap_servers)
        .option("assign", json.dumps({topic: sorted(plan.starting_offsets)}))
        .option("startingOffsets", starts)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")  # lost ranges are found and reported by ourselves
        .option("kafka.fetch.max.wait.ms", "1500")  # how often an idle partition asks; data is answered at once
        .options(**options)
        .options(**{f"kafka.{name}": value for name, value in plan.source.items()})
        .load()
    )


def _rows(packed: DataFrame, *, fillers: bool) -> DataFrame:
    if not fillers:
        return packed
    doubled = packed.selectExpr("row", "explode(array(true, false)) AS is_event")
    return doubled.selectExpr("CASE WHEN is_event THEN row END AS row")


def _map_in_arrow(rows: DataFrame, function: Serve) -> DataFrame:
    """``DataFrame.mapInArrow``, without its demand that pandas be installed: Arrow alone is used."""
    udf = _create_udf(function, "nothing binary", PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = udf(*[rows[name] for name in rows.columns])
    return DataFrame(rows._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)
