"""Rubbish gets its 4xx, and nothing else happens: memory stays, the next request is served."""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from penstock.kafka.connection import KafkaConnection
from tests.receiver.conftest import Address
from tests.receiver.running import EVENT, Receiver, count, read_answer, running

STRUCTURED = {"Content-Type": "application/cloudevents+json"}
MEGABYTE = 1024 * 1024


@pytest.fixture(autouse=True)
def _leaves_no_trace(receiver: Receiver, address: Address, kafka: KafkaConnection) -> Iterator[None]:
    """Whatever is thrown at it, the receiver writes nothing of it and takes the next event."""
    before, said = count(kafka, address.topic), len(receiver.log)
    yield
    assert count(kafka, address.topic) == before
    assert receiver.send(address.path).status == 202
    assert not [line for line in receiver.log[said:] if "Traceback" in line or " ERROR " in line]


@pytest.mark.parametrize(
    "body",
    [
        b'{"specversion":"1.0","id":"1","sou',
        b'{"specversion":1.0,"id":"1","source":"/s","type":"t"}',
        b'{"specversion":"1.0","id":["7"],"source":"/s","type":"t"}',
        b'{"specversion":"1.0","id":"1","source":"/s"}',
        b'["specversion"]',
        b"null",
        b"",
        b'{"specversion":"1.0","id":"\xff\xfe","source":"/s","type":"t"}',
        b"[" * 100_000,
    ],
    ids=["truncated", "wrong version type", "wrong id type", "no type", "list", "null", "empty", "not UTF-8", "deep"],
)
def test_no_event(receiver: Receiver, address: Address, body: bytes) -> None:
    """400 says what is wrong with the body, and the connection goes on."""
    answer = receiver.ask("POST", address.path, body, STRUCTURED)
    assert answer.status == 400
    assert answer.error


@pytest.mark.parametrize(
    "line",
    [b"ce-subject: \xff\xfe", b"ce-subject: %ff%fe", b"ce-subject: a%0d%0ab", b"ce-Bad_Name: x", b"ce-id: again"],
    ids=["not UTF-8", "percent-encoded not UTF-8", "percent-encoded line end", "bad name", "twice"],
)
def test_bad_attributes(receiver: Receiver, address: Address, line: bytes) -> None:
    """400 for attributes that cannot be, however they are written."""
    assert receiver.raw(_request(address.path, line)).status == 400


@pytest.mark.parametrize(
    "line",
    [
        b"ce-subject: a\x00b",
        b"ce-subject: a\rX-Evil: 1",
        b"ce subject: x",
        b"no colon",
        b" folded: x",
        b"\x16\x03\x01",
    ],
    ids=["NUL", "bare CR", "space in a name", "no colon", "leading space", "TLS"],
)
def test_header_injection(receiver: Receiver, address: Address, line: bytes) -> None:
    """What is no header is a 400 and the end of the connection."""
    with receiver.connect() as connection:
        connection.sendall(_request(address.path, line))
        answer = read_answer(connection)
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert answer.error
        assert connection.recv(1) == b""


def test_two_lengths(receiver: Receiver, address: Address) -> None:
    """A request whose length can be read two ways is refused: the second way could be somebody else's request."""
    assert receiver.raw(_request(address.path, b"Transfer-Encoding: chunked")).status == 400
    assert receiver.raw(_request(address.path, b"Content-Length: 5")).status == 400


def test_binary_noise(receiver: Receiver) -> None:
    """Bytes that are no HTTP at all get a 400."""
    assert receiver.raw(bytes(range(256)) * 4).status == 400


def test_compressed(receiver: Receiver, address: Address) -> None:
    """A compressed body would reach subscribers as noise: it is refused with the reason."""
    assert receiver.raw(_request(address.path, b"Content-Encoding: gzip")).status == 415


def test_huge_head(receiver: Receiver, address: Address) -> None:
    """431 when the headers are too many or too long, also when they never end."""
    assert receiver.raw(_request(address.path, b"X: " + b"y" * 70_000)).status == 431
    assert receiver.raw(_request(address.path, b"\r\n".join(b"X-%d: y" % n for n in range(9_000)))).status == 431
    with receiver.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nX: " + b"y" * 100_000)
        assert read_answer(connection).status == 431


def test_huge_url(receiver: Receiver) -> None:
    """431 also when it is the address that is too long."""
    assert receiver.raw(b"POST /" + b"y" * 100_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n").status == 431


def test_huge_body(receiver: Receiver, address: Address) -> None:
    """413 for 50 MB, announced or in chunks, without holding them: memory stays flat."""
    announced = _request(address.path, b"X: y").replace(b"Content-Length: 2", b"Content-Length: 52428800")[:-2]
    chunked = _request(address.path, b"X: y").replace(b"Content-Length: 2", b"Transfer-Encoding: chunked")[:-2]

    def is_refused(head: bytes, piece: bytes, count: int) -> None:
        with receiver.connect() as connection:
            with contextlib.suppress(ConnectionError):  # it may have ended the connection already
                connection.sendall(head)
                for _ in range(count):
                    connection.sendall(piece)
            answer = read_answer(connection)
            assert (answer.status, answer.headers["connection"]) == (413, "close")

    kinds = ((announced, b"z" * MEGABYTE), (chunked, b"100000\r\n" + b"z" * MEGABYTE + b"\r\n"))
    for head, piece in kinds:
        is_refused(head, piece, 2)  # the first requests allocate memory that is kept
    before = receiver.resident_kilobytes()
    for head, piece in kinds:
        is_refused(head, piece, 50)
    assert receiver.resident_kilobytes() - before < 10_000


def test_body_beyond_the_limit(receiver: Receiver, address: Address) -> None:
    """One byte more than the limit is too much, also for an address that is not known."""
    assert receiver.send(address.path, b"z" * (MEGABYTE + 1)).status == 413
    assert receiver.send("/nobody", b"z" * (MEGABYTE + 1)).status == 413
    assert receiver.send("/nobody", b"z" * MEGABYTE).status == 404


@pytest.fixture(scope="module")
def impatient(kafka: KafkaConnection) -> Iterator[Receiver]:
    """A receiver that waits a second for the rest of a request."""
    with running(kafka, read_timeout_seconds=1.0) as one:
        yield one


@pytest.mark.parametrize(
    "start", [b"POST / HTTP/1.1\r\nX: ", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n"]
)
def test_slow_loris(impatient: Receiver, start: bytes) -> None:
    """A head or body that comes in drips is ended with 408, although there is always something coming."""
    with impatient.connect() as connection:
        connection.sendall(start)
        connection.settimeout(0.05)
        began = time.monotonic()
        while time.monotonic() - began < 60:
            try:
                connection.sendall(b"a")
                if connection.recv(1, socket.MSG_PEEK):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        connection.settimeout(30)
        assert read_answer(connection).status == 408
        assert time.monotonic() - began < 30


def test_sender_that_leaves(receiver: Receiver, address: Address) -> None:
    """A sender that leaves in the middle of its request costs nothing afterwards."""
    for _ in range(50):
        with receiver.connect() as connection:
            connection.sendall(_request(address.path, b"X: y")[:-1])


def _request(path: str, line: bytes) -> bytes:
    head = "".join(f"{name}: {value}\r\n" for name, value in EVENT.items())
    return f"POST {path} HTTP/1.1\r\nHost: h\r\n{head}Content-Length: 2\r\n".encode() + line + b"\r\n\r\n{}"
