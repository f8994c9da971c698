"""The ingress port against hostile senders, and against senders that speak something other than HTTP/1.1."""

import contextlib
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from penstock.contract.model import CONTRACT_TOPIC
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import put
from tests.receiver.running import (
    EVENT,
    Answer,
    Receiver,
    count,
    give_address,
    read_answer,
    records,
    running,
    running_command,
    with_open_files,
)
from tests.waiting import until

NAME = "attacked"
PATH, TOPIC = f"/tests/{NAME}", f"receiver-{NAME}"
DATA = b'{"amount": 17}'
MOST_OPEN_FILES = 1024  # the limit of many systems


@pytest.fixture(scope="module")
def receiver(kafka: KafkaConnection) -> Iterator[Receiver]:
    give_address(kafka, NAME)
    with running(kafka) as one:
        yield one


@pytest.fixture
def stores_nothing(receiver: Receiver, kafka: KafkaConnection) -> Iterator[None]:
    """Whatever comes, nothing of it is stored, nothing fails, and the next event is taken."""
    before, logged = count(kafka, TOPIC), len(receiver.log)
    yield
    assert count(kafka, TOPIC) == before
    assert receiver.send(PATH).status == 202
    assert not [line for line in receiver.log[logged:] if "Traceback" in line or " ERROR " in line]


def _head(*lines: str, version: str = "HTTP/1.1", host: str = "Host: h") -> bytes:
    """The head of an event, without its end."""
    given = [*([host] if host else []), *(f"{name}: {value}" for name, value in EVENT.items()), *lines]
    return "\r\n".join((f"POST {PATH} {version}", *given)).encode("latin-1") + b"\r\n"


def _stored(kafka: KafkaConnection) -> list[bytes]:
    return sorted(record.value() or b"" for record in records(kafka, TOPIC))


# -- what asks for another protocol

LENGTH, CHUNKED = f"Content-Length: {len(DATA)}", "Transfer-Encoding: chunked"
CHUNKS = b"5;x=y\r\n" + DATA[:5] + b"\r\n" + b"%x\r\n" % len(DATA[5:]) + DATA[5:] + b"\r\n0\r\nX: y\r\n\r\n"
H2C = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
)
WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA")


