"""Promises of a worker that lets go of its partition: what will be answered soon is waited for, what hangs is not."""

import itertools
import threading
import time

import pytest

from penstock.delivery.deliver import Deliveries, Limits
from tests.delivery.loop import MakeSink, Rows, lane, row
from tests.delivery.outbox import KeptOutbox
from tests.sink import Answer


@pytest.mark.parametrize(("longest", "finished"), [(20.0, 6), (1.0, 2)])
def test_who_gets_answers_is_waited_for(sink: MakeSink, longest: float, finished: int) -> None:
    """Kept promise: while answers come, one after the other, nothing is cut off that would have to come again."""
    subscriber, turn = sink(), itertools.count(1)
    subscriber.answer("/a", with_=lambda _: Answer(200, delay_seconds=0.4 * next(turn)))
    slow, hanging = lane(subscriber.url + "/a", window=6), lane(subscriber.url + "/b", window=6)
    subscriber.answer("/b", delay_seconds=30.0)
    deliveries = Deliveries([slow, hanging], Limits(), on_tick=lambda _: None, outbox=KeptOutbox())
    rows = Rows()
    thread = threading.Thread(target=deliveries.run, args=(rows, 20.0), daemon=True)
    thread.start()
    for offset in range(6):
        rows.offer(row(offset, (0, 1)))
    subscriber.wait_for(6, "/a")
    subscriber.wait_for(6, "/b")
    began = time.monotonic()
    deliveries.let_go(0.5, longest)
    thread.join(20)
    assert not thread.is_alive()
    assert time.monotonic() - began < 6.0, "what hangs was waited for"
    assert slow.counts.delivered == pytest.approx(finished, abs=0 if finished == 6 else 1)
    assert hanging.counts.delivered == 0
