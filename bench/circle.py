"""Generator and subscriber in one process: the whole way as a closed loop.

At most a number of events is under way, and the next is sent when one has arrived at all lanes. So nothing piles up,
and what arrives in a second is what the whole system can do in that second: what costs it anything shows at once.

Comes in: HTTP requests as in ``sink.py``, and commands on stdin, a JSON line each. Goes out: events, and on stdout an
answer line for each command, the first line being the port. Ends when stdin is closed. Started by ``children.py``.
"""

import asyncio
import sys
import time

import msgspec
import uvloop

from bench.load import Connection, Load, LoadPlan
from bench.sink import Recorder, SinkProtocol, cpu_seconds, say


class CircleCommand(msgspec.Struct, frozen=True):
    """``start`` begins to send; ``look`` tells how far it is."""

    do: str
    url: str = ""
    run: int = 0
    lanes: int = 1
    under_way: int = 0


class Look(msgspec.Struct, frozen=True):
    time: float = 0.0  # seconds, CLOCK_MONOTONIC
    arrived: int = 0  # at all lanes together
    cpu_seconds: float = 0.0  # of this process
    refused: int = 0  # or without an answer: so many fewer are under way


class Circle(Load):
    """A load that sends no more than what has arrived allows."""

    def __init__(self, command: CircleCommand) -> None:
        super().__init__(LoadPlan(command.url, command.run, 0.0))
        self._lanes = command.lanes
        self._allowed = command.under_way
        self._open_lanes = command.lanes  # of the event that arrives now, counting arrivals only
        self.refused = 0

    async def begin(self) -> None:
        await asyncio.gather(*(self.connect() for _ in range(self.plan.connections)))
        for _ in range(len(self.free)):
            self.send_next(self.free.popleft())

    def send_next(self, connection: Connection) -> None:
        if self.sent >= self._allowed:
            self.free.append(connection)
            return
        self.sent += 1
        connection.send(self.sent - 1, time.monotonic_ns())

    def answered(self, connection: Connection, code: bytes, since_ns: int) -> None:
        if not code.startswith(b"2"):
            self.refused += 1
        self.send_next(connection)

    def arrived(self) -> None:
        self._open_lanes -= 1
        if self._open_lanes:
            return
        self._open_lanes = self._lanes
        self._allowed += 1
        if self.free:
            self.send_next(self.free.popleft())


class Arrivals(Recorder):
    """Counts, and lets the circle go on."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.circle: Circle | None = None

    def take(self, data: bytes, start: int, end: int, now_ns: int) -> None:
        self.number += 1
        if self.circle is not None:
            self.circle.arrived()

    def look(self) -> Look:
        circle = self.circle
        refused = circle.refused + circle.lost_requests if circle else 0
        return Look(time.monotonic(), self.number, cpu_seconds(), refused)


async def serve() -> None:
    arrivals = Arrivals()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SinkProtocol(arrivals), "127.0.0.1", 0, backlog=1024)
    say({"port": server.sockets[0].getsockname()[1]})
    stdin = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    while line := await stdin.readline():
        command = msgspec.json.decode(line, type=CircleCommand)
        if command.do == "start":
            arrivals.circle = Circle(command)
            await arrivals.circle.begin()
        say(arrivals.look())
    server.close()


if __name__ == "__main__":
    uvloop.run(serve())
