"""What counting, timing and logging cost the loop that delivers, which is where most of the processor's time goes.

Two systems side by side differ by more than that, for reasons of the machine. So here one loop in one process works
with them and without them in turns, a fraction of a second each, and only the time of its own thread counts. What is
told is made and encoded, not sent: a worker tells two records a second. Called by ``seeing.py``.
"""

import gc
import os
import time
from collections.abc import Sequence
from statistics import median

from bench.children import Sink
from bench.events import DATA, make_id
from bench.model import Telling
from bench.turns import is_on, off_and_on
from penstock.contract.model import Subscription
from penstock.contract.telemetry import encode_log, encode_telemetry
from penstock.delivery.deliver import Deliveries, Limits
from penstock.delivery.lane import Lane, LaneLimits
from penstock.delivery.outbox import Stored
from penstock.delivery.progress import Progress
from penstock.delivery.row import Row
from penstock.delivery.tally import SilentTally, Tally
from penstock.event.kafka import Record
from penstock.pipeline.delivery_counts import DeliveryCounts, OfTopic

LANES = 10
ROWS = 250  # with ten lanes, what a worker delivers in a second at 1,000 events/s on four partitions
WARM_TURNS = 4
PATIENCE_SECONDS = 20.0


def cost(sink: Sink, run: int, turns: int) -> Telling:
    sink.reset(run)
    lanes = [_lane(f"bench-{n}", sink.url(n)) for n in range(LANES)]
    deliveries = Deliveries(lanes, Limits(), on_tick=lambda _: None, outbox=NoOutbox())
    blocks = Blocks(deliveries, run, turns + WARM_TURNS)
    gc.collect()
    gc.freeze()  # as in a worker: what is there already is not looked at again and again
    try:
        deliveries.run(blocks, PATIENCE_SECONDS)
    finally:
        gc.unfreeze()
        blocks.close()
    per_delivery = [seconds / (ROWS * LANES) * 1e6 for seconds in blocks.seconds[WARM_TURNS:]]
    return summed_up(per_delivery)


def summed_up(turns: Sequence[float]) -> Telling:
    """The ratio is the median of those of neighbours."""
    pairs = off_and_on(turns)
    return Telling(
        without_us=round(median(off for off, _ in pairs), 2),
        with_us=round(median(on for _, on in pairs), 2),
        ratio=round(median(on / off for off, on in pairs), 3),
    )


class Blocks:
    """A source whose next rows come when the last ones are all delivered; ``turns.py`` says when it tells."""

    def __init__(self, deliveries: Deliveries, run: int, turns: int) -> None:
        self.is_over = False
        self.seconds: list[float] = []
        self._deliveries = deliveries
        self._counts = DeliveryCounts(deliveries, OfTopic("bench", 0, ""))
        self._run = run
        self._turns = turns
        self._began: float | None = None
        self._never = os.eventfd(0)

    @property
    def is_ready(self) -> bool:
        return not self._deliveries.unfinished_rows

    def fileno(self) -> int:
        return self._never

    def close(self) -> None:
        os.close(self._never)

    def read(self) -> list[Row]:
        if self._began is not None:
            if self._tells:
                self._tell()
            self.seconds.append(time.thread_time() - self._began)
        if len(self.seconds) == self._turns:
            self.is_over = True
            return []
        for lane in self._deliveries.lanes:
            lane.tally = Tally() if self._tells else SilentTally()
        rows = self._rows()
        self._began = time.thread_time()
        return rows

    @property
    def _tells(self) -> bool:
        """In the turn that is next, or under way."""
        return is_on(len(self.seconds))

    def _tell(self) -> None:
        telemetry, log = self._counts.to_tell(0, at_once=True)
        assert telemetry is not None
        assert log is not None
        encode_telemetry(telemetry)
        encode_log(log)

    def _rows(self) -> list[Row]:
        first = len(self.seconds) * ROWS
        return [_row(self._run, number) for number in range(first, first + ROWS)]


class NoOutbox:
    """Nobody replies and nothing fails."""

    waiting = 0

    def send(self, topic: str, records: Sequence[Record], stored: Stored) -> None:
        raise AssertionError(f"a record for {topic}: the sink has refused something")

    def settle(self) -> None:
        pass


def _lane(name: str, url: str) -> Lane:
    subscription = Subscription(
        uid=name, kind="Trigger", namespace="bench", name=name, topic="bench", group=name, subscriber_url=url
    )
    return Lane(subscription, Progress(0), LaneLimits(Limits().window))


def _row(run: int, number: int) -> Row:
    headers = [
        b"ce-id: " + make_id(run, number, time.monotonic_ns()),
        b"ce-specversion: 1.0",
        b"ce-type: dev.penstock.bench.measured",
        b"ce-source: /bench/load",
        b"content-type: application/json",
    ]
    row = Row(number, range(LANES), headers, DATA)
    row.received = row.written = time.time()
    return row
