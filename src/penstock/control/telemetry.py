"""What all processes tell, added up: read from the telemetry topic, shown by the metrics and the live feed.

    telemetry topic ──▶ Sums (counters since the topic's beginning) ──▶ /metrics
                    ├─▶ Track (the last half minute, by second)      ──▶ rates, percentiles
                    ├─▶ Series (an hour in steps)                    ──▶ history
                    └─▶ states (holds, gauges) by who told them, until he falls silent

The sums begin with what the topic still holds when the controller starts, as counters may; the series too, so a
restart of the controller leaves no hole in them.
"""

import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.contract.telemetry import TELEMETRY_TOPIC, Holds, Served, Telemetry, decode_telemetry
from penstock.control.series import Series
from penstock.control.tracks import KEPT_SECONDS, TOLD_EVERY_SECONDS, Recent, Track, add_counts, complete, together
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import Table
from penstock.telemetry.histogram import Durations

SILENT_SECONDS = 5.0  # after which what somebody held is not held any more
SILENT_DISPATCHER_SECONDS = 20.0  # which tells every few seconds
WRONG_CLOCK_SECONDS = 10.0  # who tells of another time than ours has a clock of his own
LATER_SECONDS = 2  # the history waits longer for what is late than a rate does: it is not told again
FORGET_SECONDS = 600.0  # after which sums of what is no more are forgotten

ALL = ""  # the name of everything together
UNKNOWN = "?"  # of addresses that lead nowhere


@dataclass
class OfSubscription:
    matched: int = 0
    retries: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    filter_errors: Counter[str] = field(default_factory=Counter)
    kafka_to_subscriber: Durations = field(default_factory=lambda: Durations({}))
    subscriber: Durations = field(default_factory=lambda: Durations({}))
    whole_way: Durations = field(default_factory=lambda: Durations({}))

    def copy(self) -> "OfSubscription":
        return OfSubscription(
            self.matched,
            self.retries,
            self.outcomes.copy(),
            self.attempts.copy(),
            self.filter_errors.copy(),
            _copied(self.kafka_to_subscriber),
            _copied(self.subscriber),
            _copied(self.whole_way),
        )

    def add(self, other: "OfSubscription") -> None:
        self.matched += other.matched
        self.retries += other.retries
        add_counts(self.outcomes, other.outcomes)
        add_counts(self.attempts, other.attempts)
        add_counts(self.filter_errors, other.filter_errors)
        self.kafka_to_subscriber.add(other.kafka_to_subscriber)
        self.subscriber.add(other.subscriber)
        self.whole_way.add(other.whole_way)


@dataclass
class OfAddress:
    accepted: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    seconds: Durations = field(default_factory=lambda: Durations({}))

    def copy(self) -> "OfAddress":
        return OfAddress(self.accepted, self.rejected.copy(), _copied(self.seconds))


def _copied(of: Durations) -> Durations:
    return Durations(dict(of.counts), of.sum)


@dataclass
class Sums:
    """Everything that only grows."""

    subscriptions: dict[str, OfSubscription] = field(default_factory=dict)  # by uid
    addresses: dict[str, OfAddress] = field(default_factory=dict)  # "/namespace/name", or "" for an unknown one
    produced: Counter[str] = field(default_factory=Counter)  # by topic, as the rest
    consumed: Counter[tuple[str, int]] = field(default_factory=Counter)  # and partition
    bad_records: Counter[str] = field(default_factory=Counter)
    gaps: Counter[str] = field(default_factory=Counter)
    query_starts: Counter[str] = field(default_factory=Counter)
    batch_gaps: dict[str, Durations] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)  # what could not be told, by part

    def copy(self) -> "Sums":
        return replace(
            self,
            subscriptions={uid: each.copy() for uid, each in self.subscriptions.items()},
            addresses={address: each.copy() for address, each in self.addresses.items()},
            produced=self.produced.copy(),
            consumed=self.consumed.copy(),
            bad_records=self.bad_records.copy(),
            gaps=self.gaps.copy(),
            query_starts=self.query_starts.copy(),
            batch_gaps={topic: _copied(each) for topic, each in self.batch_gaps.items()},
            dropped=self.dropped.copy(),
        )

    def add(self, told: Telemetry) -> None:
        for uid, served in told.served.items():
            _add_served(self.subscriptions.setdefault(uid, OfSubscription()), served)
        for uid, errors in told.filter_errors.items():
            self.subscriptions.setdefault(uid, OfSubscription()).filter_errors.update(errors)
        for address, count in told.accepted.items():
            self.addresses.setdefault(address, OfAddress()).accepted += count
        for address, reasons in told.rejected.items():
            self.addresses.setdefault(address, OfAddress()).rejected.update(reasons)
        for address, spent in told.ingress.items():
            self.addresses.setdefault(address, OfAddress()).seconds.add(spent)
        self.produced.update(told.produced)
        self.bad_records.update(told.bad_records)
        self.gaps.update(told.gaps)
        self.query_starts.update(told.query_starts)
        if told.consumed:
            self.consumed[told.topic, told.partition] += told.consumed
        for topic, gaps in told.batch_gaps.items():
            self.batch_gaps.setdefault(topic, Durations({})).add(gaps)
        self.dropped[told.part] += told.dropped


