"""Scenarios of neighbours: nine subscribers beside one that hangs, and a hundred brokers that nobody uses."""

import json
import os
import signal
import socket
import threading
import time
from typing import Any

from bench.children import run_load
from bench.load import LoadPlan
from bench.measure import Arrangement, Bench, Offer, measure, wait_for_arrivals, warm_up
from bench.model import BESIDE_HANGING, UNDISTURBED, IdleBrokers
from bench.system import SystemFailed, broker, trigger
from penstock.delivery.sizing import Bounds, sizing
from penstock.pipeline.settings import DispatcherSettings

NINE = "nine"
RATE = 200.0
EVENT_BYTES = 400
WORKERS = "workers"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Moody:
    """A subscriber that answers, or does not, as it is told."""

    def __init__(self) -> None:
        self.hangs = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Requests are short and come one at a time, so each is in one piece."""
        try:
            while connection.recv(65536):
                if not self.hangs:
                    connection.sendall(OK)
        except OSError:
            return


def hanging(bench: Bench) -> None:
    """The latency of nine before and while the tenth hangs, and the memory of all workers meanwhile."""
    moody = Moody()
    with bench.step("apply ten triggers, one of them moody"):
        bench.system.apply(broker(NINE))
        triggers = [trigger(f"nine-{n}", NINE, bench.sink.url(n)) for n in range(9)]
        bench.system.apply(*triggers, trigger("tenth", NINE, moody.url))
        url = bench.system.address(NINE)
    seconds = bench.profile.hanging_seconds
    warm_up(bench, Arrangement(UNDISTURBED, 9, url), bench.profile.warm_seconds / 3)
    measure(bench, Arrangement(UNDISTURBED, 9, url), Offer(RATE, seconds))
    moody.hangs = True
    highest = Highest(bench)
    measure(bench, Arrangement(BESIDE_HANGING, 9, url), Offer(RATE, seconds))
    bench.results.hanging_worker_megabytes = highest.stop()
    settings = DispatcherSettings()
    bounds = Bounds(settings.delivery_window, settings.unfinished_rows, settings.unfinished_megabytes)
    partitions = _partitions(bench)
    bench.results.hanging_estimate_megabytes = round(sizing(10, partitions, EVENT_BYTES, 1, bounds).total, 1)
    moody.hangs = False
    with bench.step("the tenth drains"):
        names = [f"nine-{n}" for n in range(9)] + ["tenth"]
        for name in names:
            bench.system.command("delete", "trigger", name)
        bench.system.command("delete", "broker", NINE)
    moody.close()


class Highest:
    """The most memory that all workers had together, looked at twice a second."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._found = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        self._stopping.set()
        self._thread.join()
        return self._found

    def _look(self) -> None:
        while not self._stopping.wait(0.5):
            memory = self._bench.system.snapshot().memory().get(WORKERS)
            self._found = max(self._found, memory.proportional if memory else 0.0)


def idle_brokers(bench: Bench) -> None:
    """Brokers of ten partitions with a trigger each, and nothing to do: what they cost, and their first events."""
    count, config = bench.profile.idle_brokers, "ten-partitions"
    data = {"default.topic.partitions": "10", "default.topic.replication.factor": "1"}
    resources: list[dict[str, Any]] = []
    for number in range(count):
        made = broker(f"idle-{number}")
        made["spec"] = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": config}}
        resources += [made, trigger(f"idle-{number}", f"idle-{number}", bench.sink.url(0))]
    with bench.step(f"apply {count} brokers"):
        bench.system.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": config}, "data": data}, wait=False
        )
        bench.system.apply(*resources, seconds=600.0)
    with bench.step("the dispatcher starts again; all of them are quiet"):
        _restart_dispatcher(bench)
        _await_gear(bench, "cold", count)
        time.sleep(bench.profile.settle_seconds + count / 2)  # their starts are prepared, two in a second
    with bench.step(f"{count} idle brokers"):
        groups = ("dispatcher", "dispatcher JVM", WORKERS)
        before, began = bench.system.snapshot(), time.monotonic()
        time.sleep(bench.profile.idle_seconds)
        after, took = bench.system.snapshot(), time.monotonic() - began
        spent = after.cpu_since(before)
        memory = after.memory()
    with bench.step("their first events"):
        firsts = [_one_event(bench, f"idle-{number}") for number in range(0, count, max(1, count // 5))]
        time.sleep(2.0)
        for _ in range(40):  # every partition has had one by then
            _one_event(bench, "idle-0")
        later = [_one_event(bench, "idle-0") for _ in range(20)]
    bench.results.idle_brokers = IdleBrokers(
        brokers=count,
        core_percent=round(100 * sum(spent.get(group, 0.0) for group in groups) / took, 1),
        megabytes=round(sum(memory[group].proportional for group in groups if group in memory), 1),
        first_event_ms=[round(each, 1) for each in firsts],
        later_event_ms=round(sorted(later)[len(later) // 2], 1),
    )


def _one_event(bench: Bench, name: str) -> float:
    """Milliseconds from the sending of one event to its arrival."""
    bench.sink.reset(run := bench.next_run())
    load = run_load(LoadPlan(bench.system.address(name), run, 5.0, 0.0, 1, 1))
    if wait_for_arrivals(bench.sink, load.acknowledged) < 1:
        raise SystemFailed(f"the event of {name} did not come")
    return (bench.sink.stats().last_arrival_ns - load.first_sent_ns) / 1e6


def _restart_dispatcher(bench: Bench) -> None:
    mark = bench.system.data_dir / "run" / "dispatcher.ready"
    before = mark.read_text()
    os.kill(int(before), signal.SIGTERM)
    deadline = time.monotonic() + 120
    while not mark.exists() or mark.read_text() in ("", before):
        if time.monotonic() > deadline:
            raise SystemFailed("the dispatcher did not start again")
        time.sleep(0.1)


def _await_gear(bench: Bench, gear: str, count: int) -> None:
    deadline = time.monotonic() + 180
    while sum(each["gear"] == gear for each in _queries(bench)) < count:
        if time.monotonic() > deadline:
            raise SystemFailed(f"not all of {count} topics are in {gear} gear")
        time.sleep(1.0)


def _queries(bench: Bench) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(bench.system.command("status", "-o", "json"))["queries"]
    except SystemFailed:
        return []  # a part is starting
    return found


def _partitions(bench: Bench) -> int:
    found = json.loads(bench.system.command("get", "broker", NINE, "-o", "json"))
    return int(found["status"]["annotations"]["penstock.dev/partitions"])
