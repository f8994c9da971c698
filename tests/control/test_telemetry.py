"""What processes tell, added up; rates, percentiles and history from it."""

import threading

import pytest

from penstock.contract.telemetry import Holds, Served, Telemetry
from penstock.control.series import KEPT_STEPS, STEP_SECONDS, Ring, Series
from penstock.control.telemetry import ALL, Counts
from penstock.control.tracks import NOTHING, Track, complete
from penstock.kafka.connection import KafkaConnection
from penstock.telemetry.histogram import Durations

NOW = 1_800_000_000.0
NOBODY = KafkaConnection("127.0.0.1:1")


def durations(*seconds: float) -> Durations:
    found = Durations({})
    for each in seconds:
        found.observe(each)
    return found


def served(delivered: int = 1, failed: int = 0, way: Durations | None = None) -> Served:
    outcomes = {"delivered": delivered, "failed_attempts": failed, "dead_lettered": 0}
    attempts = {"2xx": delivered, "5xx": failed}
    return Served(delivered, outcomes, attempts, failed, way, way, way)


def test_everything_is_added_up() -> None:
    """Kept promise: what several processes counted is one number."""
    counts = Counts(NOBODY)
    for worker in range(3):
        told = Telemetry(
            source=f"w{worker}", time=NOW, topic="orders", partition=worker % 2, consumed=5,
            bad_records={"orders": 1}, filter_errors={"a": {"cast": 2}},
            served={"a": served(4, 1, durations(0.01, 0.02)), "b": served(1)},
        )  # fmt: skip
        counts.take(told, NOW)
    counts.take(
        Telemetry(
            part="receiver", source="r", time=NOW, accepted={"/default/orders": 7}, produced={"orders": 7},
            rejected={"": {"unknown address": 2}}, ingress={"/default/orders": durations(0.003)},
        ),
        NOW,
    )  # fmt: skip
    counts.take(
        Telemetry(part="dispatcher", source="d", query_starts={"orders": 1}, batch_gaps={"orders": durations(0.1)}),
        NOW,
    )
    sums = counts.sums()
    a = sums.subscriptions["a"]
    assert (a.matched, a.outcomes["delivered"], a.attempts["5xx"], a.retries) == (12, 12, 3, 3)
    assert a.filter_errors == {"cast": 6}
    assert (a.whole_way.count, a.subscriber.count, a.kafka_to_subscriber.count) == (6, 6, 6)
    assert a.whole_way.sum == pytest.approx(0.09)
    assert sums.consumed == {("orders", 0): 10, ("orders", 1): 5}
    assert sums.bad_records == {"orders": 3}
    assert sums.addresses["/default/orders"].accepted == sums.produced["orders"] == 7
    assert sums.addresses[""].rejected == {"unknown address": 2}
    assert sums.batch_gaps["orders"].count == sums.query_starts["orders"] == 1


def test_states_last_as_long_as_somebody_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: what a worker that died had in hand is not shown for ever."""
    clock = [100.0]
    monkeypatch.setattr("penstock.control.telemetry.time.monotonic", lambda: clock[0])
    counts = Counts(NOBODY)
    counts.take(Telemetry(source="w1", time=NOW, holds={"a": Holds(in_flight=3)}), NOW)
    clock[0] += 3
    counts.take(Telemetry(source="w2", time=NOW, holds={"a": Holds(in_flight=4)}), NOW)
    assert sorted(state.holds["a"].in_flight for state in counts.states()) == [3, 4]
    clock[0] += 3
    assert [state.holds["a"].in_flight for state in counts.states()] == [4]
    counts.take(Telemetry(source="w2", time=NOW), NOW)
    assert [dict(state.holds) for state in counts.states()] == [{}]


def test_states_of_the_past_are_none() -> None:
    """Kept promise: after a restart of the controller the topic's old records count, but hold nothing."""
    counts = Counts(NOBODY)
    counts.take(Telemetry(source="w", time=NOW, served={"a": served(2)}, holds={"a": Holds(1)}), NOW, is_new=False)
    assert counts.states() == []
    assert counts.sums().subscriptions["a"].matched == 2


