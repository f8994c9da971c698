"""One HTTP/1.1 connection: bytes in, requests to the path, answers out in the order of the requests.

    data_received ──▶ parser ──▶ head: ingress.begin ──▶ body ──▶ ingress.accept ──▶ slot ──▶ transport

Written on asyncio and httptools directly, since what must hold here has no place in a general server: a head and a
body of bounded size and time, a body that is refused before it is read, bytes that count against the process.
Made by ``serve.py`` for every connection, which also calls ``sweep`` now and then.
"""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from time import time
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

from penstock.receiver import answers
from penstock.receiver.accept import Ingress
from penstock.receiver.answers import Answer
from penstock.receiver.inflight import Inflight
from penstock.receiver.request import Request
from penstock.receiver.settings import ReceiverSettings

logger = logging.getLogger("penstock.receiver")

MOST_PIPELINED = 32
LINGER_SECONDS = 2.0
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass
class Site:
    """What all connections of a process share."""

    settings: ReceiverSettings
    ingress: Ingress
    inflight: Inflight
    connections: "set[Connection]" = field(default_factory=set)
    is_draining: bool = False


class Slot:
    """The place of one answer in the order of a connection's answers."""

    __slots__ = ("answer", "closes", "connection", "held_bytes", "without_body")

    def __init__(self, connection: "Connection", held_bytes: int, closes: bool, without_body: bool) -> None:
        self.connection = connection
        self.held_bytes = held_bytes
        self.closes = closes
        self.without_body = without_body
        self.answer: Answer | None = None

    def fill(self, answer: Answer) -> None:
        """The reply of the path: at any time, also when the sender has gone. Only the first one counts."""
        if self.answer is not None:
            return
        self.answer = answer
        self.connection.site.inflight.bytes -= self.held_bytes
        self.connection.send_answers()


