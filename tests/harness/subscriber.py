"""The hostile subscriber: one HTTP server for all subscriptions, each on its own path and in its own mood.

It writes down every event before it answers, and what it answered; when it never answered, that too.
"""

import asyncio
import json
import random
import time
import zlib
from collections.abc import Callable

from tests.harness.logs import Seen
from tests.serving import HttpConnection, Serving

PULSE_SECONDS = 0.05
Reaction = tuple[int, dict[str, str], float]  # status (0: never; -1: cut the connection), headers, delay
Mood = Callable[[random.Random], Reaction]


def well(_: random.Random) -> Reaction:
    return 200, {}, 0.0


def slow(chance: random.Random) -> Reaction:
    return 200, {}, 0.05 * chance.random()


def failing(chance: random.Random) -> Reaction:
    return (200, {}, 0.0) if chance.random() < 0.5 else (chance.choice((500, 502, 503, 404)), {}, 0.0)


def down(_: random.Random) -> Reaction:
    return 503, {}, 0.0


def asking_to_wait(chance: random.Random) -> Reaction:
    return (200, {}, 0.0) if chance.random() < 0.7 else (429, {"Retry-After": chance.choice(("1", "x", "0"))}, 0.0)


def hanging(_: random.Random) -> Reaction:
    return 0, {}, 0.0


def cutting(chance: random.Random) -> Reaction:
    return (200, {}, 0.0) if chance.random() < 0.6 else (-1, {}, 0.0)


def refusing(chance: random.Random) -> Reaction:
    return (200, {}, 0.0) if chance.random() < 0.9 else (400, {}, 0.0)


class HostileSubscriber(Serving):
    """``moods[name]`` may be set at any time."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.log: list[Seen] = []
        self.moods: dict[str, Mood] = {}
        self.chance = random.Random(seed)
        self.dead_letters: list[str] = []  # what came to /sink
        self.worst_delay = 0.0  # of itself: what it answers later than a timeout comes again, and rightly so

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    async def listen(self) -> asyncio.Server:
        self._pulse(self._loop.time())
        return await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=1024)

    def _pulse(self, due: float) -> None:
        now = self._loop.time()
        self.worst_delay = max(self.worst_delay, now - due)
        self._loop.call_at(now + PULSE_SECONDS, self._pulse, now + PULSE_SECONDS)


class _Connection(HttpConnection):
    def __init__(self, subscriber: HostileSubscriber) -> None:
        super().__init__()
        self._subscriber = subscriber
        self._open: list[Seen] = []  # of the request that is not answered

    def connection_lost(self, exc: Exception | None) -> None:
        self._note(0)

    def on_message_complete(self) -> None:
        name, subscriber = self.url.decode().strip("/"), self._subscriber
        if name == "sink":
            subscriber.dead_letters.append(self.headers["ce-id"])
            self._write(200, {})
            return
        now = time.time()
        self._open = [
            Seen(name, identity, partition, offset, digest, 0, now, now)
            for identity, partition, offset, digest in _events(self.headers, bytes(self.body))
        ]
        status, headers, delay = subscriber.moods.get(name, well)(subscriber.chance)
        if status < 0:
            self.transport.abort()
        elif delay:
            asyncio.get_running_loop().call_later(delay, self._answer, status, headers)
        elif status:
            self._answer(status, headers)

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        if not self.transport.is_closing() and self._open:
            self._note(status)
            self._write(status, headers)

    def _note(self, status: int) -> None:
        now = time.time()
        self._subscriber.log += [each._replace(status=status, ended=now) for each in self._open]
        self._open = []

    def _write(self, status: int, headers: dict[str, str]) -> None:
        lines = [
            f"HTTP/1.1 {status} -",
            "content-length: 0",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.transport.write("\r\n".join([*lines, "", ""]).encode())


def _events(headers: dict[str, str], body: bytes) -> list[tuple[str, int, int, int]]:
    """Id, partition, offset and digest of the data, of one event or of all in a batch."""
    if headers.get("content-type", "").startswith("application/cloudevents-batch"):
        return [
            (
                each["id"],
                int(each["knativekafkapartition"]),
                int(each["knativekafkaoffset"]),
                zlib.crc32(json.dumps(each["data"]).encode()),
            )
            for each in json.loads(body)
        ]
    place = int(headers["ce-knativekafkapartition"]), int(headers["ce-knativekafkaoffset"])
    return [(headers["ce-id"], *place, zlib.crc32(body))]