def test_what_is_no_more_is_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: subscriptions that come and go do not fill the memory."""
    clock = [100.0]
    monkeypatch.setattr("penstock.control.telemetry.time.monotonic", lambda: clock[0])
    counts = Counts(NOBODY)
    counts.take(
        Telemetry(source="w", time=NOW, topic="t", consumed=1, served={"old": served(), "new": served()}), NOW
    )
    counts.forget_unless({"new"})
    assert counts.sums().subscriptions.keys() == {"old", "new"}
    counts.take(Telemetry(part="receiver", source="r", time=NOW, rejected={"": {"unknown address": 1}}), NOW)
    clock[0] += 3600
    counts.forget_unless({"new"})
    assert counts.sums().subscriptions.keys() == {"new"}
    assert not counts.sums().consumed
    counts.take(Telemetry(source="w", time=NOW, served={"new": served()}), NOW)
    assert counts.sums().addresses[""].rejected == {"unknown address": 1}


def test_who_came_later_has_not_consumed_what_was_before() -> None:
    counts = Counts(NOBODY)
    counts.take(Telemetry(source="w", topic="t", partition=0, consumed=5), NOW)
    counts.note_readers({"first": {"t"}})
    counts.take(Telemetry(source="w", topic="t", partition=0, consumed=2), NOW)
    counts.note_readers({"first": {"t"}, "second": {"t"}})
    counts.take(Telemetry(source="w", topic="t", partition=0, consumed=1), NOW)
    assert counts.consumed_by() == {("first", "t", 0): 8, ("second", "t", 0): 1}


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.75])
def test_a_rate_is_true_whenever_they_tell(phase: float) -> None:
    """Kept promise: three workers that each deliver 100 a second and tell at other moments make 300 a second."""
    track = Track()
    for worker in range(3):
        for second in range(20):
            track.add(NOW + second + phase + worker * 0.31, "delivered", 100)
    for look in (10.0, 12.4, 15.9):
        assert track.recent(NOW + look + phase).rate("delivered") == pytest.approx(300, rel=0.001)


def test_a_rate_ends_with_what_it_counts() -> None:
    track = Track()
    track.add(NOW, "delivered", 100)
    assert track.recent(NOW + 3).rate("delivered") == pytest.approx(20)
    assert track.recent(NOW + 12).rate("delivered") == 0
    assert track.recent(NOW + 12).lately("delivered") == pytest.approx(100)


def test_percentiles_are_of_the_last_half_minute() -> None:
    track = Track()
    track.spend(NOW - 60, "whole", durations(*[5.0] * 100))
    track.spend(NOW, "whole", durations(*[0.002] * 90, *[0.05] * 9, 1.0))
    p50, p95, p99 = (each or 0.0 for each in track.recent(NOW).percentiles("whole", 0.5, 0.95, 0.99))
    assert 1.4 < p50 <= 2.0
    assert 40 < p95 < p99 <= 56
    assert NOTHING.percentiles("whole", 0.5) == [None]


def test_history_has_all_that_was_told_and_says_what_is_unknown() -> None:
    """Kept promise: the sum over the history is what was counted; before the beginning nothing is known."""
    counts = Counts(NOBODY)
    for second in range(30):
        told = Telemetry(source="w", time=NOW + second + 0.4, served={"a": served(10, 1, durations(0.004))})
        counts.take(told, NOW + second + 0.5)
    counts.take(Telemetry(source="w", time=NOW + 40, accepted={"/default/b": 1}), NOW + 40)
    found = counts.history("a", NOW + 40, 2)
    series = found["series"]
    assert found["step_seconds"] == STEP_SECONDS
    assert len(found["times"]) == len(series["in"]) == 60
    assert sum(each or 0 for each in series["delivered"]) * STEP_SECONDS == pytest.approx(300)
    assert sum(each or 0 for each in series["failed"]) * STEP_SECONDS == pytest.approx(30)
    assert series["in"][0] is None
    assert series["in"][-1] == 0
    known = [each for each in series["p95_ms"] if each is not None]
    assert known
    assert all(2.8 < each <= 4.0 for each in known)
    assert sum(each or 0 for each in counts.history(ALL, NOW + 40, 2)["series"]["delivered"]) == pytest.approx(150)
    assert all(each in (None, 0) for each in counts.history("nobody", NOW + 40, 2)["series"]["delivered"])


def test_who_is_very_late_is_in_the_history_all_the_same() -> None:
    """Kept promise: a process that a busy machine held up for seconds is missing from no sum."""
    counts = Counts(NOBODY)
    for second in range(12):
        counts.take(Telemetry(source="w", time=NOW + second, served={"a": served(10)}), NOW + second)
    counts.take(Telemetry(source="late", time=NOW + 4, served={"a": served(7)}), NOW + 11)
    for second in range(12, 20):
        counts.take(Telemetry(source="w", time=NOW + second), NOW + second)
    history = counts.history("a", NOW + 20, minutes=1)
    delivered = sum(each or 0.0 for each in history["series"]["delivered"]) * history["step_seconds"]
    assert delivered == pytest.approx(12 * 10 + 7)


def test_a_ring_keeps_an_hour() -> None:
    ring = Ring()
    for step in range(KEPT_STEPS + 10):
        ring.put(step, "lag", step)
    assert ring.get(9, "lag") is None
    assert ring.get(10, "lag") == 10
    ring.put(KEPT_STEPS + 20, "lag", 1)
    assert ring.get(KEPT_STEPS + 15, "lag") is None


def test_there_are_at_most_so_many_histories() -> None:
    """Kept promise: memory is bounded, and whoever has no history does not get one of zeros."""
    series, track = Series(most=2), Track()
    track.add(NOW, "matched", 1)
    second = complete(NOW + 4)
    series.close({"a": track, "b": track, "c": track}, second)
    assert any(each for each in series.read("a", NOW, 1)["series"]["in"])
    assert all(each is None for each in series.read("c", NOW, 1)["series"]["in"])
    none = Series(most=0)
    none.close({"a": track}, second)
    assert all(each is None for each in none.read("a", NOW, 1)["series"]["in"])


def test_many_may_ask_while_others_tell() -> None:
    counts = Counts(NOBODY)
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(200):
                counts.sums(), counts.recent(NOW), counts.states(), counts.history(ALL, NOW, 1)
        except BaseException as error:
            failures.append(error)

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    for number in range(500):
        counts.take(Telemetry(source="w", time=NOW, served={f"s{number}": served(1, 0, durations(0.01))}), NOW)
    for thread in asking:
        thread.join()
    assert not failures
    assert len(counts.sums().subscriptions) == 500


@pytest.mark.parametrize("ahead_seconds", [60.0, 3e9, 1e300])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_time_in_the_future_stops_no_history(ahead_seconds: float, is_new: bool) -> None:
    """Kept promise: a record with an impossible time counts now, and what comes after it is in the history, also
    when it was in the topic before the controller started."""
    counts = Counts(NOBODY)
    early = Telemetry(source="junk", time=NOW + ahead_seconds, served={"a": served(3)})
    counts.take(early, NOW, is_new=is_new)
    for second in range(1, 12):
        counts.take(Telemetry(source="w", time=NOW + second, served={"a": served(10)}), NOW + second)
    counts.take(Telemetry(source="w", time=NOW + 20), NOW + 20)
    history = counts.history("a", NOW + 20, minutes=1)
    delivered = sum(each or 0.0 for each in history["series"]["delivered"]) * history["step_seconds"]
    assert delivered == pytest.approx(11 * 10 + 3)
    assert history["times"][-1] <= NOW + 20
