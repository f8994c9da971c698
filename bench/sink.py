"""The subscriber: a process that answers at once and remembers when each event came.

Comes in: HTTP requests, each lane (a trigger's subscriber) on a path of its own, /t/0, /t/1, …; and commands on
stdin, a JSON line each. Goes out: 202 with an empty body; on stdout an answer line for each command, the first line
being the port. Ends when stdin is closed, so it never outlives whoever started it. Started by ``children.py``.
"""

import asyncio
import os
import resource
import sys
import time
from array import array

import msgspec
import uvloop

from bench.events import read_ids, run_marker
from bench.framing import Malformed, message_end
from bench.latency import Latency, summarize

ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


class Command(msgspec.Struct, frozen=True):
    """``reset`` begins a run; ``count`` and ``stats`` tell about it."""

    do: str
    run: int = 0


class SinkStats(msgspec.Struct, frozen=True):
    """What came in one run, all lanes together; times are CLOCK_MONOTONIC."""

    lanes: int = 0
    arrivals: int = 0
    distinct: int = 0
    duplicates: int = 0
    strays: int = 0  # events of an earlier run
    first_sent_ns: int = 0
    first_arrival_ns: int = 0
    last_arrival_ns: int = 0
    whole_way: Latency = Latency()
    cpu_seconds: float = 0.0
    distinct_per_lane: dict[str, int] = {}


class Lane:
    """Arrivals on one path in one run, as flat arrays: eight bytes and one byte for each event."""

    def __init__(self) -> None:
        self.latencies = array("q")  # of first arrivals only: a duplicate says nothing about the way
        self.seen = bytearray()
        self.duplicates = 0
        self.first_sent_ns = 0
        self.first_arrival_ns = 0
        self.last_arrival_ns = 0

    def record(self, number: int, sent_ns: int, now_ns: int) -> None:
        seen = self.seen
        if number >= len(seen):
            seen.extend(bytes(number + 4096 - len(seen)))
        self.last_arrival_ns = now_ns
        if seen[number]:
            self.duplicates += 1
            return
        seen[number] = 1
        if not self.first_arrival_ns:
            self.first_arrival_ns = now_ns
        if not self.first_sent_ns or sent_ns < self.first_sent_ns:
            self.first_sent_ns = sent_ns
        self.latencies.append(now_ns - sent_ns)


class Recorder:
    """All lanes of the current run."""

    def __init__(self) -> None:
        self.reset(0)

    def reset(self, run: int) -> None:
        self.marker = run_marker(run)
        self.lanes: dict[bytes, Lane] = {}
        self.strays = 0
        self.cpu_at_reset = cpu_seconds()

    def take(self, data: bytes, start: int, end: int, now_ns: int) -> None:
        """One request, which lies between start and end, with one event or a batch of them."""
        stamps = read_ids(data, self.marker, start, end)
        if not stamps:
            self.strays += 1
            return
        path = data[start + 5 : data.find(b" ", start + 5)]
        lane = self.lanes.get(path)
        if lane is None:
            lane = self.lanes[path] = Lane()
        for number, sent_ns in stamps:
            lane.record(number, sent_ns, now_ns)

    def count(self) -> int:
        """Distinct events, summed over the lanes: what a waiting scenario looks at."""
        return sum(len(lane.latencies) for lane in self.lanes.values())

    def stats(self) -> SinkStats:
        lanes = [lane for lane in self.lanes.values() if lane.latencies]
        everything = array("q")
        for lane in lanes:
            everything.extend(lane.latencies)
        duplicates = sum(lane.duplicates for lane in lanes)
        return SinkStats(
            lanes=len(lanes),
            arrivals=len(everything) + duplicates,
            distinct=len(everything),
            duplicates=duplicates,
            strays=self.strays,
            first_sent_ns=min((lane.first_sent_ns for lane in lanes), default=0),
            first_arrival_ns=min((lane.first_arrival_ns for lane in lanes), default=0),
            last_arrival_ns=max((lane.last_arrival_ns for lane in lanes), default=0),
            whole_way=summarize(everything),
            cpu_seconds=cpu_seconds() - self.cpu_at_reset,
            distinct_per_lane={path.decode(): len(lane.latencies) for path, lane in sorted(self.lanes.items())},
        )


class SinkProtocol(asyncio.Protocol):
    """One connection: finds the requests in what comes and answers all of them in one write."""

    transport: asyncio.Transport

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        if self.rest:
            data = self.rest + data
        at = answers = 0
        try:
            while at < len(data) and (end := message_end(data, at)) >= 0:
                self.recorder.take(data, at, end, now_ns)
                answers += 1
                at = end
        except (Malformed, ValueError):
            self.transport.close()
            return
        self.rest = data[at:] if at < len(data) else b""
        if answers:
            self.transport.write(ANSWER if answers == 1 else ANSWER * answers)


class Commands:
    """Commands from stdin, answered on stdout."""

    def __init__(self, recorder: Recorder, closed: asyncio.Event) -> None:
        self.recorder = recorder
        self.closed = closed
        self.rest = b""
        self.decoder = msgspec.json.Decoder(Command)

    def readable(self) -> None:
        chunk = os.read(0, 65536)
        if not chunk:
            asyncio.get_running_loop().remove_reader(0)
            self.closed.set()
            return
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        for line in lines:
            self.answer(self.decoder.decode(line))

    def answer(self, command: Command) -> None:
        if command.do == "reset":
            self.recorder.reset(command.run)
            say({"run": command.run})
        elif command.do == "count":
            say({"count": self.recorder.count()})
        else:
            say(self.recorder.stats())


def say(answer: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def serve() -> None:
    recorder, closed = Recorder(), asyncio.Event()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SinkProtocol(recorder), "127.0.0.1", 0, backlog=1024)
    loop.add_reader(0, Commands(recorder, closed).readable)
    say({"port": server.sockets[0].getsockname()[1]})
    await closed.wait()
    server.close()


if __name__ == "__main__":
    uvloop.run(serve())
