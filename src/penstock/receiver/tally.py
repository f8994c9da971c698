"""What the receiver counts: events accepted, requests refused and why, and how long Kafka took.

Counted on the event loop, as growth; ``grown`` hands it out once a second, for the telemetry topic and for the totals
that ``/metrics`` shows. With several processes on one port each keeps its totals in a file beside the others', and
whoever is asked adds them up.
"""

import os
import socket
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from time import time

from penstock.contract.telemetry import Telemetry, decode_telemetry, encode_telemetry
from penstock.telemetry.exposition import Sample, render
from penstock.telemetry.histogram import Durations, durations
from penstock.telemetry.metrics import (
    ACCEPTED,
    INGRESS_CONNECTIONS,
    INGRESS_IN_FLIGHT,
    INGRESS_SECONDS,
    PRODUCED,
    PRODUCED_FORMER,
    REJECTED,
)

UNKNOWN = ""  # the address of what is sent nowhere
IDLE_SECONDS = 3.0  # a sign of life when nothing comes; who is silent for 5 s is forgotten
MOST_WAITS = 5_000  # durations of an address that are kept apart before they are counted
STALE_SECONDS = 10.0  # a neighbour's file that is older is one of a process that ended


class Tally:
    """By address, which is the path of a route."""

    is_silent = False

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder  # of all processes on this port; None: there is only this one
        self._source = f"{socket.gethostname()}:{os.getpid()}"
        self._total = Telemetry(part="receiver", source=self._source)
        self._told = 0.0
        self._accepted: Counter[str] = Counter()
        self._produced: Counter[str] = Counter()
        self._rejected: dict[str, Counter[str]] = {}
        self._waits: dict[str, list[float]] = {}
        self._ingress: dict[str, Durations] = {}

    def accepted(self, address: str, topic: str, events: int, seconds: float) -> None:
        self._accepted[address] += events
        self._produced[topic] += events
        waits = self._waits.get(address)
        if waits is None:
            waits = self._waits[address] = []
        waits.append(seconds)
        if len(waits) >= MOST_WAITS:
            self._count_waits()

    def refused(self, address: str, reason: str) -> None:
        self._rejected.setdefault(address, Counter())[reason] += 1

    def grown(self, gauges: dict[str, float]) -> Telemetry | None:
        """The growth since the last time, and the state of this process; None when nothing happened just now."""
        self._count_waits()
        if not (self._accepted or self._rejected or any(gauges.values()) or time() > self._told + IDLE_SECONDS):
            return None
        self._told = time()
        growth = Telemetry(
            part="receiver",
            source=self._source,
            time=time(),
            accepted=dict(self._accepted),
            rejected={address: dict(reasons) for address, reasons in self._rejected.items()},
            produced=dict(self._produced),
            ingress=self._ingress,
            gauges=gauges,
        )
        self._accepted, self._produced, self._rejected, self._ingress = Counter(), Counter(), {}, {}
        _add(self._total, growth)
        self._total.gauges = gauges
        if self._folder is not None:
            _write(self._folder / f"{os.getpid()}.json", encode_telemetry(self._total))
        return growth

    def text(self, kinds: dict[str, str]) -> bytes:
        """For Prometheus: the totals of all processes. ``kinds`` of the resources, by address."""
        total = Telemetry()
        for each in (self._total, *self._neighbours()):
            _add(total, each)
            for name, value in each.gauges.items():
                total.gauges[name] = total.gauges.get(name, 0) + value
        for address in kinds:
            total.accepted.setdefault(address, 0)  # at 0 from the start, so that a rate has something to stand on
        return render(_samples(total, kinds), always=(REJECTED, INGRESS_SECONDS, PRODUCED, PRODUCED_FORMER))

    def _count_waits(self) -> None:
        for address, waits in self._waits.items():
            self._ingress.setdefault(address, Durations({})).add(durations(waits))
        self._waits.clear()

    def _neighbours(self) -> Iterable[Telemetry]:
        for path in sorted(self._folder.glob("*.json")) if self._folder is not None else ():
            if path.stem != str(os.getpid()):
                try:
                    told = decode_telemetry(path.read_bytes())
                except (OSError, ValueError):
                    continue  # it has just ended
                if path.stat().st_mtime < time() - STALE_SECONDS:
                    told.gauges = {}
                yield told


class SilentTally(Tally):
    """For measuring what the other costs."""

    is_silent = True

    def accepted(self, address: str, topic: str, events: int, seconds: float) -> None:
        pass

    def refused(self, address: str, reason: str) -> None:
        pass


def _add(total: Telemetry, growth: Telemetry) -> None:
    for address, events in growth.accepted.items():
        total.accepted[address] = total.accepted.get(address, 0) + events
    for topic, events in growth.produced.items():
        total.produced[topic] = total.produced.get(topic, 0) + events
    for address, reasons in growth.rejected.items():
        found = total.rejected.setdefault(address, {})
        for reason, requests in reasons.items():
            found[reason] = found.get(reason, 0) + requests
    for address, waits in growth.ingress.items():
        total.ingress.setdefault(address, Durations({})).add(waits)


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(path)


def _samples(total: Telemetry, kinds: dict[str, str]) -> Iterable[Sample]:
    def labels(address: str) -> tuple[str, str, str]:
        _, namespace, name = address.split("/", 2) if address.count("/") >= 2 else ("", "", "")
        return kinds.get(address, ""), namespace, name

    yield from (Sample(ACCEPTED, labels(address), events) for address, events in total.accepted.items())
    for address, reasons in total.rejected.items():
        yield from (Sample(REJECTED, (*labels(address), reason), n) for reason, n in reasons.items())
    for metric in (PRODUCED, PRODUCED_FORMER):
        yield from (Sample(metric, (topic,), events) for topic, events in total.produced.items())
    yield from (Sample(INGRESS_SECONDS, labels(address), each) for address, each in total.ingress.items())
    for metric in (INGRESS_IN_FLIGHT, INGRESS_CONNECTIONS):
        yield Sample(metric, (), total.gauges.get(metric.name, 0))