def _add_served(sums: OfSubscription, served: Served) -> None:
    sums.matched += served.matched
    sums.retries += served.retries
    add_counts(sums.outcomes, served.outcomes)
    add_counts(sums.attempts, served.attempts)
    if served.kafka_to_subscriber is not None:
        sums.kafka_to_subscriber.add(served.kafka_to_subscriber)
    if served.subscriber is not None:
        sums.subscriber.add(served.subscriber)
    if served.whole_way is not None:
        sums.whole_way.add(served.whole_way)


@dataclass(frozen=True)
class State:
    """What one process said last of what it has in hand."""

    heard: float  # by our monotonic clock
    part: str
    holds: Mapping[str, Holds]
    gauges: Mapping[str, float]


class Counts:
    """May be asked by any thread. What it returns is the caller's own."""

    def __init__(self, connection: KafkaConnection, most_series: int = 500) -> None:
        self._lock = threading.Lock()
        self._sums = Sums()
        self._series = Series(most_series)
        self._tracks: dict[str, Track] = {}  # by uid or address
        self._states: dict[str, State] = {}
        self._readers: dict[str, Collection[str]] = {}
        self._touched: dict[str, float] = {}  # by uid, address or topic
        self._began: dict[str, dict[tuple[str, int], int]] | None = None  # what was consumed before somebody came
        self._table = Table(connection, TELEMETRY_TOPIC, self._take)
        self.follower = self._table.follower

    def start(self) -> "Counts":
        self._table.start()
        return self

    def stop(self) -> None:
        self._table.stop()

    def sums(self) -> Sums:
        with self._lock:
            return self._sums.copy()

    def recent(self, now: float) -> dict[str, Recent]:
        """Rates and percentiles by uid or address, of those to whom something happened; ``ALL`` is all together."""
        with self._lock:
            found = {name: track.recent(now) for name, track in self._tracks.items() if track.seconds}
        return {ALL: together(found.values()), **found}

    def history(self, name: str, now: float, minutes: float) -> dict[str, Any]:
        with self._lock:
            return self._series.read(name, now, minutes)

    def note(self, now: float, states: Mapping[str, Mapping[str, float | None]]) -> None:
        """States of this moment for the history, by uid or address; and what is complete by now goes there too."""
        with self._lock:
            if self._table.is_current:
                self._close(now)
            for name, values in states.items():
                self._series.note(name, now, values)

    def note_readers(self, readers: Mapping[str, Collection[str]]) -> None:
        """Who reads which topics, by uid. What was consumed before somebody came is not his."""
        with self._lock:
            before = self._began
            self._began = {
                uid: {where: count for where, count in self._sums.consumed.items() if where[0] in places}
                if before is not None and uid not in before
                else (before or {}).get(uid, {})
                for uid, places in readers.items()
            }
            self._readers = dict(readers)

    def consumed_by(self) -> dict[tuple[str, str, int], int]:
        """Records that were read for a subscription, by uid, place and partition."""
        with self._lock:
            by_place: dict[str, list[tuple[int, int]]] = {}
            for (place, partition), count in self._sums.consumed.items():
                by_place.setdefault(place, []).append((partition, count))
            began = self._began or {}
            return {
                (uid, place, partition): count - began.get(uid, {}).get((place, partition), 0)
                for uid, places in self._readers.items()
                for place in places
                for partition, count in by_place.get(place, ())
            }

    def states(self) -> list[State]:
        """Of those who have been heard lately."""
        with self._lock:
            self._drop_silent()
            return list(self._states.values())

    def forget_unless(self, known: Collection[str]) -> None:
        """Drops the sums of subscriptions, addresses and topics that are no more."""
        long_ago = time.monotonic() - FORGET_SECONDS
        with self._lock:
            gone = [each for each, at in self._touched.items() if at < long_ago and each not in known]
            for each in gone:
                del self._touched[each]
                self._tracks.pop(each, None)
                self._sums.subscriptions.pop(each, None)
                self._sums.addresses.pop(each, None)
                for counter in (
                    self._sums.produced,
                    self._sums.bad_records,
                    self._sums.gaps,
                    self._sums.query_starts,
                ):
                    counter.pop(each, None)
                self._sums.batch_gaps.pop(each, None)
                for key in [key for key in self._sums.consumed if key[0] == each]:
                    del self._sums.consumed[key]
                self._series.drop(each)

    def take(self, told: Telemetry, now: float, *, is_new: bool = True) -> None:
        """One record. One that is not new was written before this process started; its states do not count.

        Nothing is from the future, so a time ahead of the clock is replaced in both cases.
        """
        at = told.time or now
        if at > now + WRONG_CLOCK_SECONDS or (is_new and at < now - WRONG_CLOCK_SECONDS):
            at = now
        with self._lock:
            self._sums.add(told)
            # Who is very late shows a little later than it was, rather than never.
            self._track(told, max(at, self._series.open_from + TOLD_EVERY_SECONDS))
            self._close(at)
            monotonic = time.monotonic()
            for names in (told.served, told.filter_errors, told.accepted, told.rejected, told.produced,
                          told.bad_records, told.gaps, told.query_starts, told.batch_gaps,
                          (told.topic,)):  # fmt: skip
                self._touched.update((name, monotonic) for name in names if name)
            if is_new and told.source:
                self._states[told.source] = State(monotonic, told.part, told.holds, told.gauges)
                self._drop_silent()

    def _take(self, _key: str, value: bytes | None) -> None:
        if value is not None:
            self.take(decode_telemetry(value), time.time(), is_new=self._table.is_current)

    def _track(self, told: Telemetry, at: float) -> None:
        for uid, served in told.served.items():
            track, outcomes = self._track_of(uid), served.outcomes
            track.add(at, "matched", served.matched)
            track.add(at, "delivered", outcomes.get("delivered", 0))
            track.add(at, "failed", outcomes.get("failed_attempts", 0))
            track.add(at, "lost", outcomes.get("dead_lettered", 0) + outcomes.get("given_up", 0))
            track.add(at, "retries", served.retries)
            track.spend(at, "whole", served.whole_way)
            track.spend(at, "waiting", served.kafka_to_subscriber)
            track.spend(at, "subscriber", served.subscriber)
        for address, accepted in told.accepted.items():
            self._track_of(address or UNKNOWN).add(at, "in", accepted)
        for address, reasons in told.rejected.items():
            self._track_of(address or UNKNOWN).add(at, "rejected", sum(reasons.values()))
        for address, spent in told.ingress.items():
            self._track_of(address or UNKNOWN).spend(at, "ingress", spent)

    def _track_of(self, name: str) -> Track:
        found = self._tracks.get(name)
        if found is None:
            found = self._tracks[name] = Track()
        return found

    def _close(self, now: float) -> None:
        if self._series.close(self._tracks, complete(now) - LATER_SECONDS):
            for track in self._tracks.values():
                track.forget(complete(now) - KEPT_SECONDS)

    def _drop_silent(self) -> None:
        now = time.monotonic()
        for source, state in list(self._states.items()):
            patience = SILENT_DISPATCHER_SECONDS if state.part == "dispatcher" else SILENT_SECONDS
            if now - state.heard > patience:
                del self._states[source]
