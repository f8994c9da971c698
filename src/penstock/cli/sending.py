"""Many events over a few keep-alive connections, in binary content mode.

    numbers 0 … N-1 ──▶ workers, one connection each ──POST──▶ address
                          └─ 503, or a connection that broke: the same event again, a few times

In: an address and what the events are. Out: how many were accepted, and why the others were not. Used by ``send``.
"""

import asyncio
import json
import ssl
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from penstock.errors import Rejected
from penstock.event.http import percent_encode_header

CONNECTIONS = 64
TRIES = 5
LONGEST_WAIT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
SHOWN_REASONS = 5
LARGEST_ANSWER = 1024 * 1024  # bytes of its body

# A content type is sent as it is, but for what would break the header.
_PRINTABLE = "".join(chr(c) for c in range(0x20, 0x7F))


@dataclass(frozen=True)
class Events:
    """What is sent: the same attributes and data each time, another id."""

    attributes: dict[str, str]
    data: bytes | None
    content_type: str | None
    id: str | None
    count: int

    def id_of(self, number: int) -> str:
        if self.id is None:
            return str(uuid.uuid4())
        return self.id if self.count == 1 else f"{self.id}-{number}"


@dataclass(frozen=True)
class Outcome:
    count: int
    accepted: int
    seconds: float
    first_id: str
    reasons: tuple[tuple[str, int], ...]  # of what was refused, the most frequent first
    hint: str | None = None

    @property
    def refused(self) -> int:
        return self.count - self.accepted

    def as_json(self) -> dict[str, Any]:
        return {
            "sent": self.count,
            "accepted": self.accepted,
            "refused": self.refused,
            "seconds": round(self.seconds, 3),
            "firstId": self.first_id,
            "reasons": [{"reason": reason, "count": number} for reason, number in self.reasons],
        }


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def reason(self) -> str:
        try:
            said = json.loads(self.body)["error"]
        except (ValueError, KeyError, TypeError):
            said = self.body[:200].decode(errors="replace").strip()
        return f"{self.status}: {said}" if said else str(self.status)


def run(url: str, events: Events, rate: float | None, advance: Callable[[int], None]) -> Outcome:
    """Sends all of them. ``advance`` hears now and then how many are done."""
    import uvloop

    outcome: Outcome = uvloop.run(Sending(url, events, rate, advance).run())
    return outcome


class Sending:
    def __init__(self, url: str, events: Events, rate: float | None, advance: Callable[[int], None]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Rejected(f"{url} is not an address to send to", hint="http://HOST:PORT/NAMESPACE/NAME")
        self._host, self._tls = parts.hostname, parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._events, self._rate, self._advance = events, rate, advance
        self._next = 0
        self._done = 0
        self._accepted = 0
        self._first_id = ""
        self._refusals: Counter[str] = Counter()
        self._hint: str | None = None
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._head = _head(path, parts.netloc.rpartition("@")[2], events)

    async def run(self) -> Outcome:
        begun = time.perf_counter()
        workers = max(1, min(CONNECTIONS, self._events.count // 10))
        await asyncio.gather(*(self._work(begun) for _ in range(workers)))
        return Outcome(
            count=self._events.count,
            accepted=self._accepted,
            seconds=time.perf_counter() - begun,
            first_id=self._first_id,
            reasons=tuple(self._refusals.most_common(SHOWN_REASONS)),
            hint=self._hint,
        )

    async def _work(self, begun: float) -> None:
        connection = Connection(self._host, self._port, self._tls)
        try:
            while self._next < self._events.count:
                number, self._next = self._next, self._next + 1
                if self._rate is not None:
                    await asyncio.sleep(max(0.0, begun + number / self._rate - time.perf_counter()))
                await self._send(connection, number)
                self._done += 1
                if self._done % 100 == 0 or self._done == self._events.count:
                    self._advance(self._done)
        finally:
            connection.close()

    async def _send(self, connection: "Connection", number: int) -> None:
        event_id = self._events.id_of(number)
        if number == 0:
            self._first_id = event_id
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        request = b"%sce-id: %s\r\nce-time: %s\r\n\r\n%s" % (
            self._head,
            percent_encode_header(event_id).encode(),
            now.encode(),
            self._events.data or b"",
        )
        reason = ""
        for attempt in range(TRIES):
            try:
                answer = await asyncio.wait_for(connection.exchange(request), ANSWER_SECONDS)
            except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
                connection.close()
                reason = f"no answer from {self._host}:{self._port}: {_why(error)}"
                self._hint = "is the receiver running? `penstock status` shows it"
                wait = 0.1 * 2**attempt
            else:
                if 200 <= answer.status < 300:
                    self._accepted += 1
                    return
                reason = answer.reason
                if answer.status not in (429, 503):
                    break
                wait = _retry_after(answer, default=0.1 * 2**attempt)
            if attempt + 1 < TRIES:
                await asyncio.sleep(min(wait, LONGEST_WAIT_SECONDS))
        self._refusals[reason] += 1


class Connection:
    """One keep-alive connection, opened when it is needed."""

    def __init__(self, host: str, port: int, tls: bool) -> None:
        self._host, self._port = host, port
        self._context = ssl.create_default_context() if tls else None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def exchange(self, request: bytes) -> Answer:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, ssl=self._context)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(first.split(" ", 2)[1])
        answer = Answer(status, headers, await _body(reader, headers, status))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _body(reader: asyncio.StreamReader, headers: dict[str, str], status: int) -> bytes:
    if status == 204:
        return b""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            if len(body) + size > LARGEST_ANSWER:
                raise ValueError(f"the answer is larger than {LARGEST_ANSWER} bytes")
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
        return body
    if "content-length" in headers:
        length = int(headers["content-length"])
        if not 0 <= length <= LARGEST_ANSWER:
            raise ValueError(f"the answer has {length} bytes")
        return await reader.readexactly(length)
    if headers.get("connection", "").lower() != "close":
        return b""
    try:
        return await reader.readexactly(LARGEST_ANSWER)
    except asyncio.IncompleteReadError as ended:  # the server closes the connection after its answer
        return ended.partial


def _head(path: str, host: str, events: Events) -> bytes:
    """All of the request that is the same for every event."""
    lines = [f"POST {path} HTTP/1.1", f"host: {host}", f"content-length: {len(events.data or b'')}"]
    if events.content_type is not None:
        lines.append(f"content-type: {quote(events.content_type, safe=_PRINTABLE)}")
    lines.append("ce-specversion: 1.0")
    lines += [f"ce-{name}: {percent_encode_header(value)}" for name, value in events.attributes.items()]
    return ("\r\n".join(lines) + "\r\n").encode()


def _retry_after(answer: Answer, default: float) -> float:
    try:
        return max(0.0, float(answer.headers["retry-after"]))
    except (KeyError, ValueError):
        return default


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing came within {ANSWER_SECONDS:g} s"
    if isinstance(error, EOFError):
        return "the connection was closed"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
