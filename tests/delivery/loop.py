"""The delivering loop for tests: lanes, rows that a test offers, and the loop in a thread."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from penstock.contract.model import Subscription
from penstock.delivery.deliver import Deliveries, Limits
from penstock.delivery.lane import Lane, LaneLimits
from penstock.delivery.progress import Progress
from penstock.delivery.row import Row
from penstock.delivery.tracing import DeliveryTracing
from tests.delivery.outbox import KeptOutbox
from tests.sink import Request, Sink

MakeSink = Callable[[], Sink]


def lane(url: str, window: int = 8, position: int = 0, **fields: Any) -> Lane:
    subscription = Subscription(
        uid="u", kind="Trigger", namespace="shop", name="t", topic="orders", group="g", subscriber_url=url
    )
    return Lane(msgspec.structs.replace(subscription, **fields), Progress(position), LaneLimits(window))


def row(offset: int, places: tuple[int, ...] = (0,)) -> Row:
    return Row(offset, places, [b"ce-id:%d" % offset, b"content-type:application/json"], b'{"n":%d}' % offset)


class Rows:
    """A source that a test fills from outside."""

    def __init__(self) -> None:
        self.is_over = False
        self.is_ready = False
        self.taken = 0
        self._waiting: deque[Row | None] = deque()
        self._signal = os.eventfd(0, os.EFD_SEMAPHORE)

    def fileno(self) -> int:
        return self._signal

    def read(self) -> list[Row]:
        os.eventfd_read(self._signal)
        row = self._waiting.popleft()
        if row is None:
            self.is_over = True
            return []
        self.taken += 1
        return [row]

    def offer(self, row: Row) -> None:
        self._waiting.append(row)
        os.eventfd_write(self._signal, 1)

    def end(self) -> None:
        self._waiting.append(None)
        os.eventfd_write(self._signal, 1)


@contextmanager
def running(
    *lanes: Lane,
    limits: Limits | None = None,
    outbox: KeptOutbox | None = None,
    tracing: DeliveryTracing | None = None,
) -> Iterator[Rows]:
    """The loop in a thread; at the end everything offered must be finished."""
    deliveries = Deliveries(lanes, limits or Limits(), on_tick=lambda _: None, outbox=outbox or KeptOutbox())
    deliveries.tracing = tracing
    rows = Rows()
    thread = threading.Thread(target=deliveries.run, args=(rows, 20.0), daemon=True)
    thread.start()
    try:
        yield rows
    finally:
        rows.end()
        thread.join(25.0)
        assert not thread.is_alive()


def ids(requests: list[Request]) -> list[int]:
    return [int(each.headers["ce-id"]) for each in requests]
