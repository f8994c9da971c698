"""Scenarios of filters: what they cost beside one trigger that wants everything, and how soon a change counts.

Each has a broker of its own. Every event matches exactly one of its triggers, and all of them have the same
subscriber, so that only the matching differs. Each is measured in turns with a trigger that has no filter: the speed
of a shared machine changes within minutes.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.children import run_load
from bench.events import SOURCE
from bench.load import LoadPlan
from bench.measure import Arrangement, Bench, Offer, measure, warm_up
from bench.model import CESQL_100, EXACT_1000, TEN_TERMS, without
from bench.system import SystemFailed, broker, trigger

TEN_TERMS_CESQL = " AND ".join(
    [
        "type LIKE 'dev.penstock.%'",
        "source != '/nobody'",
        "LENGTH(id) > 10",
        "EXISTS datacontenttype",
        "datacontenttype LIKE 'application/%'",
        "UPPER(source) != 'X'",
        "type NOT IN ('a', 'b')",
        "LEFT(type, 3) = 'dev'",
        "LENGTH(datacontenttype) < 100",
        "id != 'never'",
    ]
)
PLAIN = "plain"  # the broker of the trigger without a filter
TURNS = 2
CHANGES = 4
CHANGE_SECONDS = 30.0
APPLY_SECONDS = 300.0


def ten_terms(bench: Bench) -> None:
    _measure(bench, TEN_TERMS, "ten-terms", [[{"cesql": TEN_TERMS_CESQL}]], types=0)


def exact_1000(bench: Bench) -> None:
    filters = [[{"exact": {"type": _type(n)}}] for n in range(1000)]
    url = _measure(bench, EXACT_1000, "exact", filters, types=1000)
    for number in range(CHANGES):
        bench.results.change_seconds.append(_change(bench, url, number))


def cesql_100(bench: Bench) -> None:
    """All different, and none with an equality that a table could answer."""
    filters = [
        [{"cesql": f"type LIKE '%.{n}' AND LENGTH(datacontenttype) > {n % 7} AND source != '/not/{n}'"}]
        for n in range(100)
    ]
    _measure(bench, CESQL_100, "cesql", filters, types=100)


def _type(number: int) -> str:
    return f"dev.penstock.bench.{number}"


def _measure(
    bench: Bench, scenario: str, name: str, filters: Sequence[Sequence[Mapping[str, Any]]], types: int
) -> str:
    profile = bench.profile
    with bench.step(f"apply {len(filters)} trigger{'s' if len(filters) > 1 else ''} for {scenario}"):
        bench.system.apply(broker(name))
        resources = [_trigger(bench, name, number, each) for number, each in enumerate(filters)]
        bench.system.apply(*resources, seconds=APPLY_SECONDS)
    url, offer = bench.system.address(name), Offer(seconds=profile.full_seconds, events=profile.full_events_one // 2)
    filtered = Arrangement(scenario, 1, url, types=types)
    plain = Arrangement(without(scenario), 1, _plain(bench))
    warm_up(bench, plain, profile.warm_seconds / 6)
    warm_up(bench, filtered, profile.warm_seconds / 3)
    for arrangement in (plain, filtered, filtered, plain) * TURNS:
        measure(bench, arrangement, offer)
    return url


def _plain(bench: Bench) -> str:
    """The address of a broker whose only trigger wants everything."""
    bench.system.apply(broker(PLAIN))
    bench.system.apply(trigger(PLAIN, PLAIN, bench.sink.url(0)))
    return bench.system.address(PLAIN)


def _trigger(
    bench: Bench, broker_name: str, number: int, filters: Sequence[Mapping[str, Any]], lane: int = 0
) -> dict[str, Any]:
    made = trigger(f"{broker_name}-{number}", broker_name, bench.sink.url(lane))
    made["spec"]["filters"] = list(filters)
    return made


def _change(bench: Bench, url: str, number: int) -> float:
    """From the moment at which the change is applied to the first event that comes because of it."""
    lane = number + 1
    wants_all = _trigger(bench, "exact", number, [{"exact": {"source": SOURCE}}], lane)
    with bench.step(f"change {number + 1} among 1,000 triggers"):
        bench.sink.reset(run := bench.next_run())
        plan = LoadPlan(url, run, CHANGE_SECONDS / 2, 100.0, types=1000)
        load = threading.Thread(target=run_load, args=(plan,))
        load.start()
        try:
            bench.system.apply(wants_all, wait=False)
            applied = time.monotonic()
            while time.monotonic() < applied + CHANGE_SECONDS:
                if bench.sink.stats().distinct_per_lane.get(f"/t/{lane}"):
                    return round(time.monotonic() - applied, 2)
                time.sleep(0.02)
        finally:
            load.join()
    raise SystemFailed(f"a change of a trigger was not in force after {CHANGE_SECONDS:g} s")
