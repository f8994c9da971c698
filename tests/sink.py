"""A subscriber for tests: a fast HTTP server in a thread that records what it gets and answers as it is told.

sink.answer("/orders", status=503)              all further requests to /orders get a 503
sink.answer("/orders", with_=my_function)       a function from Request to Answer decides each time
sink.wait_for(10, path="/orders")               the requests, once there are ten
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.serving import HttpConnection, Serving


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    received: float  # time.time()


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    after: threading.Event | None = None  # it is held back until then


LOOK_SECONDS = 0.005  # how often to see whether an answer is held back no longer

Decide = Callable[[Request], Answer]


class Sink(Serving):
    """Remembers what came, by path."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self.answered: dict[str, float] = {}  # by path: when the last answer was written; time.time()
        self._by_path: dict[str, list[Request]] = {}
        self._answers: dict[str, Decide] = {}
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(
        self,
        path: str,
        status: int = 200,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        delay_seconds: float = 0.0,
        with_: Decide | None = None,
    ) -> None:
        fixed = Answer(status, body, headers or {}, delay_seconds)
        self._answers[path] = with_ or (lambda _: fixed)

    def at(self, path: str) -> list[Request]:
        """What came to this path so far."""
        return list(self._by_path.get(path, ()))

    def count(self, path: str) -> int:
        return len(self._by_path.get(path, ()))

    def forget(self) -> None:
        """Forgets what came so far."""
        with self._changed:
            self.requests.clear()
            self._by_path.clear()

    def wait_for(self, count: int, path: str | None = None, timeout_seconds: float = 60.0) -> list[Request]:
        """The requests, once there are at least this many; fails when they do not come in time."""

        def came() -> int:
            return len(self.requests) if path is None else self.count(path)

        with self._changed:
            self._changed.wait_for(lambda: came() >= count, timeout_seconds)
        assert came() >= count, f"{came()} of {count} requests came to {path or 'the sink'}"
        return list(self.requests) if path is None else self.at(path)

    def take(self, request: Request) -> Answer:
        decide = self._answers.get(request.path)  # before a test sees the request, and changes the answers
        with self._changed:
            self.requests.append(request)
            self._by_path.setdefault(request.path, []).append(request)
            self._changed.notify_all()
        return decide(request) if decide else Answer()

    async def listen(self) -> asyncio.Server:
        return await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=1024)


class _Connection(HttpConnection):
    """Requests on a connection are answered one after the other."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink

    def on_message_complete(self) -> None:
        request = Request(
            self.parser.get_method().decode(), self.url.decode(), self.headers, bytes(self.body), time.time()
        )
        answer = self._sink.take(request)
        if answer.delay_seconds:
            asyncio.get_running_loop().call_later(answer.delay_seconds, self._send, answer, request.path)
        else:
            self._send(answer, request.path)

    def _send(self, answer: Answer, path: str) -> None:
        if self.transport.is_closing():
            return
        if answer.after is not None and not answer.after.is_set():
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._send, answer, path)
            return
        lines = [f"HTTP/1.1 {answer.status} -", f"content-length: {len(answer.body)}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        self._sink.answered[path] = time.time()
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body)
