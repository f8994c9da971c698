"""PySpark's daemon, with what a worker needs imported already: a worker is forked from it, and begins at once.

Without this each worker spends half a second of processor time on imports, all workers of a query at the same moment.
Started by Spark (``spark.python.daemon.module``). Nothing here may start a thread, which a fork would leave behind;
that is why pyarrow, which does, is not among the imports.
"""

import importlib

from pyspark.daemon import manager

PRELOADED = (
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.types",
    "pyspark.worker",
    "penstock.pipeline.worker",
)

for _name in PRELOADED:
    importlib.import_module(_name)

if __name__ == "__main__":
    manager()
