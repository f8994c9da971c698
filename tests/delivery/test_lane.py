"""Promises of a lane: order as chosen, the window kept, nothing left lying, and failures counted across restarts."""

import random
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.model import Delivery, Order, Subscription
from penstock.delivery.lane import Attempt, Lane, LaneLimits
from penstock.delivery.progress import Progress
from penstock.delivery.row import Row


def make(
    order: Order,
    window: int = 4,
    failing: dict[int, int] | None = None,
    rate: float = 0.0,
    **settings: Any,
) -> Lane:
    delivery = Delivery(**{"retry": 5, **settings})
    subscription = Subscription("u", "Trigger", "shop", "t", "orders", "g", "http://a/", (), delivery, order)
    return Lane(subscription, Progress(0), LaneLimits(window, rate), failing)


def row(offset: int, key: int | None = None) -> Row:
    return Row(offset, (0,), [], b"", key)


@given(
    order=st.sampled_from(["ordered", "unordered", "key"]),
    keys=st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=60),
    window=st.integers(1, 5),
    batch=st.integers(1, 4),
    seed=st.integers(),
)
def test_order_and_window_hold_through_retries(
    order: Literal["ordered", "unordered", "key"], keys: list[int | None], window: int, batch: int, seed: int
) -> None:
    """Kept promise: of a key, the next event is begun when the one before is finished; all end up finished."""
    dice = random.Random(seed)
    lane = make(order, window, batch=batch, batch_wait_seconds=0.0)
    rows = [row(offset, key) for offset, key in enumerate(keys)]
    in_flight: list[Attempt] = []
    resting: list[Attempt] = []
    finished: list[int] = []
    while len(finished) < len(keys):
        while dice.random() < 0.5 and rows:
            lane.add(rows.pop(0), 0.0)
        while (attempt := lane.next(0.0)) is not None:
            assert 1 <= len(attempt.rows) <= batch
            together = [each.offset for each in attempt.rows]
            for each in attempt.rows:
                key = 0 if order == "ordered" else each.key if order == "key" else None
                if key is not None:
                    before = [o for o in range(each.offset) if order == "ordered" or keys[o] == key]
                    assert set(before) <= {*finished, *together[: together.index(each.offset)]}
            in_flight.append(attempt)
        assert len(in_flight) == lane.busy <= window
        if in_flight and dice.random() < 0.7:
            attempt = in_flight.pop(dice.randrange(len(in_flight)))
            if dice.random() < 0.4:
                lane.failed(attempt)
                lane.set_aside()
                resting.append(attempt)
            else:
                for part in lane.split(attempt) if dice.random() < 0.2 else [attempt]:
                    finished += [each.offset for each in part.rows]
                    lane.finish(part)
        if resting and dice.random() < 0.5:
            lane.try_again(resting.pop(dice.randrange(len(resting))))
    assert sorted(finished) == list(range(len(keys)))
    assert lane.failing == {}
    assert lane.progress.position == len(keys)


def test_a_retry_holds_up_its_key_only() -> None:
    """Kept promise: in key order one key that fails does not keep the others waiting, and is not overtaken."""
    lane = make("key", window=1)
    for offset, key in enumerate([7, 7, 8, 7]):
        lane.add(row(offset, key), 0.0)
    first = lane.next(0.0)
    assert first is not None
    assert first.rows[0].offset == 0
    lane.failed(first)
    lane.set_aside()
    other = lane.next(0.0)
    assert other is not None
    assert other.rows[0].offset == 2
    lane.finish(other)
    assert lane.next(0.0) is None
    lane.try_again(first)
    again = lane.next(0.0)
    assert again is first
    lane.finish(first)
    order = []
    while (attempt := lane.next(0.0)) is not None:
        order.append(attempt.rows[0].offset)
        lane.finish(attempt)
    assert order == [1, 3]


@pytest.mark.parametrize(("counted", "begins_with"), [(2, 2), (5, 5), (6, 5), (900, 5)])
@pytest.mark.scenario(16)
def test_a_successor_goes_on_counting(counted: int, begins_with: int) -> None:
    """Kept promise: a restart does not begin the cycle of retries anew; the last try is repeated for its answer."""
    lane = make("unordered", failing={0: counted})
    lane.add(row(0), 0.0)
    attempt = lane.next(0.0)
    assert attempt is not None
    assert attempt.failures == begins_with
    lane.failed(attempt)
    assert lane.failing == {0: begins_with + 1}
    lane.finish(attempt)
    assert lane.failing == {}


