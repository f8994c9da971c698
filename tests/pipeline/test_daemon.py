"""The daemon that workers are forked from."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

LOOK = """
import os, sys, zipimport
import penstock.pipeline.daemon
archives = [each for each in sys.path_importer_cache.values() if isinstance(each, zipimport.zipimporter)]
print(len(os.listdir("/proc/self/task")), len(archives))
print("pyarrow" in sys.modules, "pyspark.worker" in sys.modules, "penstock.delivery.client" in sys.modules)
print("opentelemetry.sdk.trace" in sys.modules)
"""


@pytest.mark.parametrize(("exporter", "is_traced"), [("none", "False"), ("otlp", "True")])
def test_it_has_everything_but_threads_and_archives(exporter: str, is_traced: str) -> None:
    """Kept promise: a fork of the daemon leaves nothing behind, and a worker has its code at once.

    OpenTelemetry is there only where it is wanted. Spark puts its zip file and a jar on the path; every worker would
    read their directories before it begins.
    """
    archives = [
        *Path(pyspark.__path__[0]).glob("python/lib/*.zip"),
        *Path(pyspark.__path__[0]).glob("jars/spark-core*"),
    ]
    assert len(archives) >= 3
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(each) for each in archives)}
    environment["PENSTOCK_TRACE_EXPORTER"] = exporter
    command = [sys.executable, "-c", LOOK]
    seen = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert seen.split() == ["1", "0", "True", "True", "True", is_traced]
