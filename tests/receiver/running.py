"""A receiver as a real process, requests to it byte by byte, and a look at what it wrote."""

import functools
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.contract.model import CONTRACT_TOPIC, Agreement, Route, encode
from penstock.kafka import table, topics
from penstock.kafka.connection import KafkaConnection
from penstock.ports import free_port
from tests.waiting import until

T = TypeVar("T")

DEADLINE_SECONDS = 30.0
PATIENCE = {"delivery_timeout_seconds": 20, "read_timeout_seconds": 60}  # a busy machine is no reason for a 503
PARTITIONS = 2
COMMAND = [sys.executable, "-m", "penstock.cli.main", "receiver"]
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/tests", "ce-type": "test.sent"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"])


@dataclass
class Receiver:
    """One running receiver."""

    process: subprocess.Popen[bytes]
    port: int
    log: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own."""
        given = {"Host": "here", "Content-Length": str(len(body)), **(headers or {})}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        return self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def send(self, path: str, body: bytes = b"{}", **headers: str) -> Answer:
        """An event in binary mode, with what is given on top."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}  # Host: in capitals
        return self.ask("POST", path, body, {**EVENT, "content-type": "application/json", **given})

    def raw(self, request: bytes) -> Answer:
        with self.connect() as connection:
            connection.sendall(request)
            return read_answer(connection)

    @contextmanager
    def connect(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), DEADLINE_SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection

    def resident_kilobytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])  # the most it ever had

    def is_ready(self) -> bool:
        try:
            return self.ask("GET", "/readyz").status == 200
        except OSError:
            assert self.process.poll() is None, "\n".join(self.log)
            return False

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)


def read_answer(connection: socket.socket) -> Answer:
    """The next answer on a connection."""
    with connection.makefile("rb", buffering=0) as stream:  # unbuffered: what follows is left for the next call
        line = _line(stream)
        if not line.startswith("HTTP/1.1 "):
            raise ConnectionError(f"no answer: {line!r}")
        headers = {}
        while header := _line(stream):
            name, _, value = header.partition(": ")
            headers[name.lower()] = value
        body = b""
        while len(body) < int(headers.get("content-length", "0")):
            body += stream.read(int(headers["content-length"]) - len(body)) or b""
        return Answer(int(line.split()[1]), headers, body)


def _line(stream: io.RawIOBase) -> str:
    read = b""
    while not read.endswith(b"\r\n"):
        byte = stream.read(1)
        if not byte:
            break
        read += byte
    return read.decode("latin-1").rstrip("\r\n")


@contextmanager
def running(kafka: KafkaConnection, **settings: Any) -> Iterator[Receiver]:
    """A receiver on that Kafka, ready to take events."""
    with running_command(COMMAND, kafka, **settings) as receiver:
        yield receiver


def with_open_files(soft: int, hard: int) -> list[str]:
    """The command of a receiver that may open so many files."""
    return ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh", *COMMAND]


@contextmanager
def running_command(command: Sequence[str], kafka: KafkaConnection, **settings: Any) -> Iterator[Receiver]:
    """The same, started with this command."""
    port = free_port()
    settings = {"ingress_port": port, "bootstrap_servers": kafka.bootstrap_servers, **PATIENCE, **settings}
    variables = {f"PENSTOCK_{name.upper()}": str(value) for name, value in settings.items()}
    process = subprocess.Popen(command, env={**os.environ, **variables}, stderr=subprocess.PIPE)
    receiver = Receiver(process, port)
    threading.Thread(target=_gather, args=(process, receiver.log), daemon=True).start()
    try:
        until(receiver.is_ready, "a ready receiver")
        yield receiver
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _gather(process: subprocess.Popen[bytes], log: list[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        log.append(line.decode(errors="replace").rstrip())


def give_address(kafka: KafkaConnection, name: str, **route: Any) -> tuple[str, str]:
    """A topic and an address that leads to it, as the controller would make them: (path, topic)."""
    topic, path = f"receiver-{name}", f"/tests/{name}"
    tables = topics.TopicSpec(CONTRACT_TOPIC, config=topics.COMPACTED)
    wanted = [tables, topics.TopicSpec(topic, PARTITIONS)]
    try:
        topics.create_missing(kafka.admin(), wanted)
    except TimeoutError:  # librdkafka's admin client was seen to wait in vain when Kafka had just been started anew
        topics.create_missing(kafka.admin(), wanted)
    agreement = Agreement(uid=name, generation=1, routes=(Route(path, topic, **route),))
    table.put(kafka.producer(), CONTRACT_TOPIC, f"Broker/tests/{name}", encode(agreement))
    return path, topic


def take_address(kafka: KafkaConnection, name: str) -> None:
    table.put(kafka.producer(), CONTRACT_TOPIC, f"Broker/tests/{name}", None)


@functools.cache
def _admin(kafka: KafkaConnection) -> AdminClient:
    """One for all questions: making one takes longer than asking."""
    return kafka.admin()


def count(kafka: KafkaConnection, topic: str) -> int:
    """How many records the topic has."""
    return sum(topics.latest_offsets(_admin(kafka), topic, PARTITIONS).values())


def records(kafka: KafkaConnection, topic: str) -> list[Message]:
    """Everything that is in the topic now."""
    consumer = kafka.consumer()
    try:
        number = count(kafka, topic)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        found: list[Message] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(found) < number and time.monotonic() < deadline:
            found += [each for each in consumer.consume(1000, 0.1) if each.error() is None]
        return found
    finally:
        consumer.close()


def ids(found: list[Message]) -> set[str]:
    return {dict(each.headers())["ce_id"].decode() for each in found}
