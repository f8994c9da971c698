"""Whether what Penstock shows of itself is true: its own numbers beside those of the generator and the sink.

Also called by ``tests/system/test_truth.py``.
"""

import json
import re
import statistics
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable
from typing import Any

from bench.measure import Arrangement, Bench, Offer, measure, warm_up
from bench.model import SHOWN, Truth
from bench.system import broker, trigger
from penstock.telemetry.histogram import BOUNDS, quantile
from penstock.telemetry.metrics import ACCEPTED, DELIVERED, WHOLE_WAY

NAME = "truth"
TRIGGERS = 10
RATES = (50.0, 200.0, 400.0, 1000.0)  # from nobody waits to all that the machine has
TOLD_SECONDS = 3.0  # workers tell once a second
SAMPLE = re.compile(r'^(\w+)\{kind="\w+",namespace="default",name="truth[-\d]*"(?:,le="(.+)")?\} (\S+)$')


def truth(bench: Bench) -> None:
    at_rates(bench, RATES)


def at_rates(bench: Bench, rates: Iterable[float]) -> None:
    """Ten triggers at steady rates: counts, rates and the whole way, as shown and as measured from outside."""
    resources = [broker(NAME), *(trigger(f"{NAME}-{n}", NAME, bench.sink.url(n)) for n in range(TRIGGERS))]
    with bench.step(f"apply a broker with {TRIGGERS} triggers"):
        bench.system.apply(*resources)
    arrangement = Arrangement(SHOWN, TRIGGERS, bench.system.address(NAME))
    warm_up(bench, arrangement, bench.profile.warm_seconds / 2)
    for rate in rates:
        bench.results.truth.append(_compared(bench, arrangement, rate))
    for each in reversed(resources):
        bench.system.command("delete", each["kind"].lower(), each["metadata"]["name"])


def _compared(bench: Bench, arrangement: Arrangement, rate: float) -> Truth:
    time.sleep(TOLD_SECONDS)
    before, watcher = _metrics(bench), Watcher(bench)
    run = measure(bench, arrangement, Offer(rate, bench.profile.steady_seconds, is_stamped_when_sent=True))
    watcher.stop()
    time.sleep(TOLD_SECONDS)
    grown = _metrics(bench) - before
    buckets = _buckets(grown)
    count = grown[WHOLE_WAY.name + "_count", ""]
    return Truth(
        rate=rate,
        accepted_shown=int(grown[ACCEPTED.name, ""]),
        accepted_sent=run.acknowledged,
        delivered_shown=int(grown[DELIVERED.name, ""]),
        delivered_seen=run.deliveries + run.duplicates,
        in_per_second_shown=watcher.median("in_per_second"),
        in_per_second_sent=run.acknowledged_per_second,
        delivered_per_second_shown=watcher.median("delivered_per_second"),
        delivered_per_second_seen=run.deliveries_per_second,
        whole_way_mean_shown=round(grown[WHOLE_WAY.name + "_sum", ""] / count * 1000, 3) if count else 0.0,
        whole_way_mean_seen=run.whole_way.mean,
        whole_way_p50_shown=round((quantile(buckets, 0.5) or 0) * 1000, 3),
        whole_way_p50_seen=run.whole_way.p50,
        whole_way_p99_shown=round((quantile(buckets, 0.99) or 0) * 1000, 3),
        whole_way_p99_seen=run.whole_way.p99,
    )


class Watcher:
    """Looks at the live numbers as a page does, while a load runs; the first and last seconds do not count."""

    def __init__(self, bench: Bench) -> None:
        self._url = f"{bench.system.server}/api/penstock/live?once=1"
        self._seen: list[dict[str, Any]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def median(self, name: str) -> float:
        steady = [each[name] for each in self._seen[7:-2]] or [0.0]  # rates are over five seconds
        return float(round(statistics.median(steady), 1))

    def _look(self) -> None:
        while not self._stopping.wait(1.0):
            self._seen.append(json.loads(_get(self._url))["totals"])


def _metrics(bench: Bench) -> Counter[tuple[str, str]]:
    """Of this scenario's resources together, by name and bucket."""
    found: Counter[tuple[str, str]] = Counter()
    for line in _get(f"{bench.system.server}/metrics").decode().splitlines():
        sample = SAMPLE.match(line)
        if sample:
            found[sample[1], sample[2] or ""] += float(sample[3])  # type: ignore[assignment]
    return found


def _buckets(grown: Counter[tuple[str, str]]) -> dict[int, int]:
    """From sums up to a bound, as Prometheus has them, to what lies in each bucket."""
    found, below = {}, 0.0
    for number, bound in enumerate((*(f"{bound:g}" for bound in BOUNDS), "+Inf")):
        total = grown[WHOLE_WAY.name + "_bucket", bound]
        found[number], below = int(total - below), total
    return found


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
    return content
