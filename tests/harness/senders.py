"""The load: a few keys, each with one sender that waits for every answer, so that a key's order is known."""

import asyncio
import random
import threading
import time
import zlib
from urllib.parse import urlsplit

from tests.harness.logs import Outcome, Sent

ANSWER_SECONDS = 15.0


class Senders:
    """Sends from ``start`` to ``stop`` and writes down what became of each event. Nobody sends anything twice."""

    def __init__(self, url: str, keys: int, rate: float, seed: int) -> None:
        self.log: list[Sent] = []
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname or "", parts.port or 80, parts.path
        self._keys = [f"key{number}" for number in range(keys)]
        self._pause = keys / rate
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="senders", daemon=True)

    def start(self) -> "Senders":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(ANSWER_SECONDS + 5)

    async def _run(self) -> None:
        await asyncio.gather(*(self._send_key(key) for key in self._keys))

    async def _send_key(self, key: str) -> None:
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        number = 0
        while not self._stopping.is_set():
            await asyncio.sleep(self._pause * (0.5 + self._random.random()))
            identity = f"{key}-{number}"
            data = b'{"id": "%s", "pad": "%s"}' % (identity.encode(), b"x" * self._random.randrange(400))
            outcome: Outcome = "unknown"
            try:
                if streams is None:
                    streams = await asyncio.open_connection(self._host, self._port)
                status = await asyncio.wait_for(self._post(*streams, identity, key, data), ANSWER_SECONDS)
                outcome = "ok" if status == 202 else "refused" if 400 <= status < 500 else "unknown"
            except (OSError, EOFError, TimeoutError):
                if streams is not None:
                    streams[1].close()
                streams = None
            self.log.append(Sent(identity, key, number, zlib.crc32(data), outcome, time.time()))
            number += 1
        if streams is not None:
            streams[1].close()

    async def _post(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, identity: str, key: str, data: bytes
    ) -> int:
        parity = "odd" if int(identity.rpartition("-")[2]) % 2 else "even"
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: harness\r\nce-specversion: 1.0\r\nce-id: {identity}\r\n"
            f"ce-source: /harness\r\nce-type: {parity}\r\nce-partitionkey: {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        writer.write(head.encode() + data)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = next((int(line[15:]) for line in answer.split(b"\r\n") if line.startswith(b"content-length:")), 0)
        await reader.readexactly(length)
        return int(answer.split(b" ", 2)[1])
