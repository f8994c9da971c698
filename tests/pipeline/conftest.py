"""A Spark session in the tests' own process, for what can be asked of a batch instead of a running stream."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.kafka.fetch import fetch_missing, spark_connector_jars
from penstock.kafka.java import java_home
from penstock.pipeline.session import start_session
from penstock.pipeline.settings import DispatcherSettings


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    fetch_missing()
    settings = DispatcherSettings(data_dir=str(tmp_path_factory.mktemp("spark")), master="local[2]")
    session = start_session(settings, spark_connector_jars(), java_home())
    yield session
    session.stop()
