"""Promises of a worker that hands over its partition: slow lanes are finished, and no other lane waits for them."""

import threading
import time
from functools import partial

import pytest

from penstock.contract.model import Delivery
from penstock.delivery.deliver import Deliveries, Limits
from tests.delivery.loop import MakeSink, Rows, lane, row
from tests.delivery.outbox import KeptOutbox
from tests.sink import Answer
from tests.waiting import until


def test_slow_lanes_are_handed_over_later_than_all_others(sink: MakeSink) -> None:
    """Kept promise: a successor continues at once the lanes with nothing in flight. Requests in flight are
    finished; the wait for those that hang is limited."""
    subscriber, slow_answers = sink(), threading.Event()
    subscriber.answer("/slow", with_=lambda _: Answer(200, after=slow_answers))
    subscriber.answer("/hanging", delay_seconds=60.0)
    quick, slow, hanging = (lane(subscriber.url + path, window=3) for path in ("/quick", "/slow", "/hanging"))
    deliveries = Deliveries([quick, slow, hanging], Limits(), on_tick=lambda _: None, outbox=KeptOutbox())
    handed_over: list[list[int]] = []
    deliveries.hand_over = lambda: handed_over.append([each.busy for each in deliveries.lanes])
    rows = Rows()
    thread = threading.Thread(target=deliveries.run, args=(rows, 20.0), daemon=True)
    thread.start()
    for offset in range(6):
        rows.offer(row(offset, (0, 1, 2)))
    for path, count in (("/quick", 6), ("/slow", 3), ("/hanging", 3)):
        subscriber.wait_for(count, path)
    until(lambda: quick.counts.delivered == 6, "the quick one is finished")
    began = time.monotonic()
    deliveries.let_go(0.1, 10.0)
    until(lambda: handed_over, "the quick lane is handed over")
    slow_answers.set()
    until(lambda: not slow.busy, "the slow one has its answers")
    thread.join(40)
    assert handed_over == [[0, 3, 3]], "once, and without waiting for anybody"
    assert time.monotonic() - began >= 10.0
    assert (slow.counts.delivered, hanging.counts.delivered) == (3, 0)
    assert (subscriber.count("/slow"), subscriber.count("/hanging")) == (3, 3), "nothing new was begun"


def test_a_lane_that_is_held_back_goes_on_where_its_predecessor_ended(sink: MakeSink) -> None:
    """Kept promise: events that the predecessor finishes after the hand-over are not sent again; the rest is."""
    subscriber = sink()
    held, other = lane(subscriber.url + "/held", order="ordered"), lane(subscriber.url + "/other")
    held.hold_back()
    released = threading.Event()

    def go_on(_: float) -> None:
        if released.is_set() and held.is_held_back:
            deliveries.go_on(held, 2, [(4, 4)], {2: 1})

    deliveries = Deliveries([held, other], Limits(), on_tick=go_on, outbox=KeptOutbox())
    rows = Rows()
    thread = threading.Thread(target=deliveries.run, args=(rows, 20.0), daemon=True)
    thread.start()
    for offset in range(6):
        rows.offer(row(offset, (0, 1)))
    subscriber.wait_for(6, "/other")
    assert not subscriber.count("/held")
    released.set()
    subscriber.wait_for(3, "/held")
    rows.end()
    thread.join(20)
    assert [each.headers["ce-id"] for each in subscriber.at("/held")] == ["2", "3", "5"]
    assert (held.progress.position, deliveries.unfinished_rows) == (6, 0)


def test_the_end_of_the_rows_waits_for_a_lane_that_is_held_back(sink: MakeSink) -> None:
    """Kept promise: the rows that the lane took are delivered if the predecessor releases it in time."""
    subscriber = sink()
    held, other = lane(subscriber.url + "/held"), lane(subscriber.url + "/other")
    held.hold_back()
    has_ended = threading.Event()
    waited = 0

    def go_on(_: float) -> None:
        nonlocal waited
        waited += has_ended.is_set()
        if waited == 5 and held.is_held_back:
            deliveries.go_on(held, 1, [], {})

    deliveries = Deliveries([held, other], Limits(), on_tick=go_on, outbox=KeptOutbox())
    rows = Rows()
    thread = threading.Thread(target=partial(deliveries.run, rows, 20.0, waits_for_retries=False), daemon=True)
    thread.start()
    for offset in range(3):
        rows.offer(row(offset, (0, 1)))
    subscriber.wait_for(3, "/other")
    rows.end()
    has_ended.set()
    thread.join(30)
    assert sorted(each.headers["ce-id"] for each in subscriber.at("/held")) == ["1", "2"]
    assert deliveries.is_finished
    assert (held.progress.position, held.is_parked) == (3, False)


