"""CPU time of processes: unlike wall-clock time, it does not grow with the load of other processes."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def processor_seconds(*pids: int) -> float:
    """Of all threads of these processes together."""
    return sum(map(_ticks, pids)) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def processes_of(spark: "SparkSession") -> tuple[int, int]:
    """This process and the JVM that works for it."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return os.getpid(), gateway.proc.pid
