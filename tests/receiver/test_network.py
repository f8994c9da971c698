"""Between receiver and Kafka lies a network: whatever it does, no 202 is without a record, none is there twice."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from penstock.kafka import fetch
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.server_files import ClusterSpec, node_folder
from penstock.ports import free_port
from tests.proxy import Proxy
from tests.receiver.load import Load
from tests.receiver.running import give_address, ids, records, running
from tests.waiting import until


@dataclass(frozen=True)
class Network:
    """One Kafka with two addresses: clients that come through the proxy never learn the direct one."""

    proxy: Proxy
    direct: KafkaConnection

    @property
    def proxied(self) -> KafkaConnection:
        return KafkaConnection(f"127.0.0.1:{self.proxy.port}")


@pytest.fixture(scope="module")
def kafka_behind_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    fetch.fetch_missing()
    proxy = Proxy(server_port=free_port()).start()
    cluster = EmbeddedKafka(ClusterSpec(tmp_path_factory.mktemp("kafka"), port=free_port()))
    cluster.prepare()
    _add_listener(cluster, proxy)
    cluster.start_node(1)
    cluster.wait_until_ready()
    yield Network(proxy, cluster.connection)
    cluster.stop()
    proxy.stop()


def _add_listener(cluster: EmbeddedKafka, proxy: Proxy) -> None:
    """The broker listens behind the proxy and tells those who came this way the proxy's port."""
    file = node_folder(cluster.spec.data_dir, 1) / "server.properties"
    settings = dict(line.split("=", 1) for line in file.read_text().splitlines())
    settings["listeners"] += f",PROXIED://127.0.0.1:{proxy.server_port}"
    settings["advertised.listeners"] += f",PROXIED://127.0.0.1:{proxy.port}"
    names = ("PLAINTEXT", "PROXIED", "CONTROLLER")
    settings["listener.security.protocol.map"] = ",".join(f"{name}:PLAINTEXT" for name in names)
    settings["inter.broker.listener.name"] = "PLAINTEXT"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


@pytest.fixture
def network(kafka_behind_proxy: Network) -> Iterator[Network]:
    yield kafka_behind_proxy
    kafka_behind_proxy.proxy.heal()


def await_more(look: Callable[[], int], count: int) -> None:
    """Until there are so many more than now."""
    before = look()
    until(lambda: look() >= before + count, f"{count} more")


def slow(proxy: Proxy, load: Load) -> None:
    proxy.latency_seconds, proxy.bytes_per_second = 0.1, 3_000_000 // 8
    await_more(lambda: len(load.accepted), 80)


def resetting(proxy: Proxy, load: Load) -> None:
    proxy.latency_seconds = 0.01  # so that something is always under way
    for _ in range(10):
        proxy.reset()
        await_more(lambda: len(load.accepted), 20)
    assert proxy.connections_reset >= 10


def losing_answers(proxy: Proxy, load: Load) -> None:
    """Every retry is of something that Kafka has."""
    for _ in range(5):
        proxy.cuts_answers = True
        await_more(lambda: proxy.answers_cut, 1)
        proxy.cuts_answers = False
        await_more(lambda: len(load.accepted), 20)


def silent(proxy: Proxy, load: Load) -> None:
    """For longer than the receiver waits."""
    proxy.is_silent = True
    await_more(lambda: load.codes[503], 50)


@pytest.mark.scenario(13)
@pytest.mark.parametrize("be_bad", [slow, resetting, losing_answers, silent])
def test_a_bad_network(network: Network, be_bad: Callable[[Proxy, Load], None]) -> None:
    """Kept promise: the producer's retries put no record into the topic twice, and no 202 is without one."""
    path, topic = give_address(network.direct, f"network-{be_bad.__name__}")
    with running(network.proxied, delivery_timeout_seconds=2.5) as receiver:
        load = Load(receiver, path, body=b"x" * 20_000).start()
        await_more(lambda: len(load.accepted), 50)
        be_bad(network.proxy, load)
        network.proxy.heal()
        await_more(lambda: len(load.accepted), 50)
        assert load.stop().unanswered == []
    check(network, topic, load)


def names(network: Network, topic: str) -> Counter[str]:
    """The ids of all records, and how often each is there."""
    return Counter(name for record in records(network.direct, topic) for name in ids([record]))


def check(network: Network, topic: str, load: Load) -> None:
    """What must hold of the records, whatever became of the answers."""
    assert set(load.codes) <= {202, 503}
    stored = names(network, topic)
    assert load.accepted - stored.keys() == set(), "202 without a record"
    assert stored.keys() - load.sent == set(), "never sent"
    assert {name: times for name, times in stored.items() if times > 1} == {}, "there more than once"


@pytest.mark.scenario(14)
def test_an_answer_that_is_cut_after_the_write(network: Network) -> None:
    """Kept promise: what Kafka has and could not confirm is an error to the sender, and there at most once."""
    path, topic = give_address(network.direct, "cut")
    with running(network.proxied, delivery_timeout_seconds=5.0) as receiver:
        assert receiver.send(path, ce_id="before").status == 202
        network.proxy.cuts_answers = True
        assert receiver.send(path, ce_id="unknown").status == 503
        assert network.proxy.answers_cut > 0
        assert names(network, topic) == Counter(["before", "unknown"]), "it was written"
        network.proxy.cuts_answers = False
        until(lambda: receiver.send(path, ce_id="refused or after").status == 202, "202 again")
        assert receiver.send(path, ce_id="last").status == 202
    stored = names(network, topic)
    assert {stored[each] for each in ("before", "unknown", "last")} == {1}


@pytest.mark.scenario(14)
def test_answers_cut_under_load(network: Network) -> None:
    """Kept promise: also with many under way nothing is there twice, and no 202 is without a record."""
    path, topic = give_address(network.direct, "cut-under-load")
    with running(network.proxied, delivery_timeout_seconds=1.0) as receiver:
        load = Load(receiver, path).start()
        await_more(lambda: len(load.accepted), 100)
        for _ in range(3):
            network.proxy.cuts_answers = True
            await_more(lambda: load.codes[503], 20)
            network.proxy.cuts_answers = False
            await_more(lambda: len(load.accepted), 100)
        assert load.stop().unanswered == []
    assert network.proxy.answers_cut > 0
    check(network, topic, load)


@pytest.mark.scenario(13)
@pytest.mark.xfail(reason="librdkafka bumps its epoch and sends again what Kafka has: there twice, most of the time")
def test_an_event_that_waits_beside_one_that_timed_out(network: Network) -> None:
    """Kept promise: when the answers to an older and a younger event are late, the younger one's retry is no copy."""
    path, topic = give_address(network.direct, "beside")
    with running(network.proxied, delivery_timeout_seconds=2.5) as receiver:
        assert receiver.send(path, ce_id="before", ce_partitionkey="same").status == 202
        network.proxy.holds_answers = True
        older, younger = [
            threading.Thread(target=receiver.send, args=(path,), kwargs={"ce_id": name, "ce_partitionkey": "same"})
            for name in ("older", "younger")
        ]
        older.start()
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 1.5, "a while between the two")
        younger.start()
        older.join()
        network.proxy.holds_answers = False
        younger.join()
    assert names(network, topic) == Counter(["before", "older", "younger"])
