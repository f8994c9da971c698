"""The Spark session, with the settings without which real-time mode is neither fast nor safe."""

import hashlib
import os
import re
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from penstock.access.hosts import is_loopback
from penstock.access.private_files import OTHERS, make_private_folder
from penstock.access.tokens import read_token
from penstock.errors import Misconfigured
from penstock.kafka import quickstart
from penstock.pipeline.gears import Gear
from penstock.pipeline.settings import DispatcherSettings, is_local

# Slots of a local master. A real-time task occupies one for as long as the query runs but mostly waits, so
# there may be far more of them than cores.
LOCAL_SLOTS = 256

# Spark closes an Arrow batch behind a row only when it sees that a next row is there and the batch is larger
# than this. Events are padded to be larger, fillers are smaller: see handover.py.
LIVE_BATCH_BYTES = 40

FAST = {
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",  # lets mapInArrow into real-time mode
    "spark.python.unix.domain.socket.enabled": "true",  # TCP would wait 40 ms for acknowledgements
    "spark.python.daemon.module": "penstock.pipeline.daemon",  # workers begin without importing anything
    "spark.locality.wait": "0",  # a task must not wait 3 s for its favourite executor
    "spark.sql.icu.caseMappings.enabled": "false",  # the first lower() would build tables of its own for 1.2 s
    # Hadoop asks chmod and readlink, as processes, for every file of a checkpoint: a third of a second in each start.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}

SAFE = {
    "spark.task.maxFailures": "1",  # a retried task would begin at the batch's first offset: we restart instead
    "spark.speculation": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # a record with a doubled header must not stop the stream
    "spark.sql.variable.substitute": "false",  # ${…} in a filter is text, nothing else
    "spark.sql.streaming.stopTimeout": "10000",
    "spark.sql.streaming.metricsEnabled": "false",
}

# Without the secret, Spark's ports answer nothing. A local Spark makes one for each run and keeps it in memory.
# Only network connections are encrypted, so this costs nothing if there are none.
GUARDED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.redaction.regex": "(?i)secret|password|passwd|token|access[.]?key|credential|jaas",
}

SMALL = {
    "spark.sql.subexpressionElimination.enabled": "false",  # our SQL has its own steps; the search takes memory
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.cleaner.periodicGC.interval": "60min",
    # Clients of Kafka that nobody uses: those of searches, and of queries that have ended.
    "spark.kafka.consumer.cache.timeout": "60s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "20s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "20s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "10s",
}

LONGEST_SOCKET_DIR = 60  # bytes; the whole path of a socket has at most 107

# A small heap without helper threads: the driver idles most of its life. And the quick compiler only: with every new
# query the thorough one worked for ten seconds, and threw away what it had compiled before, which all others felt.
JAVA_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=128m",
    "-Djdk.lang.Process.launchMechanism=VFORK",
)

# Spark walks through nested data recursively. Its parser takes 1,000 levels, which overflowed the usual 1 MB stack
# ended the process. Memory is taken only as far as a stack grows.
STACK = "-Xss8m"


def start_session(
    settings: DispatcherSettings, jars: Sequence[Path], java_home: Path, java_options: Sequence[str] | None = None
) -> SparkSession:
    """Starts the JVM. Its further options are those for a quick start, unless others are given."""
    guarded = _guarded(settings)
    if java_options is None:
        java_options = quickstart.use(class_archive(java_home))
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = settings.host
    scratch = Path(settings.data_dir, "scratch").absolute()
    scratch.mkdir(parents=True, exist_ok=True)
    java_options = [*JAVA_OPTIONS, f'"-Djava.io.tmpdir={scratch}"', *java_options]  # a kill leaves nothing elsewhere
    builder = SparkSession.builder.appName("penstock").master(spark_master(settings.master))
    own = {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.bindAddress": settings.host,
        "spark.driver.host": settings.host,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": " ".join((STACK, *java_options)),
        "spark.executor.extraJavaOptions": STACK,
        "spark.local.dir": str(scratch),
        "spark.python.unix.domain.socket.dir": str(socket_folder(scratch)),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    chosen = {**FAST, **SAFE, **SMALL, **own, **guarded}
    for name, value in chosen.items():
        builder = builder.config(name, value)
    if settings.spark_secret_file:
        # Settings known when the JVM starts become its arguments, which `ps` shows. So the secret is set later.
        shown = SparkConf().setAll([*chosen.items(), ("spark.master", spark_master(settings.master))])
        SparkContext._ensure_initialized(conf=shown)
        builder = builder.config("spark.authenticate.secret", read_token(Path(settings.spark_secret_file)))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _guarded(settings: DispatcherSettings) -> dict[str, str]:
    """A Spark cluster has one shared secret, in a file. Without it only loopback is allowed."""
    if is_local(settings.master) or settings.spark_secret_file:
        return GUARDED
    if not is_loopback(settings.host.lower()):
        raise Misconfigured(
            f"Spark would accept messages of any client on {settings.host}: {settings.master} has no secret",
            hint="PENSTOCK_SPARK_SECRET_FILE=FILE with the spark.authenticate.secret of that cluster",
        )
    return {}


def socket_folder(scratch: Path) -> Path:
    """The folder of the sockets between Spark and its Python workers. The kernel allows only short paths."""
    if len(bytes(scratch)) <= LONGEST_SOCKET_DIR:
        return scratch
    digest = hashlib.sha256(bytes(scratch)).hexdigest()[:16]
    folder = Path(
        gettempdir(), f"penstock-{os.getuid()}-{digest}"
    )  # the same for every run, so old folders do not accumulate
    make_private_folder(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & OTHERS:
        raise Misconfigured(
            f"{folder}, the folder for the sockets of Spark's workers, is open to other users",
            hint=f"remove {folder}",
        )
    return folder


def class_archive(java_home: Path) -> Path:
    """Where the archive for quick starts is, or would be: in the environment, since it fits only this PySpark."""
    class_path = sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))
    return quickstart.archive_of(
        "spark", java_home / "bin" / "java", class_path, Path(sys.prefix, "share", "penstock")
    )


def arrow_settings(gear: Gear) -> dict[str, str]:
    """How rows are collected on their way to Python. A query keeps what was set when it started."""
    if gear == "live":
        return {
            "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
            "spark.sql.execution.arrow.maxBytesPerBatch": str(LIVE_BATCH_BYTES),
            "spark.sql.execution.pandas.udf.buffer.size": "4",  # hand over at once, do not collect
        }
    return {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(1024 * 1024),
        "spark.sql.execution.pandas.udf.buffer.size": "65536",
    }


def spark_master(master: str) -> str:
    """``local`` and ``local[*]`` have a slot per core, which is too few: each partition needs one for itself."""
    return f"local[{LOCAL_SLOTS}]" if re.fullmatch(r"local(\[\*\])?", master) else master


def slots(session: SparkSession) -> int:
    """How many tasks can run at once."""
    return int(session.sparkContext.defaultParallelism)
