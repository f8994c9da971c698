"""Promises of what a worker writes about its lanes: cut off anywhere, nothing unfinished is called done."""

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.model import Subscription
from penstock.delivery.lane import Lane, LaneLimits
from penstock.delivery.progress import Progress
from penstock.kafka.ledger import LaneKey, LaneRecord, Ledger, LedgerWriter, encode_key, floor_key
from penstock.pipeline.lane_records import LaneRecords

KEYS = [LaneKey(f"uid-{n}", "topic-id", 0) for n in range(4)]


class Log:
    """Stands for Kafka: takes what a writer produces, in order."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []

    def produce(self, _topic: str, *, key: bytes, value: bytes | None, **_: object) -> None:
        self.records.append((key, value))

    def read(self, count: int | None = None) -> Ledger:
        ledger = Ledger()
        for key, value in self.records[:count]:
            ledger.take(key, value)
        return ledger


def lanes_from(ledger: Ledger) -> list[Lane]:
    lanes = []
    for key in KEYS:
        entry = ledger.entry(key)
        record = entry.record if entry else LaneRecord(0)
        subscription = Subscription(key.subscription_uid, "Trigger", "default", "t", "topic", "group", "http://a/")
        lanes.append(Lane(subscription, Progress(record.position, record.beyond), LaneLimits()))
    return lanes


@given(seed=st.integers(), rows=st.integers(1, 60), wanted=st.floats(0, 1), finished=st.floats(0, 1))
def test_any_beginning_of_the_log_is_true(seed: int, rows: int, wanted: float, finished: float) -> None:
    """Kept promise: a kill at any moment loses no event, and repeats only what was begun since the last tick.

    A chain of workers: each is cut off somewhere, and its successor begins with what the log then says.
    """
    dice = random.Random(seed)
    log, done = Log(), [set[int]() for _ in KEYS]
    wants = {(place, offset) for place in range(len(KEYS)) for offset in range(rows) if dice.random() < wanted}
    for generation in (1, 2, 3):
        ledger = log.read()
        lanes = lanes_from(ledger)
        records = LaneRecords(LedgerWriter(log), generation, KEYS, lanes)
        records.write_all()
        records.erase_older(ledger)
        written, finished_when = len(log.records), [(len(log.records), [set(each) for each in done])]
        opened: list[tuple[int, int]] = []
        start = min(lane.progress.position for lane in lanes)
        for offset in range(start, rows):
            for place, lane in enumerate(lanes):
                if (place, offset) in wants and not lane.progress.is_done(offset):
                    assert offset not in done[place]  # nothing that was finished and written is repeated
                    lane.progress.take_on(offset)
                    lane.is_dirty = True
                    opened.append((place, offset))
            for each in [one for one in opened if dice.random() < finished]:
                opened.remove(each)
                lanes[each[0]].progress.finish(each[1])
                lanes[each[0]].is_dirty = True
                done[each[0]].add(each[1])
            if dice.random() < 0.5:
                records.write_moved(offset)
                finished_when.append((len(log.records), [set(each) for each in done]))
        for count in range(written, len(log.records) + 1):
            known = log.read(count)
            # A record says what was so at its tick: what is finished by the end of that tick at the latest.
            by_then = next(state for end, state in finished_when if count <= end)
            for place, key in enumerate(KEYS):
                entry = known.entry(key)
                assert entry is not None
                progress = Progress(entry.record.position, entry.record.beyond)
                claimed = {o for o in range(rows) if (place, o) in wants and progress.is_done(o)}
                assert claimed <= by_then[place]
        cut = dice.choice([end for end, _ in finished_when])
        del log.records[cut:]
        done = next(state for end, state in finished_when if end == cut)


def test_lanes_that_only_pass_rows_by_cost_one_record() -> None:
    """Kept promise: with a thousand triggers a tick writes the floor and the few lanes that have something open."""
    log = Log()
    lanes = lanes_from(Ledger())
    records = LaneRecords(LedgerWriter(log), 7, KEYS, lanes)
    records.write_all()
    assert len(log.records) == len(KEYS)
    records.write_moved(99)
    assert [key for key, _ in log.records[len(KEYS) :]] == [encode_key(floor_key(KEYS[0]), 7)]
    assert {entry.record.position for key in KEYS if (entry := log.read().entry(key))} == {100}
    lanes[2].progress.take_on(100)
    lanes[2].is_dirty = True
    records.write_moved(149)
    positions = [entry.record.position for key in KEYS if (entry := log.read().entry(key))]
    assert positions == [150, 150, 100, 150]
    before = len(log.records)
    records.write_moved(149)
    assert len(log.records) == before


def test_a_floor_stays_while_a_lane_that_left_needs_it() -> None:
    """Kept promise: a trigger that is away for a while goes on where it was, whoever took over meanwhile."""
    log = Log()
    records = LaneRecords(LedgerWriter(log), 7, KEYS, lanes_from(Ledger()))
    records.write_all()
    records.write_moved(99)
    known = log.read()
    successor = LaneRecords(LedgerWriter(log), 8, KEYS[:3], lanes_from(known)[:3])
    successor.write_all()
    successor.erase_older(known)
    successor.write_moved(199)
    known = log.read()
    assert [entry.record.position for key in KEYS if (entry := known.entry(key))] == [200, 200, 200, 100]
    third = LaneRecords(LedgerWriter(log), 9, KEYS, lanes_from(known))
    third.write_all()
    third.erase_older(known)
    known = log.read()
    assert known.generations(floor_key(KEYS[0])) == []
    assert [entry.record.position for key in KEYS if (entry := known.entry(key))] == [200, 200, 200, 100]


def test_a_lane_that_waits_for_answers_is_handed_over_later_than_the_others() -> None:
    """Kept promise: all others are released at once; the slow lane keeps its mark until its last answer, a successor
    writes nothing about it before, and a third generation sees the same."""
    log = Log()
    old = lanes_from(Ledger())
    records = LaneRecords(LedgerWriter(log), 7, KEYS, old)
    records.write_all()
    for offset in (3, 5):
        old[1].progress.take_on(offset)
    old[1].busy = 2
    records.hand_over(9)
    for successor in (8, 9):
        known = log.read()
        marked = [entry.record.draining > 0 for key in KEYS if (entry := known.entry(key))]
        assert marked == [False, True, False, False]
        assert known.draining() == {KEYS[1]: 7}
        lanes = lanes_from(known)
        lanes[1].hold_back()
        following = LaneRecords(LedgerWriter(log), successor, KEYS, lanes)
        following.write_all()
        following.erase_older(known)
        following.write_moved(19)
        before = known.entry(KEYS[1])
        records.write_draining()
        after = log.read().entry(KEYS[1])
        assert before is not None
        assert after is not None
        assert (after.generation, after.record.position) == (7, 3)
        assert after.record.draining > before.record.draining, "a heartbeat"
    assert not records.has_drained
    old[1].busy = 0
    for offset in (3, 5):
        old[1].progress.finish(offset)
    assert records.has_drained
    records.write_draining()
    released = log.read().entry(KEYS[1])
    assert released is not None
    assert (released.generation, released.record.position, released.record.draining) == (7, 10, 0)
    lanes[1].go_on(released.record.position, released.record.beyond, {})
    written = len(log.records)
    following.go_on(1)
    following.erase_older(log.read(written))
    for count in range(written, len(log.records) + 1):
        cut_off = log.read(count).entry(KEYS[1])
        assert cut_off is not None, "a kill between two records"
        assert cut_off.record.position == (10 if count == written else 20)  # the new floor counts for it now
    following.write_moved(29)
    known = log.read()
    entries = [entry for key in KEYS if (entry := known.entry(key))]
    assert [(each.generation, each.record.position) for each in entries] == [(9, 30)] * len(KEYS)
    assert not known.draining()
