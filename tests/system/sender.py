"""A sender for tests: a steady rate of events over a few connections, remembering which were acknowledged."""

import asyncio
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

MakeSender = Callable[..., "Sender"]


class Sender:
    """Sends from ``start`` to ``stop``. An event without a 202 is simply not in ``acknowledged``: nobody retries."""

    def __init__(self, url: str, rate: int, connections: int = 16, name: str = "sent") -> None:
        parts = urlsplit(url)
        self.acknowledged: set[str] = set()
        self.sent = 0
        self.refused = 0
        self._host, self._port, self._path = parts.hostname or "", parts.port or 80, parts.path
        self._rate = rate
        self._name = name  # begins the id of every event
        self._connections = connections
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> "Sender":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)

    async def _run(self) -> None:
        await asyncio.gather(*(self._send_share(number) for number in range(self._connections)))

    async def _send_share(self, number: int) -> None:
        began = time.monotonic() + number / self._rate
        count = 0
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while not self._stopping.is_set():
            await asyncio.sleep(max(0.0, began + count * self._connections / self._rate - time.monotonic()))
            identity = f"{self._name}-{number}-{count}"
            count += 1
            self.sent += 1
            try:
                if streams is None:
                    streams = await asyncio.open_connection(self._host, self._port)
                status = await asyncio.wait_for(self._post(*streams, identity), 10.0)
            except (OSError, EOFError, TimeoutError):
                if streams is not None:
                    streams[1].close()
                streams = None
                self.refused += 1
                continue
            if status == 202:
                self.acknowledged.add(identity)
            else:
                self.refused += 1
        if streams is not None:
            streams[1].close()

    async def _post(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, identity: str) -> int:
        body = b'{"n": "%s"}' % identity.encode()
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: test\r\nce-specversion: 1.0\r\nce-id: {identity}\r\n"
            f"ce-source: /sender\r\nce-type: test.sent\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        await reader.readexactly(length)
        return int(answer.split(b" ", 2)[1])
