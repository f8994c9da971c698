"""Senders that ask without reading the answers, against a receiver in this process."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from penstock.receiver import answers
from penstock.receiver.accept import Ingress
from penstock.receiver.answers import Answer
from penstock.receiver.connection import Connection
from penstock.receiver.inflight import Inflight
from penstock.receiver.request import Request
from penstock.receiver.settings import ReceiverSettings
from penstock.receiver.site import Site
from penstock.receiver.tally import Tally
from tests.waiting import until

METRICS = b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"
NOBODY = b"GET /%05d HTTP/1.1\r\nHost: h\r\n\r\n"
EVENT = b"POST /events HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n%05d"
LARGE = Answer(200, b"m" * 2_000_000)  # the metrics of a system with many addresses
SOCKET_BYTES = 4_000_000  # more than the kernel takes for a connection that nobody reads


class CountingPath:
    """Answers /events later, and everything else at once."""

    def __init__(self) -> None:
        self.begun = 0
        self.events: list[tuple[bytes, Callable[[Answer], None]]] = []

    def begin(self, request: Request) -> Answer | None:
        self.begun += 1
        if request.path == b"/events":
            return None
        return LARGE if request.path == b"/metrics" else answers.refusal(404, request.path.decode() * 40)

    def accept(self, request: Request, reply: Callable[[Answer], None]) -> None:
        self.events.append((request.body, reply))

    def refused(self, request: Request | None, answer: Answer) -> None:
        pass


class Attacked:
    """A receiver with a path of our own."""

    def __init__(self, **settings: Any) -> None:
        self.path = CountingPath()
        self.site = Site(ReceiverSettings(**settings), cast(Ingress, self.path), Inflight(10_000, 100_000_000))
        self.made: list[Connection] = []
        self.where: tuple[str, int] = ("", 0)

    def connection(self) -> Connection:
        self.made.append(Connection(self.site))
        return self.made[-1]

    async def connect(self, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.where, limit=1024)
        cast(asyncio.ReadTransport, writer.transport).pause_reading()
        writer.write(sent)
        return reader, writer

    @property
    def unread_bytes(self) -> int:
        return sum(each.transport.get_write_buffer_size() for each in self.made if each.transport is not None)


def _play(story: Callable[[Attacked], Awaitable[None]], **settings: Any) -> None:
    async def play() -> None:
        attacked = Attacked(**settings)
        server = await asyncio.get_running_loop().create_server(attacked.connection, "127.0.0.1", 0)
        attacked.where = server.sockets[0].getsockname()
        async with server:
            await story(attacked)
            for each in attacked.made:
                each.abort()
            await _until(lambda: not attacked.site.connections, "the end of the connections")
        assert (attacked.site.backlog.bytes, len(attacked.site.backlog), attacked.site.inflight.bytes) == (0, 0, 0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())


def _is_stopped(attacked: Attacked, number: int) -> bool:
    return len(attacked.made) > number and attacked.made[number]._paused


async def _until(look: Callable[[], object], what: str) -> None:
    await asyncio.to_thread(until, look, what, 20)


async def _bodies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> list[bytes]:
    """The bodies of so many answers, once they are read."""
    cast(asyncio.ReadTransport, writer.transport).resume_reading()
    found = []
    for _ in range(number):
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        found.append(await asyncio.wait_for(reader.readexactly(length), 20))
    return found


def test_large_answers_that_nobody_reads_are_not_sent() -> None:
    """6 kB of requests for metrics make the receiver hold at most two large answers; whoever reads gets all."""

    async def story(attacked: Attacked) -> None:
        reader, writer = await attacked.connect(METRICS * 180)
        await _until(lambda: attacked.site.backlog.bytes, "unread answers")
        assert attacked.unread_bytes < 2 * len(LARGE.open)
        assert attacked.site.backlog.bytes < 3 * len(LARGE.open)
        bodies = await _bodies(reader, writer, 180)
        assert {len(each) for each in bodies} == {2_000_000}
        await _until(lambda: not attacked.site.backlog.bytes, "nothing that is held")

    _play(story)


def test_requests_behind_unread_answers_are_not_parsed() -> None:
    """A sender that reads nothing is not answered further, and gets all answers in order once it reads."""
    number = SOCKET_BYTES // 300 * 4

    async def story(attacked: Attacked) -> None:
        reader, writer = await attacked.connect(b"".join(NOBODY % each for each in range(number)))
        await _until(lambda: len(attacked.site.backlog) == 1, "unread answers")
        assert attacked.path.begun < number
        assert attacked.unread_bytes < 100_000
        bodies = await _bodies(reader, writer, number)
        assert [each[11:16] for each in bodies] == [b"%05d" % each for each in range(number)]

    _play(story)


def test_events_behind_others_wait_for_their_turn() -> None:
    """Of a large read only some events are under way at a time; all of them are taken, in order, byte for byte."""
    number = 3_000

    async def story(attacked: Attacked) -> None:
        _, writer = await attacked.connect(b"".join(EVENT % each for each in range(number)))
        taken: list[bytes] = []
        while len(taken) < number:
            await _until(lambda: attacked.path.events, "events")
            assert len(attacked.path.events) <= 350  # those of a small read
            body, reply = attacked.path.events.pop(0)
            taken.append(body)
            reply(answers.ACCEPTED)
        assert taken == [b"%05d" % each for each in range(number)]
        writer.close()

    _play(story)


def test_unread_answers_of_all_connections_are_limited() -> None:
    """Beyond the limit, the connection whose answers have been unread for longest is closed."""

    async def story(attacked: Attacked) -> None:
        opened = []
        for number in range(25):
            opened.append(await attacked.connect(METRICS * 60))
            await _until(partial(_is_stopped, attacked, number), "unread answers")
            assert attacked.site.backlog.bytes <= 2_500_000
        await _until(lambda: len(attacked.site.connections) < len(opened), "the end of the oldest")
        assert attacked.unread_bytes <= 2_500_000
        assert attacked.made[0] not in attacked.site.connections
        assert attacked.made[-1] in attacked.site.connections

    _play(story, unread_bytes=2_500_000)


def test_who_never_reads_is_disconnected() -> None:
    """A connection with answers that are not read ends after the time for idle ones."""

    async def story(attacked: Attacked) -> None:
        _, writer = await attacked.connect(METRICS * 9)
        await _until(lambda: attacked.site.backlog.bytes, "unread answers")
        attacked.made[0].sweep(asyncio.get_running_loop().time() + 60)
        assert attacked.made[0].waits_since is not None
        assert attacked.made[0] in attacked.site.connections
        attacked.made[0].sweep(asyncio.get_running_loop().time() + 80)
        await _until(lambda: not attacked.site.connections, "the end")
        writer.close()

    _play(story)


def _ingress(tally: Tally) -> Ingress:
    route = SimpleNamespace(path="/t/b", topic="t")
    routes = SimpleNamespace(by_path={b"/t/b": route}, kinds={}, of_host=lambda host: None, are_current=True)
    return Ingress(cast(Any, routes), cast(Any, None), Inflight(1, 1), tally)


def test_metrics_are_made_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often somebody asks, the text is made once in a second, and the same bytes are sent."""
    now, made = [100.0], []
    monkeypatch.setattr("penstock.receiver.accept.monotonic", lambda: now[0])

    class CountingTally(Tally):
        def text(self, kinds: dict[str, str]) -> bytes:
            made.append(now[0])
            return b"%d" % len(made)

    ingress = _ingress(CountingTally())
    for now[0] in (100.0, 100.1, 100.9, 101.1, 101.2):
        assert ingress.begin(Request(b"GET", b"/metrics", [])) is ingress.begin(Request(b"GET", b"/metrics", []))
    assert made == [100.0, 101.1]


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        (b"GET", [(b"k-network-probe", b"probe"), (b"k-network-hash", b"h" * 2000)]),
        (b"OPTIONS", [(b"webhook-request-origin", b"h" * 2000)]),
    ],
)
def test_a_long_header_is_not_sent_back(method: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """Only short headers of a request are sent back, so that waiting answers stay small."""
    answer = _ingress(Tally()).begin(Request(method, b"/t/b", headers))
    assert answer is not None
    assert (answer.status, len(answer.open) < 500) == (400, True)
