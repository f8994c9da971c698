"""A connection alone, with a path that fails: an error that the parser hides becomes an answer and a log line."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest

from penstock.http.heads import MOST_BLANK_BYTES
from penstock.receiver import answers
from penstock.receiver.accept import Ingress
from penstock.receiver.answers import Answer
from penstock.receiver.connection import Connection
from penstock.receiver.inflight import Inflight
from penstock.receiver.request import Request
from penstock.receiver.settings import ReceiverSettings
from penstock.receiver.site import Site
from tests.waiting import until

REQUEST = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"


class FailingIngress:
    """A path that fails at one of its steps."""

    def __init__(self, step: str) -> None:
        self._step = step

    def begin(self, request: Request) -> Answer | None:
        self._fail("begin")
        return None

    def accept(self, request: Request, reply: Callable[[Answer], None]) -> None:
        self._fail("accept")
        reply(answers.ACCEPTED)

    def refused(self, request: Request | None, answer: Answer) -> None:
        pass

    def _fail(self, step: str) -> None:
        if step == self._step:
            raise RuntimeError(f"{step} failed")


def _answer(step: str, request: bytes = REQUEST) -> bytes:
    """What a connection answers to a request."""

    async def story() -> bytes:
        ingress = cast(Ingress, FailingIngress(step))
        site = Site(ReceiverSettings(), ingress, Inflight(10, 1_000_000))
        server = await asyncio.get_running_loop().create_server(lambda: Connection(site), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(request)
            line = await asyncio.wait_for(reader.readline(), 20)
            writer.close()
            await asyncio.to_thread(until, lambda: not site.connections, "the end of the connection")
            assert (site.inflight.bytes, len(site.unfinished), site.unfinished.bytes) == (0, 0, 0)
        return line

    return asyncio.run(story())


@pytest.mark.parametrize("step", ["begin", "accept"])
def test_a_step_that_fails_is_a_logged_500(step: str, caplog: pytest.LogCaptureFixture) -> None:
    """An exception in a step of the path is a 500, and the log has it with its traceback."""
    with caplog.at_level(logging.ERROR):
        assert _answer(step).startswith(b"HTTP/1.1 500 ")
    assert f"RuntimeError: {step} failed" in caplog.text


@pytest.mark.parametrize(
    "callback", ["on_message_begin", "on_url", "on_header", "on_headers_complete", "on_body", "on_message_complete"]
)
def test_a_callback_of_the_parser_that_fails_is_a_logged_500(
    callback: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for everything that the parser calls; only invalid HTTP gets 400."""

    def fail(*_: object) -> None:
        raise RuntimeError("a callback failed")

    monkeypatch.setattr(Connection, callback, fail)
    with caplog.at_level(logging.ERROR):
        assert _answer("").startswith(b"HTTP/1.1 500 ")
    assert "RuntimeError: a callback failed" in caplog.text


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (b"Host: h", b"Host: a, b", b"400"),
        (b"Host: h", b"Host: a b@c", b"400"),
        (b"/x", b"http://other/x", b"400"),
        (b"/x", b"http://h:80/x", b"202"),
        (b"Host: h", b"Host: H.:8080", b"202"),
    ],
)
def test_the_host_of_every_request_is_checked(before: bytes, after: bytes, status: bytes) -> None:
    """A Host with two meanings is 400 also when nothing else in the head is unusual."""
    assert _answer("", REQUEST.replace(before, after)).split()[1] == status


