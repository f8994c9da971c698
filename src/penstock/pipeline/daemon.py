"""PySpark's daemon, with what a worker needs imported already: a worker is forked from it, and begins at once.

Without this each worker spends half a second of processor time on imports, all workers of a query at the same moment.
Started by Spark (``spark.python.daemon.module``), once for each environment that functions are made with: the workers
of those who catch up have a daemon of their own (``stream.py``), and wait for the processor until the others have had
it. Nothing here may start a thread, which a fork would leave behind.
"""

import gc
import importlib
import os
import sys
from importlib.machinery import PathFinder

PRELOADED = (
    "pyarrow",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.types",
    "pyspark.worker",
    "penstock.pipeline.worker",
    "penstock.pipeline.scan",
)
TRACING = ("penstock.delivery.tracing", "opentelemetry.exporter.otlp.proto.http.trace_exporter")  # half a second


def _leave_archives() -> None:
    """Spark puts itself on the path as zip and jar files, whose directories every worker would read several times."""
    unpacked = [entry for entry in sys.path if not os.path.isfile(entry)]
    if PathFinder.find_spec("pyspark", unpacked) is not None:
        sys.path[:] = unpacked
        sys.path_importer_cache.clear()


os.nice(int(os.environ.get("PENSTOCK_WORKER_NICENESS", "0")))
_leave_archives()
os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # the one thread that pyarrow would start
for _name in (*PRELOADED, *(TRACING if os.environ.get("PENSTOCK_TRACE_EXPORTER", "none") != "none" else ())):
    importlib.import_module(_name)
gc.collect()
gc.freeze()  # what is there now stays in memory that all workers share

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
