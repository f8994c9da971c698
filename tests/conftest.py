"""What all tests share: one Kafka, one Spark, one whole system, and subscribers, each started when asked for."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from penstock.kafka import fetch
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.java import java_home
from penstock.kafka.server_files import ClusterSpec
from penstock.ports import free_port
from tests.sink import Sink
from tests.tools import tool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]
FIRST = ("harness", "system", "docs", "dashboard", "pipeline")  # what takes longest: no test is waited for at the end
OPEN_FILES = 8192  # some tests open 1,000 connections at once, and the programs that they start inherit the limit

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background like this, and commands that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A busy machine is no broken promise. In CI each run has the same examples.
settings.register_profile(
    "penstock", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("penstock")


def allow_open_files(wanted: int) -> None:
    """Raises the limit of this process to so many, or as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


allow_open_files(OPEN_FILES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def when(item: pytest.Item) -> int:
        room = item.path.relative_to(Path(__file__).parent).parts[0]
        return FIRST.index(room) if room in FIRST else len(FIRST)

    items.sort(key=when)


@contextmanager
def running_kafka(folder: Path) -> Iterator[EmbeddedKafka]:
    """An embedded Kafka, for tests that leave in it what others must not read, or count what is in it."""
    fetch.fetch_missing()
    cluster = EmbeddedKafka(ClusterSpec(folder, port=free_port())).start()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """The one embedded Kafka of this run."""
    with running_kafka(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka(kafka_cluster: EmbeddedKafka) -> KafkaConnection:
    """How to reach it. It is shared: take topic names of your own."""
    return kafka_cluster.connection


@dataclass(frozen=True)
class System:
    """A whole running Penstock."""

    ingress_url: str
    admin_url: str
    bootstrap_servers: str
    data_dir: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, *arguments: str, stdin: str | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """A command of the command line against this system."""
        return subprocess.run(
            [*PENSTOCK, *arguments],
            env={**os.environ, "PENSTOCK_SERVER": self.admin_url, "PENSTOCK_DATA_DIR": str(self.data_dir)}
            | dict(self.environment),
            input=stdin, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def pid(self, part: str) -> int:
        """The process that runs a part now (kafka, controller, receiver, dispatcher), 0 while none does."""
        state = json.loads((self.data_dir / "run" / "up.json").read_text())
        return int(state["parts"][part]["pid"] or 0)


@contextmanager
def running_system(
    data_dir: Path, environment: Mapping[str, str] | None = None, host: str = "127.0.0.1"
) -> Iterator[System]:
    """``penstock up`` on free ports, and its end. Ingress and admin listen on that host."""
    ingress, admin, kafka_port = free_port(), free_port(), free_port()
    system = System(
        f"http://{host}:{ingress}", f"http://{host}:{admin}", f"127.0.0.1:{kafka_port}", data_dir,
        environment or {},
    )  # fmt: skip
    ports = [
        "--host",
        host,
        "--ingress-port",
        str(ingress),
        "--admin-port",
        str(admin),
        "--kafka-port",
        str(kafka_port),
    ]
    try:
        started = system.run("up", "--detach", "--data-dir", str(data_dir), *ports, timeout=200)
    except subprocess.TimeoutExpired as error:
        system.run("down", "--data-dir", str(data_dir))
        pytest.fail(f"penstock up took too long: {error}\n{error.stdout!r}\n{error.stderr!r}")
    if started.returncode != 0:
        system.run("down", "--data-dir", str(data_dir))
        pytest.fail(f"penstock up failed:\n{started.stdout}{started.stderr}")
    try:
        yield system
    finally:
        system.run("down", "--data-dir", str(data_dir))


@pytest.fixture(scope="session")
def penstock_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The one ``penstock up`` of this run."""
    with running_system(tmp_path_factory.mktemp("penstock")) as system:
        yield system


@pytest.fixture(scope="session")
def openssl() -> str:
    return tool("openssl")


@pytest.fixture(scope="session")
def promtool() -> str:
    return tool("promtool")


@pytest.fixture
def sink() -> Iterator[Callable[[], Sink]]:
    """Makes subscribers: ``orders = sink()``."""
    made: list[Sink] = []

    def make() -> Sink:
        made.append(Sink().start())
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A Spark session in the tests' own process, for what can be asked of a batch instead of a running stream."""
    from penstock.pipeline.session import start_session
    from penstock.pipeline.settings import DispatcherSettings

    fetch.fetch_missing()
    settings = DispatcherSettings(data_dir=str(tmp_path_factory.mktemp("spark")), master="local[2]")
    session = start_session(settings, fetch.spark_connector_jars(), java_home())
    yield session
    session.stop()