def test_a_lane_that_is_held_back_and_full_is_isolated(sink: MakeSink) -> None:
    """Kept promise: rows that wait for a predecessor do not take the room of the others."""
    subscriber = sink()
    held, other = lane(subscriber.url + "/held"), lane(subscriber.url + "/other")
    held.hold_back()
    limits = Limits(unfinished_rows=100, may_park=True)
    deliveries = Deliveries([held, other], limits, on_tick=lambda _: None, outbox=KeptOutbox())
    rows = Rows()
    thread = threading.Thread(target=deliveries.run, args=(rows, 20.0), daemon=True)
    thread.start()
    for offset in range(300):
        rows.offer(row(offset, (0, 1)))
    subscriber.wait_for(300, "/other")
    assert held.is_parked
    assert not held.is_drained, "its predecessor still waits for answers"
    deliveries.let_go(0.1, 3.0)
    thread.join(20)


@pytest.mark.parametrize("order", ["unordered", "ordered"])
def test_a_pending_retry_does_not_hold_up_the_end_of_the_rows(sink: MakeSink, order: str) -> None:
    """Kept promise: the end of a batch waits for no retry; the event stays open, and its attempts are kept."""
    subscriber = sink()
    subscriber.answer("/a", with_=lambda each: Answer(503 if each.headers["ce-id"] == "1" else 200))
    delivery = Delivery(retry=5, backoff_delay_seconds=60.0)
    failing, other = lane(subscriber.url + "/a", delivery=delivery, order=order), lane(subscriber.url + "/b")
    deliveries = Deliveries([failing, other], Limits(), on_tick=lambda _: None, outbox=KeptOutbox())
    rows = Rows()
    run = partial(deliveries.run, rows, 30.0, waits_for_retries=False)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    for offset in range(3):
        rows.offer(row(offset, (0, 1)))
    subscriber.wait_for(3, "/b")
    open_count = 1 if order == "unordered" else 2
    until(lambda: failing.failing and failing.progress.open_count == open_count and not failing.busy, "it failed")
    rows.end()
    thread.join(20.0)
    assert not thread.is_alive(), "the end waits for the retry"
    assert deliveries.is_finished
    assert failing.is_drained
    assert (failing.progress.position, failing.failing) == (1, {1: 1})
    assert failing.progress.beyond() == (((2, 2),) if order == "unordered" else ())
    assert (other.progress.position, other.is_parked) == (3, False)


@pytest.mark.parametrize("failing", [2, 3])
def test_at_the_end_of_the_rows_no_more_lanes_are_isolated_than_have_room(sink: MakeSink, failing: int) -> None:
    """Kept promise: if more lanes wait for a retry than can be isolated, all go on in the next shared query."""
    subscriber = sink()
    subscriber.answer("/a", 503)
    delivery = Delivery(retry=5, backoff_delay_seconds=60.0)
    lanes = [lane(subscriber.url + "/a", delivery=delivery) for _ in range(failing)]
    limits = Limits(may_park=True, most_parked=2)
    deliveries = Deliveries(lanes, limits, on_tick=lambda _: None, outbox=KeptOutbox())
    rows = Rows()
    run = partial(deliveries.run, rows, 30.0, waits_for_retries=False)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    rows.offer(row(0, tuple(range(failing))))
    until(lambda: all(each.failing and not each.busy for each in lanes), "all have failed")
    rows.end()
    thread.join(20.0)
    assert not thread.is_alive()
    have_room = failing == 2
    assert [each.is_parked for each in lanes] == [have_room] * failing
    assert deliveries.is_finished is have_room, "else the query is started again, from the ledger"


def test_what_hangs_at_the_end_of_the_rows_is_left_open(sink: MakeSink) -> None:
    """Kept promise: after the longest wait the worker gives up what is in flight; it stays open for the next."""
    subscriber = sink()
    subscriber.answer("/a", delay_seconds=60.0)
    hanging, other = lane(subscriber.url + "/a"), lane(subscriber.url + "/b")
    deliveries = Deliveries([hanging, other], Limits(), on_tick=lambda _: None, outbox=KeptOutbox())
    rows = Rows()
    thread = threading.Thread(target=partial(deliveries.run, rows, 0.5, waits_for_retries=False), daemon=True)
    thread.start()
    rows.offer(row(0, (0, 1)))
    subscriber.wait_for(1, "/a")
    until(lambda: other.counts.delivered == 1, "the other one has its answer")
    rows.end()
    thread.join(20.0)
    assert not thread.is_alive()
    assert deliveries.is_finished
    assert (hanging.is_drained, hanging.progress.position) == (True, 0)
    assert other.progress.position == 1
