"""One HTTP/1.1 connection: bytes in, requests to the path, answers out in the order of the requests.

    data_received ──▶ parser ──▶ head: ingress.begin ──▶ body ──▶ ingress.accept ──▶ slot ──▶ transport

Written on asyncio and httptools directly, since what must hold here has no place in a general server: a head and a
body of bounded size and time, a body that is refused before it is read, bytes that count against the process.
A request for an upgrade to another protocol is served without the upgrade.
Made by ``serve.py`` for every connection, which also calls ``sweep`` now and then.
"""

import asyncio
import logging
from time import time
from typing import cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from penstock.http.heads import MOST_BLANK_BYTES, blank_bytes
from penstock.receiver import answers
from penstock.receiver.answers import Answer
from penstock.receiver.heads import HOST, TRACESTATE, flaw
from penstock.receiver.inflight import HEADER_OVERHEAD_BYTES
from penstock.receiver.request import Request, framing_again, path_of, slice_end
from penstock.receiver.sending import MOST_PIPELINED, UNREAD_BYTES, Sender, Slot
from penstock.receiver.site import Site

logger = logging.getLogger("penstock.receiver")

SMALL_BYTES = 16 * 1024  # a larger read is cut into slices, between which parsing can stop
MOST_IN_A_TURN = 64  # slices of a large read, before other connections get their turn
MOST_FRAMING_PER_BYTE = 8  # a chunk of one byte comes with five bytes of framing
SLASH = ord("/")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(Sender):
    """State: between requests, in a head, in a body; or lingering, when what still comes is thrown away."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._parser = HttpRequestParser(self)
        self._address = ""  # of the sender
        self._head_limit = site.settings.head_limit_bytes
        self._header_limit = site.settings.header_limit
        self._body_limit = site.settings.body_limit_bytes
        self._received = 0.0  # when the last bytes came, seconds since the epoch
        self._is_unfinished = False  # whether a part of a request is held, as site.unfinished knows
        self._size = 0
        self._blank_bytes = 0  # of empty lines since the last request
        self._host: bytes | None = None  # of the last request; the next one usually has the same
        self._clear()

    def _clear(self) -> None:
        """Ready for the next request."""
        self._in_request = False
        self._request: Request | None = None
        self._refusal: Answer | None = None
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._closes = False
        self._body: bytes | bytearray = b""
        # The bytes of the request. One that began within the last piece counts all of it, so this is never too small.
        self._bytes = self._foreign_bytes = self._size
        self._body_bytes = 0
        self._held_bytes = 0
        if self._is_unfinished:
            self._is_unfinished = False
            self.site.unfinished.release(self)

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its ancestors
        peer = transport.get_extra_info("peername")  # none if the sender has disconnected already
        self._address = peer[0] if peer else ""
        self.transport.set_write_buffer_limits(UNREAD_BYTES)
        refusal = self.site.enter(self, self._address)
        if refusal is not None:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.site.leave(self, self._address)
        self.site.inflight.bytes -= self._held_bytes  # of a request that will never be complete
        self.site.backlog.release(self)
        self._lingering = True
        self._is_unread = False
        self._rest = b""
        self._clear()
        self._parser = None  # it refers to this connection: both would wait for the garbage collector
        self.send_answers()  # empties the slots, which refer to it too

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        self._received = time()
        if len(data) <= SMALL_BYTES:
            self._take(data)
        else:
            self._rest = data
            self._take_rest()
        if self._in_request:
            self._hold()
        if len(self._slots) > MOST_PIPELINED:
            self._stop()

    def _take(self, data: bytes | memoryview) -> None:
        self._size = size = len(data)
        if self._in_request:
            self._bytes += size
        else:
            self._bytes, self._foreign_bytes = size, 0
            self._blank_bytes += blank_bytes(data)
            if self._blank_bytes > MOST_BLANK_BYTES:
                self._refuse(answers.TOO_MANY_EMPTY_LINES)
                return
        if self._refusal is None:
            self._held_bytes += size
            self.site.inflight.bytes += size
        self._parse(data)
        if not self._in_request:  # only empty lines have come since the last request
            self.site.inflight.bytes -= self._held_bytes
            self._held_bytes = 0

    def _take_rest(self) -> None:
        """Parses what is kept of a read, as long as there is room for the answers."""
        data, begin, turns = self._rest, 0, MOST_IN_A_TURN
        view = memoryview(data)
        self._is_parsing = True
        while begin < len(data) and not self._lingering:
            if not self._in_request and (self._is_blocked or turns <= 0):
                break
            end = slice_end(data, begin, self._request, self._body_bytes)
            self._take(view[begin:end])
            begin = end
            turns -= 1
        self._is_parsing = False
        self._rest = b"" if self._lingering else data[begin:]
        if self._rest or self._is_blocked:
            self._stop()
            if not self._is_blocked:
                self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._is_parsing or self._lingering or self._is_blocked:
            return
        if self._rest:
            self._take_rest()
            if self._in_request:
                self._hold()
        if not (self._rest or self._is_blocked or self._lingering):
            self._read_again()

    def _parse(self, data: bytes | memoryview) -> None:
        pieces: list[bytes | memoryview] = [data]  # the next one last
        try:
            while pieces and not self._lingering:
                piece = pieces.pop()
                try:
                    self._parser.feed_data(piece)
                except HttpParserUpgrade as upgrade:
                    pieces += [memoryview(piece)[upgrade.args[0] :], self._framing_again()]
        except HttpParserCallbackError as error:
            logger.error("a request failed", exc_info=error.__context__ or error)
            if not self._lingering:
                self._refuse(answers.FAILED)
        except HttpParserError:
            if not self._lingering:
                is_http2 = self._parser.get_method() == b"PRI"
                self._refuse(answers.NO_HTTP_2 if is_http2 else answers.MALFORMED)

    def _framing_again(self) -> bytes:
        """Behind the head of a request that asks for an upgrade, which a server may ignore.

        The parser stops there, as if the other protocol began. So a new parser gets the part of the head with the
        length of the body, and goes on with the body.
        """
        request = self._request
        if request is None:  # CONNECT: it is answered, and has no body
            self._close_when_answered = self._lingering = True
            self.send_answers()
            return b""
        self._parser = HttpRequestParser(self)
        return framing_again(request, closes=self._closes)

    def _hold(self) -> None:
        """Called if the request is not complete yet. Checks what it holds, alone and together with all others."""
        own_bytes = self._bytes - self._foreign_bytes
        if self._request is None:
            if own_bytes > self._head_limit or len(self._headers) > self._header_limit:
                self._refuse_head()
                return
        elif own_bytes > 2 * self._head_limit + (1 + MOST_FRAMING_PER_BYTE) * self._body_bytes:
            self._refuse(answers.refusal(413, "the body has too much framing: chunk sizes or trailers"))
            return
        self._is_unfinished = True
        self.site.unfinished.hold(self, self._bytes + HEADER_OVERHEAD_BYTES * len(self._headers))

    def give_way(self) -> None:
        """Other requests need the memory that this incomplete request holds."""
        self._is_unfinished = False
        self._refuse(answers.TOO_SLOW)

    def eof_received(self) -> bool:
        """The sender may have closed only its own direction: what it sent is still answered."""
        self._close_when_answered = True
        return bool(self._slots)

    # -- what the parser calls

    def on_message_begin(self) -> None:
        if not self._in_request:
            self._in_request = True
            self._blank_bytes = 0
            self._touched = self._loop.time()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._request is None:  # what comes behind a chunked body is no header of ours
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._lingering or self._request is not None:  # the latter: see _framing_again
            return
        headers, parser = self._headers, self._parser
        request = self._request = Request(parser.get_method(), path_of(self._url), headers)
        # What was received so far may hold the body too: only when it is much, the head is measured.
        if len(headers) > self._header_limit or (
            self._bytes > self._head_limit and request.head_bytes > self._head_limit
        ):
            self._refuse_head()
            return
        by_name = request.by_name
        host = by_name.get(b"host")
        self._closes = not parser.should_keep_alive()
        if (
            self._closes  # also because it is not HTTP/1.1
            or b"connection" in by_name
            or b"transfer-encoding" in by_name
            or b"te" in by_name
            or host is None
            or (host != self._host and not HOST.fullmatch(host))
            or self._url[0] != SLASH
            or len(by_name) != len(headers)
        ) and self._refuse_flaw(request):
            return
        self._host = host
        if int(by_name.get(b"content-length", b"0")) > self._body_limit:
            self._refuse_body()
            return
        self._refusal = self.site.ingress.begin(request)
        if b"expect" in by_name and by_name[b"expect"].lower() == b"100-continue":
            self._continue()

    def _refuse_flaw(self, request: Request) -> bool:
        version = self._parser.get_http_version()
        found = flaw(version, request.by_name, request.headers, self._url)
        if found is not None:
            self._refuse(answers.refusal(400, found))
            return True
        if len(request.by_name) != len(request.headers) and TRACESTATE in request.by_name:
            lines = [value for name, value in request.headers if name == TRACESTATE]
            request.by_name[TRACESTATE] = b",".join(lines)
        if version == "1.0":
            self._closes = True  # keep-alive in HTTP/1.0 is not supported
        return False

    def on_body(self, body: bytes) -> None:
        if self._lingering:
            return
        self._body_bytes += len(body)
        if self._body_bytes > self._body_limit:
            self._refuse_body()
        elif self._refusal is None:
            if not self._body:
                self._body = body
                return
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body  # one piece of memory, however small the chunks are
            if self.site.inflight.is_full:
                self._refuse(answers.OVERLOADED)  # large bodies that come slowly fill the memory too

    def on_message_complete(self) -> None:
        request, refusal = self._request, self._refusal
        if self._lingering or request is None:
            return
        if self._parser.should_upgrade() and request.method != b"CONNECT":
            return  # its body follows, see _framing_again
        slot = Slot(self, self._held_bytes, self._closes, request.method == b"HEAD")
        self._slots.append(slot)
        request.body = bytes(self._body)  # the same object if it is bytes already
        request.received = self._received
        request.size_bytes = self._bytes
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

    # -- answers

    def _continue(self) -> None:
        if self._refusal is not None:
            self._refuse(self._refusal)  # before the body is sent at all
        elif self.transport is not None and not self._slots:
            self.transport.write(CONTINUE)

    def _refuse_head(self) -> None:
        self._refuse(answers.head_too_large(self._headers, self._header_limit, self._head_limit))

    def _refuse_body(self) -> None:
        self._refuse(answers.refusal(413, f"the body is larger than {self._body_limit} bytes"))

    def _refuse(self, answer: Answer) -> None:
        """An answer in the middle of a request. What still comes of it is not read, so the connection ends."""
        self.site.ingress.refused(self._request, answer)
        slot = Slot(self, self._held_bytes, True, False)
        self._slots.append(slot)
        self._lingering = True
        self._clear()
        self._parser = None  # frees the part of a header that it holds
        slot.fill(answer)

    # -- time

    def sweep(self, now: float) -> None:
        """Ends what takes too long. A request that waits for Kafka is not among that: Kafka has its own limit."""
        waited = now - self._touched
        if self._paused:
            self._stop()  # reports what is held now
        if self._has_unread_answers:
            if waited > self.site.settings.idle_timeout_seconds:
                self.abort()
            return
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
