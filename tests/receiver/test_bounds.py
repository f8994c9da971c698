"""Memory is bounded by settings: what does not fit is refused with 503, to be sent again."""

import asyncio
import contextlib
import select
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from penstock.kafka import fetch
from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.server_files import ClusterSpec
from penstock.ports import free_port
from tests.receiver.load import Load
from tests.receiver.running import give_address, ids, read_answer, records, running
from tests.waiting import until


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A Kafka that these tests may stop."""
    fetch.fetch_missing()
    cluster = EmbeddedKafka(ClusterSpec(tmp_path_factory.mktemp("kafka"), port=free_port())).start()
    yield cluster
    _signal(cluster, signal.SIGCONT)
    cluster.stop()


def test_kafka_stopped_and_back(own_kafka: EmbeddedKafka) -> None:
    """Kafka away: 503 with Retry-After, at once when it is known; 202 again by itself; no 202 is without a record."""
    path, topic = give_address(own_kafka.connection, "away")
    with running(own_kafka.connection, delivery_timeout_seconds=2.5) as receiver:
        load = Load(receiver, path, senders=4).start()
        until(lambda: len(load.accepted) > 100, "some load")
        own_kafka.processes[1].terminate()  # killed, it would be let in again only after its session ends
        own_kafka.processes[1].wait()
        until(lambda: load.codes[503] > 50, "quick refusals")
        answer = receiver.send(path)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.error
        assert receiver.ask("GET", "/healthz").status == 200
        before = len(load.accepted)
        own_kafka.start_node(1)
        own_kafka.wait_until_ready()
        until(lambda: len(load.accepted) > before + 100, "202 again")
        load.stop()
        assert load.unanswered == []
        assert set(load.codes) == {202, 503}
    assert load.accepted - ids(records(own_kafka.connection, topic)) == set()


@pytest.mark.scenario(9)
def test_kafka_silent(own_kafka: EmbeddedKafka) -> None:
    """Kafka that accepts and says nothing: 503 after the delivery timeout, then at once, and 202 when it goes on."""
    path, _ = give_address(own_kafka.connection, "silent")
    with running(own_kafka.connection, delivery_timeout_seconds=1.0) as receiver:
        until(lambda: receiver.send(path).status == 202, "the topic is there")
        _signal(own_kafka, signal.SIGSTOP)
        load = Load(receiver, path, senders=2).start()
        until(lambda: load.codes[503] > 20, "refusals")
        _signal(own_kafka, signal.SIGCONT)
        before = len(load.accepted)
        until(lambda: len(load.accepted) > before + 20, "202 again")
        assert load.stop().unanswered == []


@pytest.mark.scenario(9)
def test_memory_while_kafka_is_silent(own_kafka: EmbeddedKafka) -> None:
    """Kept promise: 200 MB of events at once for a Kafka that says nothing cost at most half, and all get 503."""
    path, _ = give_address(own_kafka.connection, "flood")
    with running(own_kafka.connection, delivery_timeout_seconds=5.0) as receiver:
        assert receiver.send(path).status == 202
        before = receiver.resident_kilobytes()
        _signal(own_kafka, signal.SIGSTOP)
        answers = asyncio.run(_flood(receiver.port, _event(path, b"z" * 100_000), 2_000))
        _signal(own_kafka, signal.SIGCONT)
        assert answers == {503: 2_000}
        assert receiver.resident_kilobytes() - before < 100_000
        until(lambda: receiver.send(path).status == 202, "202 again")


def test_too_many_events(own_kafka: EmbeddedKafka) -> None:
    """Beyond the events in flight: 503 with Retry-After at once, however long Kafka takes for the others."""
    path, _ = give_address(own_kafka.connection, "events")
    with running(own_kafka.connection, inflight_events=5, delivery_timeout_seconds=20.0) as receiver:
        assert receiver.send(path).status == 202
        _signal(own_kafka, signal.SIGSTOP)
        with contextlib.ExitStack() as stack:
            waiting = [stack.enter_context(receiver.connect()) for _ in range(6)]
            for connection in waiting:
                connection.sendall(_event(path))
            (refused,) = until(lambda: select.select(waiting, [], [], 0)[0], "the refusal")  # of any of the six
            waiting.remove(refused)
            answer = read_answer(refused)
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            assert "as many" in answer.error
            _signal(own_kafka, signal.SIGCONT)
            assert {read_answer(connection).status for connection in waiting} == {202}
        assert receiver.send(path).status == 202
        batch = b"[" + b",".join([b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'] * 6) + b"]"
        assert receiver.ask("POST", path, batch, {"Content-Type": "application/cloudevents-batch+json"}).status == 413


def test_too_many_bytes(own_kafka: EmbeddedKafka) -> None:
    """Bodies that come slowly count too: beyond their limit the oldest gets 503, and others are served."""
    path, _ = give_address(own_kafka.connection, "bytes")
    with running(own_kafka.connection, unfinished_bytes=300_000) as receiver:
        half = _event(path, b"z" * 40_000)[:-20_000]
        with contextlib.ExitStack() as stack:
            waiting = [stack.enter_context(receiver.connect()) for _ in range(30)]
            for connection in waiting:
                connection.sendall(half)
            answer = read_answer(waiting[0])
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert "oldest" in answer.error
            assert receiver.send(path).status == 202
            waiting[-1].sendall(b"z" * 20_000)
            assert read_answer(waiting[-1]).status == 202


def test_too_many_connections(own_kafka: EmbeddedKafka) -> None:
    """Connections are limited too; those that wait for no answer give way."""
    path, _ = give_address(own_kafka.connection, "connections")
    with running(own_kafka.connection, connection_limit=3) as receiver, contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(receiver.connect())
        assert [receiver.send(path).status for _ in range(5)] == [202] * 5


def _event(path: str, body: bytes = b"{}") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _flood(port: int, request: bytes, count: int) -> Counter[int]:
    """Sends it on so many connections at once; how often each status was the answer (0: none came)."""

    async def send() -> int:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            line = await reader.readline()
            writer.close()
        except OSError:
            return 0
        return int(line.split()[1]) if line else 0

    return Counter(await asyncio.gather(*(send() for _ in range(count))))


def _signal(cluster: EmbeddedKafka, number: signal.Signals) -> None:
    for process in cluster.processes.values():
        process.send_signal(number)