def test_an_incomplete_batch_waits_and_a_full_one_does_not() -> None:
    """Kept promise: at most the batch's size at once, and nobody waits longer than the time given."""
    lane = make("unordered", batch=3, batch_wait_seconds=2.0)
    lane.add(row(0), now=10.0)
    assert (lane.next(10.5), lane.wakes_at) == (None, 12.0)
    lane.add(row(1), now=11.0)
    attempt = lane.next(12.0)
    assert attempt is not None
    assert [each.offset for each in attempt.rows] == [0, 1]
    for offset in range(2, 6):
        lane.add(row(offset), now=13.0)
    attempt = lane.next(13.0)
    assert attempt is not None
    assert [each.offset for each in attempt.rows] == [2, 3, 4]
    assert lane.next(13.0) is None


def test_a_batch_that_was_split_frees_its_key_when_all_parts_are_finished() -> None:
    """Kept promise: order holds while the dead letters of a batch are on their way."""
    lane = make("ordered", batch=2, batch_wait_seconds=0.0)
    for offset in range(3):
        lane.add(row(offset), 0.0)
    batch = lane.next(0.0)
    assert batch is not None
    first, second = lane.split(batch)
    lane.finish(second)
    assert lane.next(0.0) is None
    lane.finish(first)
    last = lane.next(0.0)
    assert last is not None
    assert last.rows[0].offset == 2


def test_a_rate_is_kept_over_time() -> None:
    """Kept promise: no more than so many events a second, a short burst aside; the loop knows when to ask again."""
    lane = make("unordered", window=1000, rate=50.0)
    for offset in range(1000):
        lane.add(row(offset), 0.0)
    now, begun = 100.0, 0
    while now < 104.0:
        while lane.next(now) is not None:
            begun += 1
        assert lane.wakes_at > now
        now = lane.wakes_at
    assert 198 <= begun <= 206


def test_who_has_too_much_to_do_gets_less_at_once() -> None:
    """Kept promise: a subscriber that answers 429 or 503 is given time, and its full share when it is well again."""
    lane = make("unordered", window=8)
    for offset in range(40):
        lane.add(row(offset), 0.0)
    lane.slow_down()
    lane.slow_down()
    begun = []
    while (attempt := lane.next(0.0)) is not None:
        begun.append(attempt)
    assert len(begun) == 2
    for attempt in begun:
        lane.speed_up()
        lane.finish(attempt)
    begun = []
    while (attempt := lane.next(0.0)) is not None:
        begun.append(attempt)
    assert len(begun) == 4


@pytest.mark.scenario(32)
@pytest.mark.parametrize("order", ["ordered", "key", "unordered"])
def test_parked_and_taken_back_a_hundred_times(order: Order) -> None:
    """Kept promise: at every seam whoever goes on begins exactly with what is not finished, in its order."""
    chance = random.Random(32)
    records = [Row(offset, (0,), [], b"", offset % 3 if order == "key" else None) for offset in range(2_000)]
    progress, finished = Progress(0), list[int]()
    for _ in range(100):
        lane = make(order)
        lane.progress = Progress(progress.position, progress.beyond())
        begun: list[Attempt] = []
        for record in records[lane.progress.position : lane.progress.position + chance.randrange(60)]:
            if lane.progress.is_done(record.offset):
                continue
            lane.add(record, 0.0)
            while (attempt := lane.next(0.0)) is not None:
                begun.append(attempt)
            while begun and chance.random() < 0.7:
                done = begun.pop(chance.randrange(len(begun)))
                finished += [each.offset for each in done.rows]
                lane.finish(done)
                while (attempt := lane.next(0.0)) is not None:
                    begun.append(attempt)
        lane.park()
        for attempt in begun:  # what was in flight ends well, or is dropped and begun anew by the next
            if chance.random() < 0.5:
                finished += [each.offset for each in attempt.rows]
                lane.finish(attempt)
            else:
                lane.drop()
        assert lane.is_drained
        progress = lane.progress
    assert len(finished) == len(set(finished))
    assert set(range(progress.position)) <= set(finished)
    assert progress.position > 1_000
    for key in range(3) if order == "key" else [None] if order == "ordered" else []:
        of_key = [each for each in finished if key is None or each % 3 == key]
        assert of_key == sorted(of_key)
