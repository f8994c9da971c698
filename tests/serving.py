"""What the servers of the tests share: an event loop in a thread, and HTTP/1.1 requests taken apart."""

import asyncio
import threading
from typing import Any, Self

import httptools


class Serving:
    """Listens on a free port of loopback from ``start`` to ``stop``."""

    def __init__(self) -> None:
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=type(self).__name__, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def listen(self) -> asyncio.Server:
        """Begins to listen, on port 0."""
        raise NotImplementedError

    async def end(self) -> None:
        """What is left to do when it has stopped."""

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(self.listen())
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            self._loop.run_until_complete(self.end())


class HttpConnection(asyncio.Protocol):
    """One keep-alive connection; ``on_message_complete`` finds the request in ``url``, ``headers`` and ``body``."""

    def __init__(self) -> None:
        self.parser: Any = httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_message_begin(self) -> None:
        self.url, self.headers, self.body = b"", dict[str, str](), bytearray()

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.headers.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self.body += body
