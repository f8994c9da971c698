"""``up --advertise ADDRESS``: the parts that serve other machines listen there, and ask everybody for a login.

127.0.0.2 plays the address that other machines reach: every process must be bound to it on purpose.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.errors import Misconfigured, PenstockError
from penstock.kafka import login, secret_files, security
from penstock.kafka.connection import KafkaConnection
from tests.attacks.test_exposure import listening, processes_of
from tests.conftest import System, running_system
from tests.sink import Sink
from tests.system.resources import applied, apply, broker, trigger

ADVERTISED = "127.0.0.2"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    variables = {"PENSTOCK_KAFKA_AUTH": "scram", "PENSTOCK_ADVERTISE": ADVERTISED}
    with running_system(tmp_path_factory.mktemp("advertised"), variables) as started:
        yield started


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def servers_of(system: System) -> str:
    return f"{ADVERTISED}:{port_of(system.bootstrap_servers)}"


def named(pid: int) -> str:
    """Which part a process belongs to, by its command line."""
    command = Path(f"/proc/{pid}/cmdline").read_text()
    parts = {"kafka.Kafka": "kafka", "SparkSubmit": "spark", "dispatcher": "dispatcher"}
    return next((part for word, part in parts.items() if word in command), "other")


def test_only_the_parts_for_other_machines_listen_on_the_advertised_address(system: System) -> None:
    """Kept promise: Kafka, Spark and the dispatcher listen there; ingress and admin where --host says; no part
    listens on all addresses."""
    found: dict[str, set[str]] = {}
    ports: set[tuple[str, int]] = set()
    for pid in processes_of(system):
        for address, port in listening([pid]):
            ports.add((address, port))
            found.setdefault(address, set()).add(named(pid))
    assert found[ADVERTISED] == {"kafka", "spark", "dispatcher"}
    assert set(found) <= {ADVERTISED, "127.0.0.1", "::1"}
    own = {port_of(url) for url in (system.ingress_url, system.admin_url)}
    assert {("127.0.0.1", port) for port in own} <= ports
    assert not {(ADVERTISED, port) for port in own} & ports
    kafka = port_of(system.bootstrap_servers)
    assert (ADVERTISED, kafka) in ports
    assert ("127.0.0.1", kafka) not in ports


def test_events_arrive_through_an_advertised_kafka(system: System, sink: Callable[[], Sink]) -> None:
    """Kept promise: all parts reach each other there, with their logins and tokens."""
    subscriber = sink()
    apply(system, broker("advertised"), trigger("advertised", "advertised", subscriber.url))
    applied.clear()  # the system ends with this module
    sent = system.run("send", "broker/advertised", "--type", "test.sent", "--source", "/tests", "--count", "5")
    assert sent.returncode == 0, sent.stderr
    subscriber.wait_for(5, timeout_seconds=60)
    found = system.run("explain", "--source", "/tests")  # asked of the dispatcher
    assert found.returncode == 0, found.stderr


def test_an_advertised_kafka_takes_nobody_without_the_login(system: System) -> None:
    """Kept promise: no login and a wrong password end in a refusal, also at this address."""
    with pytest.raises(PenstockError):
        KafkaConnection(servers_of(system)).check(3.0)
    data = secret_files.read_file(login.secret_file(system.data_dir), "login", "start the system")
    for password, expected in ((b"guessed", Misconfigured), (data["password"], None)):
        given = security.parse("login", {**data, "password": password})
        connection = KafkaConnection(servers_of(system), security=given)
        if expected is None:
            connection.check(20.0)
        else:
            with pytest.raises(expected, match="does not let us in"):
                connection.check(20.0)
