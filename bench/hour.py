"""Scenario: one subscriber is down while an hour of traffic goes by, and its neighbours go on.

    undisturbed   the neighbours alone, all subscribers well
    down          an hour's worth of events that only the one wants, which is down, in a few minutes
    back          it gets them all, in order; the neighbours are measured meanwhile

The volume is that of 100 events a second. It is written to Kafka directly, as the receiver would write it; what is
measured goes the whole way.
"""

import socket
import threading
import time
from urllib.parse import urlsplit

from bench.events import DATA, TYPE, make_id, record_headers
from bench.measure import Arrangement, Bench, Offer, measure, warm_up
from bench.model import HOUR_AFTER, HOUR_BEFORE, HOUR_MEANWHILE, Hour
from bench.system import SystemFailed, broker, trigger
from penstock.kafka.connection import KafkaConnection

NAME = "hour"
NEIGHBOURS = 3
RATE = 200.0
ORDERED = {"kafka.eventing.knative.dev/delivery.order": "ordered"}
PATIENT = {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT1S"}
HOUR_TYPE = b"dev.penstock.bench.hour"
PLACE, PLACE_END = b"ce-knativekafkapartition:", b"\r\n"
OFFSET = b"ce-knativekafkaoffset:"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
DRAIN_SECONDS = 300.0


class Sleeper:
    """A subscriber that is there or not, and remembers the order in which events came."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            self._port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/"
        self.highest: dict[bytes, int] = {}  # offset by partition
        self.distinct = self.repeated = self.out_of_order = 0
        self.last_at = 0.0
        self._seen: dict[bytes, set[int]] = {}
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._connections: list[socket.socket] = []

    def wake(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=512)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def sleep(self) -> None:
        assert self._listener is not None
        self._listener.shutdown(socket.SHUT_RDWR)  # a close alone does not wake who waits in accept
        self._listener.close()
        for each in self._connections:
            each.close()
        self._connections.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Requests are short and come one at a time, so each is in one piece."""
        try:
            while request := connection.recv(65536):
                self._note(_field(request, PLACE), int(_field(request, OFFSET)))
                connection.sendall(OK)
        except (OSError, ValueError):
            return

    def _note(self, partition: bytes, offset: int) -> None:
        with self._lock:
            seen = self._seen.setdefault(partition, set())
            if offset in seen:
                self.repeated += 1
                return
            seen.add(offset)
            self.distinct += 1
            self.out_of_order += offset < self.highest.get(partition, -1)
            self.highest[partition] = max(offset, self.highest.get(partition, -1))
            self.last_at = time.monotonic()


def _field(request: bytes, name: bytes) -> bytes:
    at = request.lower().index(name) + len(name)
    return request[at : request.index(PLACE_END, at)].strip()


def hour(bench: Bench) -> None:
    sleeper = Sleeper()
    sleeper.wake()
    with bench.step(f"apply {NEIGHBOURS} triggers, and one whose subscriber will be down"):
        bench.system.apply(broker(NAME))
        others = [trigger(f"{NAME}-{n}", NAME, bench.sink.url(n)) for n in range(NEIGHBOURS)]
        for each in others:
            each["spec"]["filter"] = {"attributes": {"type": TYPE}}
        one = trigger(f"{NAME}-one", NAME, sleeper.url)
        one["metadata"]["annotations"] = ORDERED
        one["spec"]["delivery"] = PATIENT
        bench.system.apply(*others, one)
        url = bench.system.address(NAME)
    seconds = bench.profile.hour_seconds
    warm_up(bench, Arrangement(HOUR_BEFORE, NEIGHBOURS, url), bench.profile.warm_seconds / 3)
    measured = [measure(bench, Arrangement(HOUR_BEFORE, NEIGHBOURS, url), Offer(RATE, seconds))]
    before = _settled(sleeper)
    sleeper.sleep()
    filling = Filling(bench, bench.system.topic(urlsplit(url).path), seconds)
    measured.append(measure(bench, Arrangement(HOUR_MEANWHILE, NEIGHBOURS, url), Offer(RATE, seconds)))
    filled = filling.finish()
    woken = time.monotonic()
    sleeper.wake()
    measured.append(measure(bench, Arrangement(HOUR_AFTER, NEIGHBOURS, url), Offer(RATE, seconds)))
    expected = before + filled + sum(run.acknowledged for run in measured[1:])
    with bench.step("the one has all of it"):
        while sleeper.distinct < expected and time.monotonic() - woken < DRAIN_SECONDS:
            time.sleep(0.2)
    bench.results.hour = Hour(
        events=filled,
        missing=expected - sleeper.distinct,
        out_of_order=sleeper.out_of_order,
        twice=sleeper.repeated,
        drain_seconds=round(sleeper.last_at - woken, 1),
    )
    for name in (*(each["metadata"]["name"] for each in others), f"{NAME}-one"):
        bench.system.command("delete", "trigger", name)
    bench.system.command("delete", "broker", NAME)
    sleeper.sleep()


def _settled(sleeper: Sleeper) -> int:
    """How many have come, once no more do."""
    count = -1
    while count != sleeper.distinct:
        count = sleeper.distinct
        time.sleep(1.0)
    return count


class Filling:
    """The hour's events, evenly over some seconds, in a thread of its own."""

    def __init__(self, bench: Bench, topic: str, seconds: float) -> None:
        self._topic = topic
        self._seconds = seconds
        self._events = bench.profile.hour_events
        self._run = bench.next_run()
        self._producer = KafkaConnection(bench.system.bootstrap_servers, "bench").producer(**{"linger.ms": 5})
        self._failed = 0
        self._thread = threading.Thread(target=self._fill, daemon=True)
        self._thread.start()

    def finish(self) -> int:
        self._thread.join()
        if self._producer.flush(30.0) or self._failed:
            raise SystemFailed("Kafka did not take the hour's events")
        return self._events

    def _fill(self) -> None:
        began = time.monotonic()
        for number in range(self._events):
            headers = dict(record_headers(make_id(self._run, number, time.monotonic_ns())))
            headers["ce_type"] = HOUR_TYPE
            self._producer.produce(self._topic, DATA, headers=list(headers.items()), on_delivery=self._delivered)
            self._producer.poll(0)
            ahead = number / self._events * self._seconds - (time.monotonic() - began)
            if ahead > 0.01:
                time.sleep(ahead)

    def _delivered(self, error: object, _: object) -> None:
        self._failed += error is not None
