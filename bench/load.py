"""The load generator: a process that sends events over keep-alive connections and times the answers.

Comes in: a LoadPlan as JSON, the only argument. Goes out: a LoadResult as one JSON line on stdout. Two ways to send:

    open loop    an event every 1/rate seconds, whoever is still waiting for an answer. Latency counts from the time
                 at which the event was due, so a stalled server cannot hide its stall by stalling the generator too.
    closed loop  every connection sends as soon as it has its answer: the most that the server can take.

Bounded in time and in number; answers that never come are given up ANSWER_SECONDS after the last event.
Started by ``children.py``.
"""

import asyncio
import contextlib
import resource
import sys
import time
from array import array
from collections import Counter, deque
from urllib.parse import urlsplit

import msgspec
import uvloop

from bench.events import TYPE, request_around_id, run_marker
from bench.framing import Malformed, message_end
from bench.latency import Latency, summarize
from bench.pacing import NANOSECONDS, Metronome

ANSWER_SECONDS = 10.0
RECONNECT_SECONDS = 0.05
LOST = "lost"
UNANSWERED = "unanswered"


class LoadPlan(msgspec.Struct, frozen=True):
    url: str
    run: int
    seconds: float
    rate: float = 0.0  # events per second; 0 is the closed loop
    events: int = 0  # at most so many; 0 is no bound but the time
    connections: int = 64
    types: int = 0  # so many types of events, in turn: TYPE's namesakes with a number; 0 is TYPE alone
    is_stamped_when_sent: bool = False  # the id says when it was sent, not when it was due


class LoadResult(msgspec.Struct, frozen=True):
    sent: int
    acknowledged: int
    codes: dict[str, int]
    seconds: float  # from the first event to the last answer
    rate: float  # acknowledged per second
    latency: Latency  # of acknowledged events
    lag_p99: float  # milliseconds by which the generator itself was late, open loop only
    first_sent_ns: int
    last_answer_ns: int
    cpu_seconds: float


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    transport: asyncio.Transport

    def __init__(self, load: "Load") -> None:
        self.load = load
        self.waiting_since_ns = 0
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def send(self, number: int, due_ns: int) -> None:
        self.waiting_since_ns = due_ns
        load = self.load
        stamp_ns = time.monotonic_ns() if load.plan.is_stamped_when_sent else due_ns
        self.transport.write(
            b"%b%b%09d.%019d%b"
            % (load.before, load.id_start, number, stamp_ns, load.behind[number % len(load.behind)])
        )

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        try:
            end = message_end(data)
        except Malformed:
            self.transport.abort()
            return
        if end < 0:
            self.rest = data
            return
        self.rest = b""
        since, self.waiting_since_ns = self.waiting_since_ns, 0
        self.load.answered(self, data[9:12], since)

    def connection_lost(self, exc: Exception | None) -> None:
        self.load.lost(self)


