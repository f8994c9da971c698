"""The system under test: the one that the environment names, or the ``penstock up`` of this run."""

import os
import secrets
from collections.abc import Iterator

import pytest

from tests.conformance.api import Api
from tests.conformance.kafka_topics import Topics
from tests.conformance.stage import Stage

SERVER = "PENSTOCK_CONFORMANCE_SERVER"
KAFKA = "PENSTOCK_CONFORMANCE_KAFKA"
NAMESPACE = "PENSTOCK_CONFORMANCE_NAMESPACE"
BROKER_CLASS = "PENSTOCK_CONFORMANCE_BROKER_CLASS"


@pytest.fixture(scope="session")
def run() -> str:
    """Begins the names of everything that this run makes."""
    return f"c{secrets.token_hex(2)}"


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> str:
    """Where the API is."""
    return os.environ.get(SERVER) or str(request.getfixturevalue("penstock_up").admin_url)


@pytest.fixture(scope="session")
def bootstrap_servers(request: pytest.FixtureRequest) -> str:
    """The system's Kafka; empty when a system elsewhere does not say."""
    if SERVER in os.environ:
        return os.environ.get(KAFKA, "")
    return str(request.getfixturevalue("penstock_up").bootstrap_servers)


@pytest.fixture(scope="session")
def api(server: str) -> Api:
    return Api(server, os.environ.get(NAMESPACE, "default"))


@pytest.fixture(scope="module")
def stage(api: Api, run: str, bootstrap_servers: str) -> Iterator[Stage]:
    stage = Stage(api, run, bootstrap_servers, os.environ.get(BROKER_CLASS, "Kafka"))
    yield stage
    stage.close()


@pytest.fixture(scope="module", autouse=True)
def served(request: pytest.FixtureRequest) -> None:
    """Modules name the kinds that they need in ``NEEDS``; without them they wait until the system has them."""
    needed = getattr(request.module, "NEEDS", ())
    if needed:
        api: Api = request.getfixturevalue("api")
        for kind in needed:
            if not api.serves(kind):
                pytest.skip(f"this system does not serve {kind}")


@pytest.fixture(scope="module")
def topics(bootstrap_servers: str) -> Iterator[Topics]:
    """The system's Kafka, where a system elsewhere says which one that is."""
    if not bootstrap_servers:
        pytest.skip(f"{KAFKA} does not say which Kafka the system has")
    topics = Topics(bootstrap_servers)
    yield topics
    topics.close()
