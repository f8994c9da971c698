"""A small HTTP server in threads of its own, for a process that has no other: the dispatcher.

Answers ``/healthz`` itself. Handlers take the query and the body and return an ``Answered``; lines of a stream are
sent as they come, and a reader that goes away ends the stream (its generator is closed).
"""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from penstock.errors import Misconfigured, Misused, PenstockError, Rejected, Unavailable

logger = logging.getLogger("penstock.http")

LONGEST_BODY = 8 * 1024 * 1024
LINES = "application/x-ndjson"


@dataclass(frozen=True)
class Answered:
    """A whole body, or lines that are sent one by one (each a JSON value)."""

    body: bytes = b""
    content_type: str = "application/json"
    status: int = 200
    lines: Iterable[Any] | None = None

    @staticmethod
    def json(value: Any, status: int = 200) -> "Answered":
        return Answered(json.dumps(value).encode(), status=status)


Handler = Callable[[Mapping[str, str], bytes], Answered]


class Listener:
    """``routes`` by method and path, such as ``GET /metrics``. Port 0: any that is free."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Handler], *, may_move: bool = False) -> None:
        self._routes = {"GET /healthz": lambda *_: Answered(b"ok\n", "text/plain"), **routes}
        try:
            self._server = _Server((host, port), self._handler())
        except OSError as error:
            if not may_move:
                raise Misconfigured(f"cannot listen on {host}:{port}: {error.strerror}") from error
            self._server = _Server((host, 0), self._handler())
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        routes = self._routes

        class Handling(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._handle()

            def do_POST(self) -> None:
                self._handle()

            def log_message(self, format: str, *args: Any) -> None:
                logger.debug(format, *args)

            def _handle(self) -> None:
                try:
                    answered = _answer(routes, self.command, self.path, self._body())
                except Exception as error:
                    answered = _failed(error)
                try:
                    self._send(answered)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                finally:
                    close = getattr(answered.lines, "close", None)
                    if close is not None:
                        close()

            def _body(self) -> bytes:
                length = int(self.headers.get("Content-Length") or 0)
                if length > LONGEST_BODY:
                    raise Rejected(f"the body is larger than {LONGEST_BODY} bytes")
                return self.rfile.read(length)

            def _send(self, answered: Answered) -> None:
                self.send_response(answered.status)
                self.send_header("Content-Type", answered.content_type)
                if answered.lines is None:
                    self.send_header("Content-Length", str(len(answered.body)))
                    self.end_headers()
                    self.wfile.write(answered.body)
                    return
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                try:
                    for line in answered.lines:
                        self.wfile.write(json.dumps(line).encode() + b"\n")
                except (PenstockError, RuntimeError) as error:
                    self.wfile.write(_failed(error).body + b"\n")  # too late for a status

        return Handling


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _answer(routes: Mapping[str, Handler], method: str, target: str, body: bytes) -> Answered:
    parts = urlsplit(target)
    handler = routes.get(f"{method} {parts.path}")
    if handler is None:
        return Answered.json({"error": f"there is nothing at {method} {parts.path}"}, 404)
    return handler(dict(parse_qsl(parts.query)), body)


def _failed(error: Exception) -> Answered:
    if not isinstance(error, PenstockError):
        logger.error("a request failed", exc_info=error)
        return Answered.json({"error": f"{type(error).__name__}: {error}", "hint": None}, 500)
    status = 400 if isinstance(error, Rejected | Misused) else 503 if isinstance(error, Unavailable) else 500
    return Answered.json({"error": error.message, "hint": error.hint}, status)
