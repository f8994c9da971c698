"""An hour of history in memory, in steps of two seconds. Pure: told what happened, asked for what was.

Each track of ``telemetry`` has a ring of numbers, made when something first happens to it; a subscription that never
has an event costs nothing. There are at most so many rings; whoever has been quiet longest makes room.
"""

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.control.tracks import Track, milliseconds
from penstock.telemetry.histogram import Durations

STEP_SECONDS = 2
KEPT_STEPS = 3600 // STEP_SECONDS
FIELDS = (
    *("in", "delivered", "failed", "p50_ms", "p95_ms", "p99_ms"),
    *("lag", "oldest_waiting_seconds", "waiting_p95_ms", "subscriber_p95_ms"),
)
WHERE = {field: number for number, field in enumerate(FIELDS)}
COUNTED = ("in", "delivered", "failed", "lag", "oldest_waiting_seconds")  # nothing told means 0, not unknown
ALL = ""
MOST_REFUSED = 10_000  # whoever has no history and is not known to have none would seem idle


class Ring:
    """The last steps; what was never put is NaN."""

    def __init__(self) -> None:
        self.newest = -1
        self._values = array("f", [math.nan]) * (KEPT_STEPS * len(FIELDS))

    def put(self, step: int, field: str, value: float | None) -> None:
        if value is None or step <= self.newest - KEPT_STEPS:
            return
        if step > self.newest:
            for each in range(max(self.newest + 1, step - KEPT_STEPS + 1), step + 1):
                at = each % KEPT_STEPS * len(FIELDS)
                self._values[at : at + len(FIELDS)] = array("f", [math.nan]) * len(FIELDS)
            self.newest = step
        self._values[step % KEPT_STEPS * len(FIELDS) + WHERE[field]] = value

    def get(self, step: int, field: str) -> float | None:
        if not self.newest - KEPT_STEPS < step <= self.newest:
            return None
        value = self._values[step % KEPT_STEPS * len(FIELDS) + WHERE[field]]
        return None if math.isnan(value) else value


class Series:
    def __init__(self, most: int = 500) -> None:
        self._most = most
        self._rings: dict[str, Ring] = {ALL: Ring()}
        self._refused: set[str] = set()
        self._closed = -1  # the last step that is complete

    @property
    def open_from(self) -> int:
        """The first second that can still be told of."""
        return (self._closed + 1) * STEP_SECONDS

    def close(self, tracks: Mapping[str, Track], complete: int) -> bool:
        """Takes over the steps before the second ``complete``. Whether there were any."""
        last = complete // STEP_SECONDS - 1
        if last <= self._closed:
            return False
        if self._closed < 0:
            begun = min((second for track in tracks.values() for second in track.seconds), default=complete)
            self._closed = min(last, begun // STEP_SECONDS) - 1
        for step in range(max(self._closed, last - KEPT_STEPS) + 1, last + 1):
            self._take(step, ALL, tracks.values())
            for name, track in tracks.items():
                self._take(step, name, (track,))
        self._closed = last
        return True

    def note(self, name: str, now: float, values: Mapping[str, float | None]) -> None:
        """States of this moment, such as the lag. What is 0 of somebody who has no history needs none."""
        if name in self._rings or any(values.values()):
            ring = self._ring(name, int(now) // STEP_SECONDS)
            for field, value in values.items():
                if ring is not None:
                    ring.put(int(now) // STEP_SECONDS, field, value)

    def drop(self, name: str) -> None:
        self._rings.pop(name, None)
        self._refused.discard(name)

    def read(self, name: str, now: float, minutes: float) -> dict[str, Any]:
        """The answer to a question for the history: times and values of the same length, None where unknown."""
        steps = min(KEPT_STEPS, max(1, math.ceil(minutes * 60 / STEP_SECONDS)))
        last = self._closed if self._closed >= 0 else int(now) // STEP_SECONDS - 1
        wanted = range(last - steps + 1, last + 1)
        return {
            "step_seconds": STEP_SECONDS,
            "times": [step * STEP_SECONDS for step in wanted],
            "series": {field: [self._value(name, step, field) for step in wanted] for field in FIELDS},
        }

    def _value(self, name: str, step: int, field: str) -> float | None:
        ring = self._rings.get(name)
        found = ring.get(step, field) if ring is not None else None
        if found is None and field in COUNTED and name not in self._refused:
            is_known = self._rings[ALL].get(step, field) is not None
            return 0.0 if is_known else None
        return None if found is None else round(found, 3)

    def _take(self, step: int, name: str, tracks: Iterable[Track]) -> None:
        begin = step * STEP_SECONDS
        numbers = range(begin, begin + STEP_SECONDS)
        seconds = [track.seconds[each] for track in tracks for each in numbers if each in track.seconds]
        if not seconds and name != ALL:
            return
        ring = self._ring(name, step)
        if ring is None:
            return
        spent: dict[str, Durations] = {}
        for second in seconds:
            for what, durations in second.spent.items():
                spent.setdefault(what, Durations({})).add(durations)
        came = "in" if name == ALL or any("in" in second.flows for second in seconds) else "matched"
        for field, flow in (("in", came), ("delivered", "delivered"), ("failed", "failed")):
            ring.put(step, field, sum(second.flows.get(flow, 0.0) for second in seconds) / STEP_SECONDS)
        whole = spent.get("whole") or (spent.get("ingress") if name != ALL else None) or Durations({})
        fields = ("p50_ms", "p95_ms", "p99_ms")
        for field, value in zip(fields, milliseconds(whole, (0.5, 0.95, 0.99)), strict=True):
            ring.put(step, field, value)
        for field, what in (("waiting_p95_ms", "waiting"), ("subscriber_p95_ms", "subscriber")):
            ring.put(step, field, milliseconds(spent.get(what) or Durations({}), (0.95,))[0])

    def _ring(self, name: str, step: int) -> Ring | None:
        ring = self._rings.get(name)
        if ring is None:
            if len(self._rings) > self._most and not self._make_room(step):
                if len(self._refused) < MOST_REFUSED:
                    self._refused.add(name)
                return None
            ring = self._rings[name] = Ring()
            self._refused.discard(name)
        return ring

    def _make_room(self, step: int) -> bool:
        others = [(ring.newest, name) for name, ring in self._rings.items() if name != ALL]
        newest, name = min(others, default=(step, ""))
        if newest > step - KEPT_STEPS:
            return False
        del self._rings[name]
        return True
