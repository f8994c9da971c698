"""Promises of a guarded port: time limits of requests, connections and answers; streams go on."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from penstock.errors import Misconfigured
from penstock.http.heads import MOST_BLANK_BYTES
from penstock.http.limits import Limits
from penstock.http.server import ServerThread, listen
from penstock.http.streams import ClosedStream
from tests.attacks.raw import Wire, ask, wire
from tests.waiting import until

HOST = b"Host: here\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
# Long enough that a busy machine, on which client and server share one Python, does not run into them by chance.
QUICK = Limits(head_seconds=2.0, request_seconds=2.5, idle_seconds=2.0, unread_seconds=2.0)


@dataclass
class Pages:
    """An application, and what it has done."""

    asked: int = 0
    streamed: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    async def index(self, request: Request) -> Response:
        self.asked += 1
        return PlainTextResponse(f"{len(await request.body())}")

    async def slow(self, _request: Request) -> Response:
        await asyncio.sleep(6.0)
        return PlainTextResponse("slow")

    async def large(self, _request: Request) -> Response:
        self.asked += 1
        return Response(b"x" * 50_000_000)

    async def ticks(self, _request: Request) -> Response:
        return ClosedStream(self._ticks(0.1, b"tick\n"))

    async def flood(self, _request: Request) -> Response:
        return ClosedStream(self._ticks(0.0, b"x" * 10_000))

    async def _ticks(self, seconds: float, tick: bytes) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                self.streamed += len(tick)
                yield tick
                await asyncio.sleep(seconds)
        finally:
            self.ended.set()


@dataclass(frozen=True)
class Served:
    port: int
    pages: Pages
    server: ServerThread

    @property
    def connections(self) -> int:
        return len(self.server._server.guard._connections)


@contextmanager
def serving(limits: Limits) -> Iterator[Served]:
    pages = Pages()
    routes = [
        Route("/", pages.index, methods=["GET", "POST"]),
        *(Route(f"/{page.__name__}", page) for page in (pages.slow, pages.large, pages.ticks, pages.flood)),
    ]
    server = ServerThread(Starlette(routes=routes), limits, listen("127.0.0.1", 0, "a test")).start()
    try:
        yield Served(server.port, pages, server)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def quick() -> Iterator[Served]:
    with serving(QUICK) as served:
        yield served


@pytest.mark.parametrize(
    ("sent", "trickle"),
    [(b"GET / HT", b""), (b"GET / HTTP/1.1\r\n", b"a: b\r\n"), (POST + b"Content-Length: 100\r\n\r\n", b"x")],
    ids=["half a line", "a header now and then", "a byte of a body now and then"],
)
def test_a_request_that_takes_too_long_gets_408(quick: Served, sent: bytes, trickle: bytes) -> None:
    """Kept promise: the time of a request counts from its first byte, however much comes meanwhile."""
    with wire(quick.port) as caller:
        caller.send(sent)
        ended = threading.Event()

        def drip() -> None:
            while trickle and not ended.wait(0.1):
                caller.try_to_send(trickle)

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert caller.answer().status == 408
        finally:
            ended.set()
            dripping.join()
        assert caller.is_closed()


@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n\r\n", GET], ids=["nothing", "empty lines", "a request"])
def test_an_idle_connection_is_closed(quick: Served, sent: bytes) -> None:
    """Kept promise: a connection without requests does not stay."""
    with wire(quick.port) as caller:
        caller.send(sent)
        if sent == GET:
            assert caller.answer().status == 200
        assert caller.is_closed()
    until(lambda: quick.connections == 0, "closed connections")


@pytest.mark.parametrize("path", [b"/slow", b"/ticks"])
def test_an_answer_may_take_as_long_as_it_wants(quick: Served, path: bytes) -> None:
    """Kept promise: no timeout cuts a stream or an answer that is being made."""
    with wire(quick.port) as caller:
        caller.send(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
        if path == b"/slow":
            assert caller.answer().body == b"slow"
        else:
            assert caller.head() == 200
            lines = [caller.line() for _ in range(180)]  # 60 ticks in chunks: 6 s, more than twice every limit
            assert lines.count(b"tick\n") == 60


def test_a_stream_ends_with_its_reader(quick: Served) -> None:
    """Kept promise: the work for a caller that has disconnected ends."""
    quick.pages.ended.clear()
    with wire(quick.port) as caller:
        assert caller.send(b"GET /ticks HTTP/1.1\r\n" + HOST + b"\r\n").head() == 200
    assert quick.pages.ended.wait(20)


def test_a_stream_waits_for_its_reader(quick: Served) -> None:
    """Kept promise: while a reader does not read, nothing is made or kept for it, and it may go on later."""
    quick.pages.streamed = 0
    with wire(quick.port) as caller:
        assert caller.send(b"GET /flood HTTP/1.1\r\n" + HOST + b"\r\n").head() == 200
        seen = -1

        def is_still() -> bool:
            nonlocal seen
            before, seen = seen, quick.pages.streamed
            return before == seen and not threading.Event().wait(0.3) and seen == quick.pages.streamed

        until(is_still, "a stream that waits")
        assert seen < 20_000_000  # what the kernel takes, and a little of ours
        for _ in range(10_000):
            caller.line()
        until(lambda: quick.pages.streamed > seen, "a stream that goes on")


def test_unread_answers_are_dropped(quick: Served) -> None:
    """Kept promise: a whole answer does not wait in memory for ever."""
    with wire(quick.port) as caller:
        before = quick.pages.asked
        caller.send(b"GET /large HTTP/1.1\r\n" + HOST + b"\r\n")
        until(lambda: quick.pages.asked > before, "the request")
        until(lambda: quick.connections == 0, "the end of its connection")


def test_unread_answers_of_all_are_bounded() -> None:
    """Kept promise: ten callers that read nothing of 50 MB each hold no 500 MB."""
    with serving(Limits(unread_bytes=60_000_000)) as served:
        silent = [Wire(served.port).send(b"GET /large HTTP/1.1\r\n" + HOST + b"\r\n") for _ in range(10)]
        try:
            until(lambda: served.pages.asked == 10, "all requests")
            until(lambda: served.connections <= 1, "all but one dropped")
            assert ask(served.port, GET).status == 200
        finally:
            for each in silent:
                each.close()


def test_an_idle_connection_gives_way_to_a_new_one() -> None:
    """Kept promise: beyond the limit the connection that has waited longest is closed, never one that is served."""
    with serving(Limits(connections=5)) as served, wire(served.port) as reader:
        assert reader.send(b"GET /ticks HTTP/1.1\r\n" + HOST + b"\r\n").head() == 200
        idle = [Wire(served.port).send(b"GET / HT" * (number % 2)) for number in range(50)]
        assert ask(served.port, GET).status == 200
        assert idle[0].is_closed()
        assert served.connections <= 5
        for _ in range(9):
            assert reader.line()
        for each in idle:
            each.close()


def test_when_everybody_is_served_the_next_one_gets_503() -> None:
    """Kept promise: a request that is being served is not ended for a new connection, which gets 503."""
    with serving(Limits(connections=3)) as served:
        readers = [Wire(served.port).send(b"GET /ticks HTTP/1.1\r\n" + HOST + b"\r\n") for _ in range(3)]
        assert [each.head() for each in readers] == [200] * 3
        with wire(served.port) as late:
            assert late.answer().status == 503
        for each in readers:
            each.close()
        until(lambda: _answers(served), "room again")


def test_a_limit_for_each_address() -> None:
    """Kept promise: where it is set, one address does not take all connections."""
    with serving(Limits(connections_per_address=2)) as served:
        with wire(served.port), wire(served.port) as second, wire(served.port) as third:
            assert third.answer().status == 503
            assert second.send(GET).answer().status == 200
        until(lambda: _answers(served), "room again")


def test_unfinished_requests_of_all_are_bounded() -> None:
    """Kept promise: beyond the limit the oldest unfinished request is closed, and the newest is served."""
    with serving(Limits(unfinished_bytes=300_000, body_bytes=200_000)) as served:
        held = []
        for number in range(10):
            held.append(Wire(served.port).send(POST + b"Content-Length: 100000\r\n\r\n" + b"x" * 60_000))
            least = 60_000 * min(number + 1, 4)
            until(partial(_holds, served, least), "its bytes")
        assert held[0].is_closed()
        with wire(served.port) as newest:
            answer = newest.send(POST + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000).answer()
            assert answer.body == b"100000"
        until(lambda: served.server._server.guard._held_bytes <= 300_000, "bytes within the limit")
        for each in held:
            each.close()
        until(lambda: served.server._server.guard._held_bytes == 0, "nothing held")


def test_empty_lines_before_a_request_are_few() -> None:
    """Kept promise: a few empty lines before a request are skipped; more are 400, however they come."""
    blank = b"\r\n" * (MOST_BLANK_BYTES // 2)
    with serving(Limits()) as served, wire(served.port) as patient, wire(served.port) as caller:
        for _ in range(2):
            assert patient.send(blank + GET).answer().status == 200
        for _ in range(MOST_BLANK_BYTES // 2 + 1):
            caller.try_to_send(b"\r\n")
        assert caller.answer().status == 400
        assert caller.is_closed()
        assert ask(served.port, b"\r\n" * 50_000 + GET).status == 400


def test_pipelined_requests_are_answered_in_order_and_not_without_end() -> None:
    """Kept promise: several requests at once get their answers in order; thousands at once do not pile up."""
    with serving(Limits()) as served:
        with wire(served.port) as caller:
            bodies = [b"x" * number for number in range(5)]
            caller.send(b"".join(POST + b"Content-Length: %d\r\n\r\n%s" % (len(each), each) for each in bodies))
            assert [caller.answer().body for _ in bodies] == [b"0", b"1", b"2", b"3", b"4"]
        with wire(served.port) as caller:
            caller.try_to_send(GET * 5000)
            answered = 0
            try:
                while caller.answer().status == 200:
                    answered += 1
            except (EOFError, ConnectionError):
                pass
            assert answered < 50


@pytest.mark.parametrize(
    "last", [GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), b"GET / HTTP/1.0\r\n\r\n"]
)
def test_nothing_is_run_after_the_last_request(last: bytes) -> None:
    """Kept promise: after a request with Connection: close nothing more is read."""
    with serving(Limits()) as served, wire(served.port) as caller:
        assert caller.send(last + GET).answer().body == b"0"
        assert caller.is_closed()
        assert served.pages.asked == 1


def test_a_caller_may_ask_before_it_sends_a_body() -> None:
    """Kept promise: 100 when the body is wanted; when it is too large the refusal comes before the body."""
    expects = POST + b"Expect: 100-continue\r\nContent-Length: "
    with serving(Limits(body_bytes=1000)) as served:
        with wire(served.port) as caller:
            assert caller.send(expects + b"5\r\n\r\n").head() == 100
            assert caller.send(b"12345").answer().body == b"5"
        assert ask(served.port, expects + b"5000\r\n\r\n").status == 413


def test_trailers_are_no_headers() -> None:
    """Kept promise: trailers after a body do not count as headers of the request."""
    seen: list[str | None] = []

    async def look(request: Request) -> Response:
        await request.body()
        seen.append(request.headers.get("authorization"))
        return PlainTextResponse("ok")

    app = Starlette(routes=[Route("/", look, methods=["POST"])])
    server = ServerThread(app, Limits(), listen("127.0.0.1", 0, "a test")).start()
    try:
        body = b"1\r\nx\r\n0\r\nAuthorization: Bearer stolen\r\n\r\n"
        assert ask(server.port, POST + b"Transfer-Encoding: chunked\r\n\r\n" + body).status == 200
        assert seen == [None]
    finally:
        server.stop()


def test_readers_whose_machine_is_gone_are_noticed() -> None:
    """Kept promise: the kernel probes silent connections, so a dead one does not stay for ever."""
    with listen("127.0.0.1", 0, "a test") as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


def test_a_port_that_is_taken() -> None:
    """Kept promise: a port in use is reported as such, or replaced by another one if any will do."""
    with serving(Limits()) as served:
        with pytest.raises(Misconfigured, match="a test cannot listen"):
            listen("127.0.0.1", served.port, "a test")
        moved = listen("127.0.0.1", served.port, "a test", may_move=True)
        assert moved.getsockname()[1] != served.port
        moved.close()


def _holds(served: Served, least: int) -> bool:
    return served.server._server.guard._held_bytes >= least


def _answers(served: Served) -> bool:
    try:
        return ask(served.port, GET).status == 200
    except (EOFError, OSError):
        return False