@pytest.mark.parametrize("pieces", ["at once", "head first", "byte by byte"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("upgrade", [H2C, WEBSOCKET], ids=["h2c", "websocket"])
def test_data_of_a_request_for_an_upgrade_is_stored(
    receiver: Receiver, kafka: KafkaConnection, upgrade: tuple[str, ...], framing: str, pieces: str
) -> None:
    """An upgrade is ignored: what is acknowledged has its data, byte for byte, and the connection goes on."""
    before = _stored(kafka)
    head = _head(*upgrade, LENGTH if framing == "length" else CHUNKED) + b"\r\n"
    body = DATA if framing == "length" else CHUNKS
    with receiver.connect() as connection:
        for _ in range(2):
            for piece in _pieces(head, body, pieces):
                connection.sendall(piece)
            answer = read_answer(connection)
            assert answer.status == 202
            assert "connection" not in answer.headers
        connection.sendall(head + body + _head("Content-Length: 1") + b"\r\n1" + head + body)
        assert [read_answer(connection).status for _ in range(3)] == [202] * 3
    assert _stored(kafka) == sorted([*before, *[DATA] * 4, b"1"])


def _pieces(head: bytes, body: bytes, how: str) -> list[bytes]:
    if how == "at once":
        return [head + body]
    return [head, body] if how == "head first" else [bytes((each,)) for each in head + body]


def test_an_upgrade_without_a_body_or_with_close(receiver: Receiver, kafka: KafkaConnection) -> None:
    """Also an event without data, one whose sender closes, and one that waits for 100 Continue."""
    before = count(kafka, TOPIC)
    assert receiver.raw(_head(*H2C, "Content-Length: 0") + b"\r\n").status == 202
    closing = ("Connection: close, Upgrade", "Upgrade: h2c", LENGTH)
    answer = receiver.raw(_head(*closing) + b"\r\n" + DATA)
    assert (answer.status, answer.headers["connection"]) == (202, "close")
    with receiver.connect() as connection:
        connection.sendall(_head(*H2C, LENGTH, "Expect: 100-continue") + b"\r\n")
        assert read_answer(connection).status == 100
        connection.sendall(DATA)
        assert read_answer(connection).status == 202
    assert count(kafka, TOPIC) == before + 3


@pytest.mark.usefixtures("stores_nothing")
def test_many_upgrades_at_once(receiver: Receiver) -> None:
    """Thousands of pipelined upgrades are answered one by one."""
    number = 3_000
    with receiver.connect() as connection:
        connection.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n" * number)
        assert Counter(read_answer(connection).status for _ in range(number)) == {404: number}


@pytest.mark.usefixtures("stores_nothing")
def test_http2_without_asking_is_closed_at_once(receiver: Receiver) -> None:
    """HTTP/2 with prior knowledge gets GOAWAY with HTTP_1_1_REQUIRED, and the connection is closed."""
    with receiver.connect() as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"))
        came = b"".join(iter(lambda: connection.recv(1000), b""))
    settings, goaway = came[:9], came[9:]
    assert settings == bytes.fromhex("000000040000000000")
    assert (goaway[3], goaway[13:17]) == (7, bytes.fromhex("0000000d"))


@pytest.mark.usefixtures("stores_nothing")
def test_connect_is_refused(receiver: Receiver) -> None:
    """CONNECT opens no tunnel."""
    answer = receiver.raw(b"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n" + _head(LENGTH) + b"\r\n" + DATA)
    assert answer.status in (404, 405)


# -- heads that can be understood in two ways


@pytest.mark.usefixtures("stores_nothing")
@pytest.mark.parametrize(
    "lines",
    [
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: gzip", CHUNKED],
        ["Transfer-Encoding: chunked, chunked"],
        ["Transfer-Encoding: chunked, gzip"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding: chunked;q=1"],
        ["Transfer-Encoding:"],
        ["Transfer-Encoding: \x0bchunked"],
        [CHUNKED, CHUNKED],
        [CHUNKED, "transfer-encoding: identity"],
        [CHUNKED, "TE: gzip, chunked"],
        [LENGTH, CHUNKED],
        [CHUNKED, LENGTH],
        [LENGTH, LENGTH],
        ["Content-Length: 14, 14"],
        ["Content-Length: -14"],
        ["Content-Length: +14"],
        ["Content-Length: 0x0e"],
        ["Content-Length: 1_4"],
        ["Content-Length: 14.0"],
        ["Content-Length:"],
        ["Content-Length: \xb2"],
        ["Content-Length: 99999999999999999999999"],
        ["Content-Length: 14\r\n 0"],
        ["Content-Length : 14"],
        ["Content-Length\t: 14"],
        [LENGTH, "Host: other"],
        [LENGTH, "Content-Type: text/plain", "Content-Type: application/json"],
        [LENGTH, "Content-Type: application/cloudevents+json", "ce-x: a", "ce-x: b"],
        [LENGTH, "ce-id: 2"],
        [LENGTH, "CE-ID: 2"],
        [LENGTH, "Content-Encoding: gzip", "Content-Encoding: identity"],
        [LENGTH, "Expect: 100-continue", "Expect: x"],
        [LENGTH, "traceparent: a", "traceparent: b"],
        [LENGTH, "X: a\r\n folded"],
        [LENGTH, "X: a\rY: b"],
        [LENGTH, "X: a\nY: b"],
        [LENGTH, "X: a\x00b"],
        [LENGTH, "X\x00: b"],
        [LENGTH, "X: \x7f"],
        [LENGTH, ": b"],
    ],
    ids=repr,
)  # fmt: skip
def test_a_head_with_two_meanings_is_400(receiver: Receiver, lines: list[str]) -> None:
    """What a proxy could understand in another way is refused, and the connection ends."""
    body = CHUNKS if "chunked" in lines[0].lower() else DATA
    with receiver.connect() as connection:
        connection.sendall(_head(*lines) + b"\r\n" + body)
        answer = read_answer(connection)
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert answer.error
        assert connection.recv(1) == b""


@pytest.mark.usefixtures("stores_nothing")
@pytest.mark.parametrize(
    "version", ["HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "HTTP/3.0", "HTTP/11.1", "http/1.1", "HTTP/1", ""]
)
@pytest.mark.parametrize("connection", ["", "Connection: keep-alive"])
def test_another_version_is_400(receiver: Receiver, version: str, connection: str) -> None:
    """Only HTTP/1.1 and HTTP/1.0 are supported."""
    lines = [LENGTH, connection] if connection else [LENGTH]
    assert receiver.raw(_head(*lines, version=version) + b"\r\n" + DATA).status == 400


@pytest.mark.usefixtures("stores_nothing")
def test_a_request_without_host_is_400(receiver: Receiver) -> None:
    """HTTP/1.1 requires a Host, also on a request that keeps the connection."""
    assert receiver.raw(_head(LENGTH, host="") + b"\r\n" + DATA).status == 400
    assert receiver.raw(_head(LENGTH, "Connection: keep-alive", host="") + b"\r\n" + DATA).status == 400
    assert receiver.raw(b"GET /healthz HTTP/1.1\r\n\r\n").status == 400


@pytest.mark.usefixtures("stores_nothing")
def test_chunks_in_http_1_0_are_400(receiver: Receiver) -> None:
    """HTTP/1.0 knows no chunks: a proxy that speaks it would not see where the request ends."""
    for lines in ([CHUNKED], [CHUNKED, "Connection: keep-alive"]):
        assert receiver.raw(_head(*lines, version="HTTP/1.0") + b"\r\n" + CHUNKS).status == 400


@pytest.mark.parametrize(
    ("lines", "version", "host"),
    [
        ([LENGTH, "Accept: */*", "Accept: text/plain"], "HTTP/1.1", "Host: h"),
        ([LENGTH, "X-Forwarded-For: a", "X-Forwarded-For: b", "Via: a", "Via: b"], "HTTP/1.1", "Host: h"),
        ([LENGTH, "TE: trailers"], "HTTP/1.1", "Host: h"),
        (["Transfer-Encoding: Chunked"], "HTTP/1.1", "Host: h"),
        ([LENGTH], "HTTP/1.0", ""),
        ([LENGTH, "Connection: keep-alive"], "HTTP/1.0", "Host: h"),
        (["Content-Length:   14  "], "HTTP/1.1", "Host: h"),
    ],
)  # fmt: skip
def test_what_is_legal_is_taken(
    receiver: Receiver, kafka: KafkaConnection, lines: list[str], version: str, host: str
) -> None:
    """Lists may stand in several headers, and HTTP/1.0 needs no Host."""
    before = _stored(kafka)
    body = CHUNKS if "hunked" in lines[0] else DATA
    assert receiver.raw(_head(*lines, version=version, host=host) + b"\r\n" + body).status == 202
    assert _stored(kafka) == sorted([*before, DATA])


# -- requests that are never completed


def _honest(receiver: Receiver, number: int) -> Counter[int]:
    """How often each status was the answer; 0: the connection was closed without one."""

    def send(_: int) -> int:
        try:
            return receiver.send(PATH, DATA).status
        except ConnectionError:
            return 0

    with ThreadPoolExecutor(8) as pool:
        return Counter(pool.map(send, range(number)))


def _flood(receiver: Receiver, stack: contextlib.ExitStack, request: bytes, number: int) -> list[socket.socket]:
    """Opens this many connections that send this and nothing more."""
    opened = []
    for _ in range(number):
        connection = stack.enter_context(receiver.connect())
        with contextlib.suppress(ConnectionError, TimeoutError):
            connection.sendall(request)
        opened.append(connection)
    return opened


@pytest.mark.parametrize("headers", [b"X: " + b"y" * 64_000, b"a:\r\n" * 240], ids=["long", "tiny"])
def test_a_thousand_half_heads(kafka: KafkaConnection, headers: bytes) -> None:
    """Incomplete heads block no other sender: at least 99 of 100 normal requests get 202, and memory is limited."""
    give_address(kafka, NAME)
    half = _head() + headers
    with running(kafka) as receiver, contextlib.ExitStack() as stack:
        assert _honest(receiver, 50) == {202: 50}
        before = receiver.resident_kilobytes()
        _flood(receiver, stack, half, 1_000)
        found = _honest(receiver, 300)
        assert found[202] >= 297, found
        assert receiver.resident_kilobytes() - before < 80_000


@pytest.mark.parametrize("soft", [1024, 256], ids=["at the hard limit", "below the hard limit"])
def test_a_thousand_half_heads_and_few_open_files(kafka: KafkaConnection, soft: int) -> None:
    """More half heads than the receiver may open files: at least 99 of 100 normal requests get 202."""
    give_address(kafka, NAME)
    command = with_open_files(soft, MOST_OPEN_FILES)
    with running_command(command, kafka) as receiver, contextlib.ExitStack() as stack:
        assert _honest(receiver, 50) == {202: 50}
        _flood(receiver, stack, b"POST / HTTP/1.1\r\nHost: h\r\n", MOST_OPEN_FILES + 76)
        found = _honest(receiver, 300)
        assert found[202] >= 297, found
        assert MOST_OPEN_FILES / 2 < _open_files(receiver) < MOST_OPEN_FILES - 32


def _open_files(receiver: Receiver) -> int:
    return len(list(Path(f"/proc/{receiver.process.pid}/fd").iterdir()))


def test_empty_lines_shut_nobody_out(kafka: KafkaConnection) -> None:
    """More empty lines than inflight_bytes allows, on one connection: it gets 400, and normal requests get 202."""
    give_address(kafka, NAME)
    with running(kafka) as receiver, receiver.connect() as connection:
        with contextlib.suppress(ConnectionError):
            for _ in range(35):
                connection.sendall(b"\r\n" * 500_000)
        assert _honest(receiver, 50) == {202: 50}
        answer = _answer(connection)
        assert answer is None or answer.status == 400  # None: it was lost, since there was more to read


def test_half_bodies_shut_nobody_out(kafka: KafkaConnection) -> None:
    """Incomplete bodies give way, the oldest first; normal requests get 202."""
    give_address(kafka, NAME)
    half = _head(f"Content-Length: {1024 * 1024}") + b"\r\n" + b"z" * 900_000
    with running(kafka) as receiver, contextlib.ExitStack() as stack:
        assert _honest(receiver, 50) == {202: 50}
        before = receiver.resident_kilobytes()
        opened = _flood(receiver, stack, half, 100)
        assert _honest(receiver, 200) == {202: 200}
        oldest = until(lambda: _answer(opened[0]), "an answer")
        assert (oldest.status, oldest.headers["retry-after"]) == (503, "1")
        opened[-1].sendall(b"z" * (1024 * 1024 - 900_000))  # the youngest one is still there
        assert read_answer(opened[-1]).status == 202
        assert receiver.resident_kilobytes() - before < 80_000


def _answer(connection: socket.socket) -> Answer | None:
    try:
        return read_answer(connection)
    except ConnectionError:
        return None


@pytest.mark.usefixtures("stores_nothing")
@pytest.mark.parametrize(
    "rest",
    [b"1;" + b"x" * 500_000, b"1\r\nx\r\n0\r\nX: " + b"y" * 500_000, b"1\r\nx\r\n0\r\n" + b"a: b\r\n" * 80_000],
    ids=["chunk extension", "trailer", "trailers"],
)
@pytest.mark.parametrize("path", [PATH, "/nobody"])
def test_framing_without_end_is_413(receiver: Receiver, path: str, rest: bytes) -> None:
    """The framing of a chunked body is limited too, also if the body would be refused anyway."""
    head = _head(CHUNKED).replace(PATH.encode(), path.encode())
    with receiver.connect() as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(head + b"\r\n" + rest)
        assert read_answer(connection).status == 413


def test_tiny_chunks_cost_little(receiver: Receiver, kafka: KafkaConnection) -> None:
    """A body in chunks of two bytes is stored byte for byte and costs a small multiple of itself."""
    data = bytes(range(256)) * 2_000
    chunks = [b"2\r\n" + data[at : at + 2] + b"\r\n" for at in range(0, len(data), 2)]

    def send(count: int) -> None:
        whole = b"".join(chunks[:count]) + b"0\r\n\r\n"
        assert receiver.raw(_head(CHUNKED) + b"\r\n" + whole).status == 202

    send(len(chunks) // 20)  # the first request allocates memory that is kept
    before, stored = receiver.resident_kilobytes(), set(_stored(kafka))
    send(len(chunks))
    assert set(_stored(kafka)) - stored == {data}
    assert receiver.resident_kilobytes() - before < 15_000


@pytest.mark.usefixtures("stores_nothing")
def test_too_many_headers_are_431(receiver: Receiver) -> None:
    """The number of headers is limited, complete or not; 200 are taken."""
    many = [f"X-{number}: y" for number in range(300)]
    answer = receiver.raw(_head(*many, LENGTH) + b"\r\n" + DATA)
    assert (answer.status, "256 headers" in answer.error) == (431, True)
    assert receiver.raw(_head(*many)).status == 431
    assert receiver.raw(_head(*many[:200], "Content-Length: 2").replace(b"POST", b"GET") + b"\r\n{}").status == 405


def test_connections_of_an_address(kafka: KafkaConnection) -> None:
    """Where connections per address are limited, further ones get 503, and room comes back."""
    give_address(kafka, NAME)
    with running(kafka, connections_per_address=3) as receiver:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(receiver.connect())
            answer = receiver.send(PATH)
            assert (answer.status, "from this address" in answer.error) == (503, True)
        until(lambda: receiver.send(PATH).status == 202, "room again")


# -- attributes


def _structured(note: str, data: str = "") -> str:
    return f'{{"specversion":"1.0","id":"1","source":"/s","type":"t","note":"{note}","data":"{data}"}}'


@pytest.mark.usefixtures("stores_nothing")
@pytest.mark.parametrize("mode", ["binary", "structured", "batched"])
@pytest.mark.parametrize("note", ["n" * 70_000, "é" * 33_000], ids=["ASCII", "two bytes each"])
def test_a_long_attribute_is_refused_by_name(kafka: KafkaConnection, mode: str, note: str) -> None:
    """An attribute has at most 64 kB in every mode, however it is written; the answer to a longer one names it."""
    with running(kafka, head_limit_bytes=300_000) as receiver:
        answer = _with_note(receiver, mode, note)
        assert answer.status == 400
        assert "'note'" in answer.error
        if mode == "batched":
            assert "event 1 of the batch" in answer.error


@pytest.mark.parametrize("mode", ["binary", "structured", "batched"])
def test_data_never_counts_as_an_attribute(receiver: Receiver, mode: str) -> None:
    """An attribute of 60 kB and data of 500 kB are fine, in every mode."""
    assert _with_note(receiver, mode, "n" * 60_000, "d" * 500_000).status == 202


@pytest.mark.usefixtures("stores_nothing")
def test_a_long_attribute_that_is_a_header_is_named(receiver: Receiver) -> None:
    """By default a header cannot be as long as that; the answer names it all the same."""
    answer = receiver.send(PATH, DATA, ce_note="n" * 70_000)
    assert (answer.status, b"ce-note" in answer.body) == (431, True)


def _with_note(receiver: Receiver, mode: str, note: str, data: str = "") -> Answer:
    if mode == "binary":
        return receiver.send(PATH, data.encode() or DATA, ce_note=note.encode().decode("latin-1"))
    body, form = _structured(note, data), "application/cloudevents+json"
    if mode == "batched":
        body, form = f"[{_structured('short')},{body}]", "application/cloudevents-batch+json"
    return receiver.ask("POST", PATH, body.encode(), {"Content-Type": form})


# -- invalid records in the contract


def test_an_unreadable_record_of_the_contract_keeps_the_address(receiver: Receiver, kafka: KafkaConnection) -> None:
    """A record that cannot be decoded leaves the address as it was, is logged once, and the next one counts."""
    path, topic = give_address(kafka, "junk")
    until(lambda: receiver.send(path).status == 202, "the address")
    key = "Broker/tests/junk"
    for junk in (b"{", b'{"uid":7}', b'{"uid":"u","generation":1,"routes":[{"path":7,"topic":"t"}]}', b"\xff\xfe"):
        logged = len(receiver.log)
        put(kafka.producer(), CONTRACT_TOPIC, key, junk)
        until(partial(_lines, receiver, logged, key), "a line of the log")
        assert receiver.send(path).status == 202
        assert len(_lines(receiver, logged, key)) == 1
    before = count(kafka, topic)
    put(kafka.producer(), CONTRACT_TOPIC, key, None)
    until(lambda: receiver.send(path).status == 404, "the end of the address")
    assert count(kafka, topic) >= before


def _lines(receiver: Receiver, begin: int, key: str) -> list[str]:
    return [line for line in receiver.log[begin:] if key in line and "cannot be read" in line]
