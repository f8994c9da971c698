"""THE PATH, second part: from a topic to matched rows in Python workers. One Spark query per topic.

    Kafka source ─▶ decode headers ─▶ match all subscriptions ─▶ pack ─▶ Python worker per partition
                    └────────── one projection, generated code ──────┘    (worker.serve_partition)

Two gears with the same code: *live* (real-time mode, a task per partition that never ends of itself) and
*batch* (micro-batches). Spark's checkpoint is scratch in both: every query starts at the ledger's positions.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own idiom
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.udf import _create_udf
from pyspark.util import PythonEvalType

from penstock.errors import Misconfigured
from penstock.filter.matching import Matching, matching
from penstock.pipeline.handover import handed_over
from penstock.pipeline.settings import DispatcherSettings, megabytes
from penstock.pipeline.worker import Assignment, serve_partition

# 1,000 CESQL filters of three terms have 240,000 characters of SQL, and planning them takes some 250 MB.
FILTER_SQL_PER_MEGABYTE = 600
BATCH_OPTIONS = {"maxOffsetsPerTrigger": "20000"}  # real-time mode knows no such bound


@dataclass(frozen=True)
class QueryPlan:
    """All that distinguishes one query from another."""

    assignment: Assignment
    starting_offsets: Mapping[int, int]  # exactly the topic's partitions
    checkpoint: str


def start_query(session: SparkSession, settings: DispatcherSettings, plan: QueryPlan) -> StreamingQuery:
    records = _records(session, plan, BATCH_OPTIONS if settings.mode == "batch" else {})
    subscriptions = plan.assignment.subscriptions()
    matched = matching(each.filters for each in subscriptions)
    _check_size(matched, settings)
    rows = _rows(handed_over(records, matched, subscriptions), fillers=settings.mode == "live")
    delivered = _map_in_arrow(rows, partial(serve_partition, plan.assignment))
    writer = delivered.writeStream.format("noop").outputMode("update").option("checkpointLocation", plan.checkpoint)
    if settings.mode == "live":
        return writer.trigger(realTime=f"{settings.live_batch_minutes} minutes").start()
    return writer.trigger(processingTime=f"{int(settings.batch_interval_seconds * 1000)} milliseconds").start()


def _check_size(matched: Matching, settings: DispatcherSettings) -> None:
    """Before Spark runs out of memory over them, which would end every query."""
    limit = FILTER_SQL_PER_MEGABYTE * megabytes(settings.driver_memory)
    if matched.sql_length > limit:
        raise Misconfigured(
            f"the filters of this topic are too many for a heap of {settings.driver_memory}: {matched.sql_length} "
            f"characters of SQL, of at most {limit}; give the dispatcher a larger --driver-memory"
        )


def warm_up(session: SparkSession) -> None:
    """Runs one row through the same plan as a batch: classes load, code compiles, the Python daemon starts.

    Without it the first query of a dispatcher takes several seconds longer to deliver its first event.
    """
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
        .load()
    )


def _rows(packed: DataFrame, *, fillers: bool) -> DataFrame:
    if not fillers:
        return packed
    doubled = packed.select("row", F.explode(F.array(F.lit(True), F.lit(False))).alias("is_event"))
    return doubled.select(F.when(F.col("is_event"), F.col("row")).alias("row"))


def _map_in_arrow(rows: DataFrame, function: Callable[[Iterator[Any]], Iterator[Any]]) -> DataFrame:
    """``DataFrame.mapInArrow``, without its demand that pandas be installed: Arrow alone is used."""
    udf = _create_udf(function, "nothing binary", PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = udf(*[rows[name] for name in rows.columns])
    return DataFrame(rows._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)