class Connection(asyncio.Protocol):
    """State: between requests, in a head, in a body; or lingering, when what still comes is thrown away."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._parser = HttpRequestParser(self)
        self._slots: deque[Slot] = deque()
        self._head_limit = site.settings.head_limit_bytes
        self._body_limit = site.settings.body_limit_bytes
        self._lingering = False
        self._paused = False
        self._close_when_answered = False
        self._touched = self._loop.time()
        self._received = 0.0  # when the last bytes came, seconds since the epoch
        self._clear()

    def _clear(self) -> None:
        """Ready for the next request."""
        self._in_request = False
        self._request: Request | None = None
        self._refusal: Answer | None = None
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []
        self._head_bytes = 0
        self._body_bytes = 0
        self._held_bytes = 0

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its ancestors
        self.site.connections.add(self)
        if len(self.site.connections) > self.site.settings.connection_limit:
            self._refuse(answers.TOO_MANY_CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.site.connections.discard(self)
        self.site.inflight.bytes -= self._held_bytes  # of a request that will never be complete
        self._held_bytes = 0

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        self._received = time()
        if self._refusal is None:
            self._held_bytes += len(data)
            self.site.inflight.bytes += len(data)
        if self._request is None:
            if not self._in_request:
                self._touched = self._loop.time()
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._close_when_answered = True  # the request counts, what would follow in another protocol does not
            self.send_answers()
        except HttpParserError:
            if not self._lingering:
                self._refuse(answers.MALFORMED)
        if self._head_bytes > self._head_limit and self._request is None and not self._lingering:
            self._refuse_head()
        elif len(self._slots) > MOST_PIPELINED:
            self.pause_writing()

    def eof_received(self) -> bool:
        """The sender may have closed only its own direction: what it sent is still answered."""
        self._close_when_answered = True
        return bool(self._slots)

    def pause_writing(self) -> None:
        """A sender that does not read its answers, or asks faster than it is answered, gets no further."""
        if self.transport is not None and not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.transport is not None and self._paused:
            self._paused = False
            self.transport.resume_reading()

    # -- what the parser calls

    def on_message_begin(self) -> None:
        self._in_request = True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._request is None:  # what comes behind a chunked body is no header of ours
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._lingering:
            return
        request = self._request = Request(self._parser.get_method(), _path(self._url), self._headers)
        # What was received so far may hold the body too: only when it is much, the head is measured.
        if self._head_bytes > self._head_limit and request.head_bytes > self._head_limit:
            self._refuse_head()
            return
        if int(request.header(b"content-length", b"0")) > self._body_limit:
            self._refuse_body()
            return
        self._refusal = self.site.ingress.begin(request)
        if request.header(b"expect").lower() == b"100-continue":
            self._continue()

    def on_body(self, body: bytes) -> None:
        if self._lingering:
            return
        self._body_bytes += len(body)
        if self._body_bytes > self._body_limit:
            self._refuse_body()
        elif self._refusal is None:
            self._chunks.append(body)
            if len(self._chunks) > 1 and self.site.inflight.is_full:
                self._refuse(answers.OVERLOADED)  # large bodies that come slowly fill the memory too

    def on_message_complete(self) -> None:
        request, refusal = self._request, self._refusal
        if self._lingering or request is None:
            return
        slot = Slot(self, self._held_bytes, self._ends_after(request), request.method == b"HEAD")
        self._slots.append(slot)
        request.body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        request.received = self._received
        self._held_bytes = 0
        self._clear()
        if refusal is not None:
            self.site.ingress.refused(request, refusal)
            slot.fill(refusal)
            return
        try:
            self.site.ingress.accept(request, slot.fill)
        except Exception:
            logger.exception("a request failed")
            self.site.ingress.refused(request, answers.FAILED)
            slot.fill(answers.FAILED)

    def _ends_after(self, request: Request) -> bool:
        """Whether the sender wants no further request answered. HTTP/1.0 could ask for that; it is not worth it."""
        if not self._parser.should_keep_alive():
            return True
        return request.header(b"connection") != b"" and self._parser.get_http_version() == "1.0"

    # -- answers

    def send_answers(self) -> None:
        """Sends what is answered, up to the first request that is not."""
        slots, transport = self._slots, self.transport
        while slots and slots[0].answer is not None:
            slot = slots.popleft()
            answer = slot.answer
            if transport is None or answer is None:
                continue
            self._touched = self._loop.time()
            closes = slot.closes or self.site.is_draining
            if slot.without_body:
                transport.write(answer.encoded(close=closes, without_body=True))
            else:
                transport.write(answer.closing if closes else answer.open)
            if closes:
                self._close_when_answered = True
                slots.clear()
        if not slots and transport is not None:
            if self._close_when_answered:
                self._linger()
            elif self._paused and transport.get_write_buffer_size() == 0:
                self.resume_writing()

    def _continue(self) -> None:
        if self._refusal is not None:
            self._refuse(self._refusal)  # before the body is sent at all
        elif self.transport is not None and not self._slots:
            self.transport.write(CONTINUE)

    def _refuse_head(self) -> None:
        self._refuse(answers.refusal(431, f"the head of the request is larger than {self._head_limit} bytes"))

    def _refuse_body(self) -> None:
        self._refuse(answers.refusal(413, f"the body is larger than {self._body_limit} bytes"))

    def _refuse(self, answer: Answer) -> None:
        """An answer in the middle of a request. What still comes of it is not read, so the connection ends."""
        self.site.ingress.refused(self._request, answer)
        slot = Slot(self, self._held_bytes, True, False)
        self._slots.append(slot)
        self._lingering = True
        self._clear()
        slot.fill(answer)

    def _linger(self) -> None:
        """Closes so that the answer arrives: a socket closed with unread bytes resets the connection instead."""
        self._lingering = True
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
        self.resume_writing()
        self._loop.call_later(LINGER_SECONDS, transport.abort)

    # -- time

    def sweep(self, now: float) -> None:
        """Ends what takes too long. A request that waits for Kafka is not among that: Kafka has its own limit."""
        waited = now - self._touched
        if self._lingering or self._slots:
            return
        if self._in_request:
            if waited > self.site.settings.read_timeout_seconds:
                self._refuse(answers.TIMED_OUT)
        elif waited > self.site.settings.idle_timeout_seconds:
            self.close_if_idle()

    def close_if_idle(self) -> None:
        if not self._in_request and not self._slots and not self._lingering:
            self._linger()


def _path(url: bytes) -> bytes:
    """The path of a request's target, which proxies may send as a whole URL."""
    if not url.startswith(b"/"):
        try:
            return bytes(parse_url(url).path or b"/")
        except HttpParserError:
            return url
    return url.partition(b"?")[0] if b"?" in url else url