class Load:
    """The state of one run: what was sent, what was answered, which connections are free."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        target = urlsplit(plan.url)
        self.host, self.port = target.hostname or "127.0.0.1", target.port or 80
        types = [f"dev.penstock.bench.{number}" for number in range(plan.types)] or [TYPE]
        self.before, _ = request_around_id(target.path or "/", target.netloc)
        self.behind = [request_around_id(target.path or "/", target.netloc, each)[1] for each in types]
        self.id_start = run_marker(plan.run)
        self.free: deque[Connection] = deque()
        self.overdue: deque[tuple[int, int]] = deque()  # open loop: due while no connection was free
        self.latencies = array("q")
        self.lags = array("q")
        self.codes: Counter[bytes] = Counter()
        self.sent = self.finished = self.lost_requests = 0
        self.last_answer_ns = 0
        self.stopped = False
        self.done = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> LoadResult:
        await asyncio.gather(*(self.connect() for _ in range(self.plan.connections)))
        cpu_before = _cpu_seconds()
        self.start_ns = time.monotonic_ns() + 5_000_000
        self.end_ns = self.start_ns + int(self.plan.seconds * NANOSECONDS)
        self.bound = self.plan.events or sys.maxsize
        if self.plan.rate:
            await self.open_loop()
        else:
            await self.closed_loop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.done.wait(), ANSWER_SECONDS)
        return self.result(_cpu_seconds() - cpu_before)

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self), self.host, self.port)
        self.free.append(connection)

    async def open_loop(self) -> None:
        self.interval_ns = NANOSECONDS / self.plan.rate
        self.bound = min(self.bound, round(self.plan.seconds * self.plan.rate))
        self.due = 0
        metronome = Metronome(self.start_ns, int(self.interval_ns))
        loop = asyncio.get_running_loop()

        def beat() -> None:
            metronome.beat()
            self.send_what_is_due()

        loop.add_reader(metronome.fd, beat)
        try:
            while self.due < self.bound:
                await asyncio.sleep(0.05)
        finally:
            loop.remove_reader(metronome.fd)
            metronome.close()
        self.stop()

    def send_what_is_due(self) -> None:
        now_ns = time.monotonic_ns()
        while self.due < self.bound:
            due_ns = self.start_ns + int(self.due * self.interval_ns)
            if due_ns > now_ns:
                return
            number, self.due = self.due, self.due + 1
            self.lags.append(now_ns - due_ns)
            if self.free:
                self.sent += 1
                self.free.popleft().send(number, due_ns)
            else:
                self.overdue.append((number, due_ns))

    async def closed_loop(self) -> None:
        self.start_ns = time.monotonic_ns()
        connections, self.free = self.free, deque()
        for connection in connections:
            self.send_next(connection)
        while not self.stopped and time.monotonic_ns() < self.end_ns:
            await asyncio.sleep(0.02)
        self.stop()

    def send_next(self, connection: Connection) -> None:
        """What a connection does when it is free: the overdue first, then, in the closed loop, the next."""
        if self.overdue:
            self.sent += 1
            connection.send(*self.overdue.popleft())
        elif self.plan.rate or self.stopped or self.sent >= self.bound:
            self.free.append(connection)
            if self.sent >= self.bound:
                self.stop()
        else:
            self.sent += 1
            connection.send(self.sent - 1, time.monotonic_ns())

    def answered(self, connection: Connection, code: bytes, since_ns: int) -> None:
        now_ns = self.last_answer_ns = time.monotonic_ns()
        self.codes[code] += 1
        self.finished += 1
        if code[0] == 50:  # the digit 2
            self.latencies.append(now_ns - since_ns)
        self.send_next(connection)
        if self.stopped:
            self.check_done()

    def lost(self, connection: Connection) -> None:
        """A connection that the server closed: its request counts as lost, and another one takes its place."""
        if connection.waiting_since_ns:
            self.lost_requests += 1
            self.finished += 1
        with contextlib.suppress(ValueError):
            self.free.remove(connection)
        if self.stopped:
            self.check_done()
        else:
            task = asyncio.get_running_loop().create_task(self.reconnect())
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def reconnect(self) -> None:
        while not self.done.is_set():
            with contextlib.suppress(OSError):
                await self.connect()
                self.send_next(self.free.pop())
                return
            await asyncio.sleep(RECONNECT_SECONDS)

    def stop(self) -> None:
        self.stopped = True
        self.check_done()

    def check_done(self) -> None:
        if self.finished >= self.sent and not self.overdue:
            self.done.set()

    def result(self, cpu_seconds: float) -> LoadResult:
        codes = {code.decode("latin-1"): count for code, count in sorted(self.codes.items())}
        unanswered = self.sent + len(self.overdue) - self.finished
        codes |= {LOST: self.lost_requests} if self.lost_requests else {}
        codes |= {UNANSWERED: unanswered} if unanswered else {}
        seconds = max(self.last_answer_ns - self.start_ns, 1) / NANOSECONDS
        return LoadResult(
            sent=self.sent,
            acknowledged=len(self.latencies),
            codes=codes,
            seconds=round(seconds, 3),
            rate=round(len(self.latencies) / seconds, 1),
            latency=summarize(self.latencies),
            lag_p99=summarize(self.lags).p99,
            first_sent_ns=self.start_ns,
            last_answer_ns=self.last_answer_ns,
            cpu_seconds=round(cpu_seconds, 3),
        )


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def main(argument: str) -> None:
    result = await Load(msgspec.json.decode(argument, type=LoadPlan)).run()
    print(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
