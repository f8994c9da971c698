"""However a receiver ends, what it accepted is in Kafka."""

import os
import signal

import pytest

from penstock.kafka.connection import KafkaConnection
from tests.receiver.load import Load
from tests.receiver.running import give_address, ids, records, running
from tests.waiting import until


def test_terminated_under_load(kafka: KafkaConnection) -> None:
    """SIGTERM: every request that was taken is answered, every 202 is in the topic, the exit code is 0."""
    path, topic = give_address(kafka, "terminated")
    with running(kafka) as receiver:
        load = Load(receiver, path).start()
        until(lambda: len(load.accepted) > 500, "some load")
        assert receiver.end() == 0
        load.stop()
    assert load.unanswered == []
    assert set(load.codes) == {202}
    assert load.accepted - ids(records(kafka, topic)) == set()


@pytest.mark.scenario(1)
def test_killed_under_load(kafka: KafkaConnection) -> None:
    """SIGKILL: senders may be left without an answer, but no 202 is without its record."""
    path, topic = give_address(kafka, "killed")
    with running(kafka) as receiver:
        load = Load(receiver, path).start()
        until(lambda: len(load.accepted) > 500, "some load")
        receiver.end(signal.SIGKILL)
        load.stop()
    assert load.accepted - ids(records(kafka, topic)) == set()


def test_idle_connection_does_not_hold_it(kafka: KafkaConnection) -> None:
    """Neither an idle connection nor a request that never becomes complete keeps an ending receiver alive."""
    give_address(kafka, "shared")
    with running(kafka, drain_seconds=1.0) as receiver, receiver.connect() as idle, receiver.connect() as slow:
        slow.sendall(b"POST /tests/shared HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n")
        assert receiver.end() == 0
        assert idle.recv(1) == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_several_processes(kafka: KafkaConnection, number: signal.Signals) -> None:
    """Several processes share the port; the end of the first is the end of all."""
    path, _ = give_address(kafka, "several")
    with running(kafka, receiver_processes=2) as receiver:
        children = until(lambda: _children(receiver.process.pid), "children")
        assert len(children) == 2
        until(lambda: all(receiver.send(path).status == 202 for _ in range(20)), "all ready")
        assert receiver.end(number) == (0 if number == signal.SIGTERM else -number)
        until(lambda: not any(_is_alive(child) for child in children), "the end of the children")


def test_a_process_dies(kafka: KafkaConnection) -> None:
    """When one of several processes dies, all end with an error, for the supervisor to start them again."""
    with running(kafka, receiver_processes=2) as receiver:
        children = until(lambda: _children(receiver.process.pid), "children")
        os.kill(children[0], signal.SIGKILL)
        assert receiver.process.wait(20) == 1
        assert not _is_alive(children[1])


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as listing:
        return [int(child) for child in listing.read().split()]


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
