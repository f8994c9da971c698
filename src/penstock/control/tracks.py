"""What happened lately, second by second: rates and percentiles are read off it. Pure; the clock is passed in.

A process tells once a second how much there was since the last time, so what it tells at 12.3 happened between 11.3
and 12.3. Amounts are divided between the two seconds by that; so a rate is true although those who tell do not do it
at the same moment.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.telemetry.histogram import Durations

TOLD_EVERY_SECONDS = 1.0
# A second is complete when all have told of it: those who told at its end tell again a second later, and the record
# takes a moment to come.
LATE_SECONDS = 1.25
RATE_SECONDS = 5
PERCENTILE_SECONDS = 30
KEPT_SECONDS = PERCENTILE_SECONDS + 6


@dataclass
class Second:
    flows: dict[str, float] = field(default_factory=dict)
    spent: dict[str, Durations] = field(default_factory=dict)


@dataclass(frozen=True)
class Recent:
    """What a track says of the last seconds. Rates per second, durations over half a minute."""

    rates: Mapping[str, float]
    half_minute: Mapping[str, float]  # amounts by flow
    spent: Mapping[str, Durations]

    def rate(self, flow: str) -> float:
        return round(self.rates.get(flow, 0.0), 3)

    def lately(self, flow: str) -> float:
        return self.half_minute.get(flow, 0.0)

    def percentiles(self, what: str, *shares: float) -> list[float | None]:
        """In milliseconds."""
        return milliseconds(self.spent.get(what) or Durations({}), shares)


NOTHING = Recent({}, {}, {})


def add_counts(sums: Counter[str], more: Mapping[str, Any]) -> None:
    """``Counter.update`` for a few: it looks at what it was given for longer than that takes."""
    for name, count in more.items():
        sums[name] += count


def together(found: Iterable[Recent]) -> Recent:
    rates: Counter[str] = Counter()
    half_minute: Counter[str] = Counter()
    spent: dict[str, Durations] = {}
    for each in found:
        add_counts(rates, each.rates)
        add_counts(half_minute, each.half_minute)
        for what, durations in each.spent.items():
            spent.setdefault(what, Durations({})).add(durations)
    return Recent(rates, half_minute, spent)


class Track:
    """Of one subscription, or of one address."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds: dict[int, Second] = {}

    def add(self, at: float, flow: str, amount: int) -> None:
        """``at``: when it was told."""
        if not amount:
            return
        began = at - TOLD_EVERY_SECONDS
        first = math.floor(began)
        share = first + 1 - began
        self._flow(first, flow, amount * share)
        self._flow(first + 1, flow, amount * (1 - share))

    def spend(self, at: float, what: str, durations: Durations | None) -> None:
        if durations is None or not durations.counts:
            return
        spent = self._second(math.floor(at - TOLD_EVERY_SECONDS / 2)).spent
        if what not in spent:
            spent[what] = Durations({})
        spent[what].add(durations)

    def recent(self, now: float) -> Recent:
        end = complete(now)
        rates: dict[str, float] = {}
        half_minute: dict[str, float] = {}
        spent: dict[str, Durations] = {}
        for number, second in self.seconds.items():
            if not end - PERCENTILE_SECONDS <= number:
                continue
            for flow, amount in second.flows.items():
                half_minute[flow] = half_minute.get(flow, 0.0) + amount
                if end - RATE_SECONDS <= number < end:
                    rates[flow] = rates.get(flow, 0.0) + amount / RATE_SECONDS
            for what, durations in second.spent.items():
                spent.setdefault(what, Durations({})).add(durations)
        return Recent(rates, half_minute, spent)

    def forget(self, before: int) -> None:
        for each in [each for each in self.seconds if each < before]:
            del self.seconds[each]

    def _flow(self, second: int, flow: str, amount: float) -> None:
        if amount:
            flows = self._second(second).flows
            flows[flow] = flows.get(flow, 0.0) + amount

    def _second(self, second: int) -> Second:
        found = self.seconds.get(second)
        if found is None:
            found = self.seconds[second] = Second()
        return found


def complete(now: float) -> int:
    """The first second of which not everything is known yet."""
    return math.floor(now - LATE_SECONDS)


def milliseconds(durations: Durations, shares: Iterable[float]) -> list[float | None]:
    found = (durations.quantile(share) for share in shares)
    return [None if seconds is None else round(seconds * 1000, 3) for seconds in found]
