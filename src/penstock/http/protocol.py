"""One connection of a guarded port: uvicorn's own, with limits; malformed requests are refused.

    data_received ──▶ slices ──▶ parser ──▶ head: heads.body_length ──▶ uvicorn ──▶ the application
                        └──────────┴─ Refused: answered here, and nothing after it is read

uvicorn limits neither heads nor bodies nor the time they take. It is pinned; ``tests/http`` runs the real thing.
Made by ``server`` for every connection.
"""

import asyncio
import json
import logging
from typing import Any, cast

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from penstock.http.guard import Guard
from penstock.http.heads import MOST_BLANK_BYTES, Refused, blank_bytes, body_length, head_too_large, too_large

logger = logging.getLogger("penstock.http")

SLICE_BYTES = 4096  # the parser does not report positions, so bytes are counted in steps of this size
MOST_PIPELINED = 8
LINGER_SECONDS = 2.0


class GuardedConnection(HttpToolsProtocol):
    """A request is *open* from its first byte to the end of its body."""

    def __init__(self, guard: Guard, config: Config, server_state: ServerState, **others: Any) -> None:
        super().__init__(config, server_state, **others)
        self.address = ""
        self._guard = guard
        self._limits = guard.limits
        self._is_over = False  # what still comes is thrown away
        self._is_open = False
        self._is_head = False
        self._is_resuming = False  # the parser reads a head that we have made
        self._ends_after = False  # the caller sends nothing after this request
        self._began = self._idle_since = self.loop.time()
        self._slice_bytes = 0
        self._blank_bytes = 0  # of empty lines since the last request
        self._head_bytes = 0
        self._body_bytes = 0
        self._silent_bytes = 0  # bytes since the parser last reported a part of a body
        self._body_length: int | None = 0
        self._unread = (0, 0.0)  # so many unread bytes of an answer, and since when

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self.address = self.client[0] if self.client else ""
        try:
            self._guard.opened(self, self.loop.time())
        except Refused as refused:
            self._is_over = True
            self.transport.write(_answer(refused))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._guard.closed(self)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), SLICE_BYTES):
            if self._is_over or self._ends_after:
                return
            try:
                self._feed(data[start : start + SLICE_BYTES])
            except Refused as refused:
                self._refuse(refused)

    def _feed(self, data: bytes) -> None:
        self._slice_bytes = len(data)
        if self._is_open:
            self._grow(len(data))
        else:
            self._blank_bytes += blank_bytes(data)
            if self._blank_bytes > MOST_BLANK_BYTES:
                raise Refused(400, "there are too many empty lines before the request")
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._resume()
            rest = data[upgrade.args[0] :]
            if rest and not self._ends_after:
                self._feed(rest)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            if not isinstance(cause, Refused | ValueError | httptools.HttpParserError):
                logger.error("a request could not be read", exc_info=cause)
            raise cause if isinstance(cause, Refused) else Refused(400, "this is not an HTTP/1.1 request") from None
        except httptools.HttpParserError as error:
            raise Refused(400, f"this is not an HTTP/1.1 request: {error}") from None

    def _grow(self, count: int) -> None:
        self._guard.grew(self, count)
        if self._is_head:
            self._head_bytes += count
        else:
            self._silent_bytes += count
        if max(self._head_bytes, self._silent_bytes) > self._limits.head_bytes:
            raise head_too_large(self._limits)

    def _resume(self) -> None:
        """The caller asks for another protocol: it does not get it, and the body is read as usual.

        The parser stops there, so another one goes on, after a head with the length of the body.
        """
        length = self._body_length
        framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        if length != 0:
            self._is_resuming = True
            self.parser.feed_data(f"POST / HTTP/1.1\r\nhost: -\r\n{framing}\r\n\r\n".encode())
            self._is_resuming = False

    # -- what the parser calls

    def on_message_begin(self) -> None:
        if self._is_resuming:
            return
        if self._ends_after:
            raise Refused(400, "the previous request was the last one of this connection")
        if len(self.pipeline) >= MOST_PIPELINED:
            raise Refused(400, f"more than {MOST_PIPELINED} requests wait for their answers")
        super().on_message_begin()
        self._unset_keepalive_if_required()
        self._is_open = self._is_head = True
        self._head_bytes = self._body_bytes = self._silent_bytes = self._blank_bytes = 0
        self._began = self.loop.time()
        self._guard.began(self, self._began)
        self._grow(self._slice_bytes)

    def on_url(self, url: bytes) -> None:
        if not self._is_resuming:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers after a chunked body are not headers for us."""
        if not self._is_head or self._is_resuming:
            return
        super().on_header(name, value)
        if len(self.headers) > self._limits.headers:
            raise head_too_large(self._limits)

    def on_headers_complete(self) -> None:
        if self._is_resuming:
            return
        self._body_length = body_length(self.parser.get_http_version(), self.headers, self._limits)
        super().on_headers_complete()
        self._is_head = False

    def on_chunk_header(self) -> None:
        self._silent_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._silent_bytes = 0
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            raise too_large(self._limits)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade() and self._body_length != 0:
            return  # the parser calls this too early: the body is still to come
        super().on_message_complete()
        self._is_open = False
        self._ends_after = not self.cycle.keep_alive
        self._guard.whole(self)
        self._rest()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._rest()

    def _rest(self) -> None:
        """Idle from now on, if nothing is left to be read or answered."""
        if not self._is_open and self.cycle.response_complete and not self.pipeline:
            self._idle_since = self.loop.time()
            self._guard.idle(self, self._idle_since)

    # -- the end

    def _refuse(self, refused: Refused) -> None:
        logger.debug("refused: %s", refused.message)
        self._is_over = True
        self._guard.whole(self)
        cycle = self.cycle
        is_asked = cycle is not None and not cycle.response_complete
        if is_asked and (self._is_head or not self._is_open):
            cycle.keep_alive = False  # an earlier request is being answered; the connection ends with that
            return
        if is_asked and (cycle.response_started or self.pipeline):
            self.abort()
            return
        if is_asked:
            cycle.disconnected = True  # the application has not answered yet, and its answer will be dropped
            cycle.waiting_for_100_continue = False
            cycle.message_event.set()
        if not (self._is_open and not self._is_head and cycle is not None and cycle.response_complete):
            self.transport.write(_answer(refused))
        self._linger()

    def _linger(self) -> None:
        """Closes so that the answer arrives: a socket closed with unread bytes resets the connection instead."""
        self._is_over = True
        self._unset_keepalive_if_required()
        self._guard.idle(self, self.loop.time())
        if self.transport.is_closing():
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.abort)

    def abort(self) -> None:
        self._is_over = True
        if self.transport is not None:
            self.transport.abort()

    # -- time

    def sweep(self, now: float) -> None:
        """Ends what takes too long. An answer that is not complete yet has no time limit."""
        if self._is_open and not self._is_over:
            seconds = self._limits.head_seconds if self._is_head else self._limits.request_seconds
            if now - self._began > seconds:
                self._refuse(Refused(408, f"the request was not complete after {seconds:g} s"))
        if self.cycle is not None and not self.cycle.response_complete:
            return
        unread, since = self._unread
        if self.unread_bytes() != unread or not unread:
            self._unread = (self.unread_bytes(), now)
        elif now - since > self._limits.unread_seconds:
            self.abort()
        if not self._is_open and not self._is_over and now - self._idle_since > self._limits.idle_seconds:
            self._linger()

    def unread_bytes(self) -> int:
        """The bytes of answers that the caller has not read, beyond those in the kernel."""
        return int(self.transport.get_write_buffer_size())


def _answer(refused: Refused) -> bytes:
    body = json.dumps({"error": refused.message, "problems": [], "hint": None}).encode()
    retry = b"retry-after: 1\r\n" if refused.status == 503 else b""
    head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n" % len(body)
    return STATUS_LINE[refused.status] + head + retry + b"\r\n" + body