def test_the_host_is_checked_when_it_changes() -> None:
    """After a valid Host, another one in the next request of the connection is checked too."""

    async def story() -> bytes:
        site = Site(ReceiverSettings(), cast(Ingress, FailingIngress("")), Inflight(10, 1_000_000))
        server = await asyncio.get_running_loop().create_server(lambda: Connection(site), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(REQUEST * 2 + REQUEST.replace(b"Host: h", b"Host: h,") + REQUEST)
            answered = await asyncio.wait_for(reader.read(), 20)
            writer.close()
        return answered

    statuses = [line.split()[1] for line in asyncio.run(story()).split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert statuses == [b"202", b"202", b"400"]


class SlowIngress(FailingIngress):
    """A path whose answers never come."""

    def accept(self, request: Request, reply: Callable[[Answer], None]) -> None:
        if request.path == b"/x":
            super().accept(request, reply)


@pytest.mark.parametrize(
    ("first", "status"),
    [(b"", b"202"), (b"POST /x HTTP/1.1\r\nHo", b"202"), (REQUEST.replace(b"/x", b"/slow"), b"503")],
    ids=["silent", "half a head", "waiting for an answer"],
)
def test_connections_that_wait_for_their_sender_give_way(first: bytes, status: bytes) -> None:
    """A client that holds all connections keeps no other out, unless all of them are being answered."""

    async def story() -> bytes:
        site = Site(ReceiverSettings(connection_limit=3), cast(Ingress, SlowIngress("")), Inflight(10, 1_000_000))
        server = await asyncio.get_running_loop().create_server(lambda: Connection(site), "127.0.0.1", 0)
        async with server:
            where = server.sockets[0].getsockname()
            others = [await asyncio.open_connection(*where) for _ in range(3)]
            for _, writer in others:
                writer.write(first)
            await asyncio.to_thread(
                until,
                lambda: len(site.connections) == 3 and all(_has_begun(each, first) for each in site.connections),
                "three",
            )
            reader, writer = await asyncio.open_connection(*where)
            writer.write(REQUEST)
            line = await asyncio.wait_for(reader.readline(), 20)
            if status == b"202":
                assert await asyncio.wait_for(others[0][0].read(), 20) == b""  # the oldest one
                assert len(site.connections) == 3
            for _, sender in [*others, (reader, writer)]:
                sender.close()
            for each in list(site.connections):
                each.abort()  # an answer that is owed would keep it
            await asyncio.to_thread(until, lambda: not site.connections, "the end of the connections")
            assert (len(site.unfinished), site.unfinished.bytes) == (0, 0)
        return line

    assert asyncio.run(story()).split()[1] == status


def test_a_refused_connection_of_an_address_counts_until_it_ends() -> None:
    """Beyond both limits a connection is closed without an answer: it keeps nobody of another address out."""

    async def story() -> list[bytes]:
        settings = ReceiverSettings(connection_limit=2, connections_per_address=1)
        site = Site(settings, cast(Ingress, FailingIngress("")), Inflight(10, 1_000_000))
        async with _serving(site) as where:
            opened = [await asyncio.open_connection(*where) for _ in range(4)]
            opened[0][1].write(REQUEST)
            lines = [await asyncio.wait_for(reader.readline(), 20) for reader, _ in opened]
            for _, writer in opened:
                writer.close()
        return lines

    assert [line[9:12] for line in asyncio.run(story())] == [b"202", b"503", b"", b""]


# -- empty lines before a request


@pytest.mark.parametrize("size", [2, 4_096, 100_000], ids=["line by line", "small reads", "large reads"])
def test_empty_lines_before_a_request_hold_no_bytes(size: int) -> None:
    """Empty lines of a connection that is open are not in inflight.bytes, and more than a few of them are 400."""

    async def story() -> bytes:
        site = Site(ReceiverSettings(), cast(Ingress, FailingIngress("")), Inflight(10, 1_000_000))
        async with _serving(site) as where:
            reader, writer = await asyncio.open_connection(*where)
            for _ in range(MOST_BLANK_BYTES // size + 1):
                assert site.inflight.bytes == 0
                writer.write(b"\r\n" * (size // 2))
                await writer.drain()
            line = await asyncio.wait_for(reader.readline(), 20)
            assert (site.inflight.bytes, len(site.connections)) == (0, 1)
            writer.close()
        return line

    assert asyncio.run(story()).startswith(b"HTTP/1.1 400 ")


def test_a_few_empty_lines_before_each_request_are_skipped() -> None:
    """Some senders end a body with an empty line more: the next request is served, and nothing is held meanwhile."""
    blank = b"\r\n" * (MOST_BLANK_BYTES // 2)

    async def story() -> list[bytes]:
        site = Site(ReceiverSettings(), cast(Ingress, FailingIngress("")), Inflight(10, 1_000_000))
        lines = []
        async with _serving(site) as where:
            reader, writer = await asyncio.open_connection(*where)
            for piece in (blank + REQUEST, blank, REQUEST, REQUEST + blank, blank + REQUEST):
                writer.write(piece)
                if piece == blank:
                    await asyncio.to_thread(until, lambda: _blank_bytes(site) == len(blank), "the empty lines")
                else:
                    lines.append((await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20))[:12])
                assert site.inflight.bytes == 0
            writer.close()
        return lines

    assert asyncio.run(story()) == [b"HTTP/1.1 202"] * 4


def _blank_bytes(site: Site) -> int:
    return next(iter(site.connections))._blank_bytes


@contextlib.asynccontextmanager
async def _serving(site: Site) -> AsyncIterator[tuple[str, int]]:
    """Where to connect to it. All connections have ended afterwards, and nothing is held any more."""
    server = await asyncio.get_running_loop().create_server(lambda: Connection(site), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()
        for each in list(site.connections):
            each.abort()
        await asyncio.to_thread(until, lambda: not site.connections, "the end of the connections")
        assert (site.inflight.bytes, len(site.unfinished), site.unfinished.bytes) == (0, 0, 0)


def _has_begun(connection: Connection, sent: bytes) -> bool:
    return not sent or connection._in_request or bool(connection._slots)
