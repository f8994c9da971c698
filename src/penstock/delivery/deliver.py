"""THE PATH, third part: from matched rows to answered POSTs.

                        ┌────── wait ◀──────┐
    rows ─▶ take ─▶ lanes ─▶ begin ─▶ POST ─▶ answered ─▶ finished ─▶ progress ─▶ ledger
                                              │
                                              └─▶ dead letter sink, or given up

One thread reads rows from Spark and calls ``offer``; one thread calls ``run`` and does everything else. The
reader is made to wait when too much is unfinished, so memory is bounded and Kafka keeps the rest.
"""

import base64
import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.delivery.client import Answer, Client, Post
from penstock.delivery.lane import Attempt, Lane
from penstock.delivery.retry import Outcome, outcome_of, wait_seconds
from penstock.delivery.row import Row

logger = logging.getLogger("penstock.delivery")

TICK_SECONDS = 0.05
IDLE_TICK_SECONDS = 0.5
ERROR_DATA_BYTES = 1024


@dataclass(frozen=True)
class Limits:
    """How much may be unfinished in one worker before it stops taking rows."""

    window: int = 32  # POSTs in flight per unordered lane
    unfinished_rows: int = 2_000
    unfinished_bytes: int = 32 * 1024 * 1024


class Deliveries:
    """All lanes of one partition, and the loop that serves them."""

    def __init__(self, lanes: Sequence[Lane], limits: Limits, on_tick: Callable[[], None]) -> None:
        self.lanes = lanes
        self.seen_offset = -1  # of the last row taken, wanted or not
        self.unfinished_rows = 0
        self._limits = limits
        self._on_tick = on_tick
        self._unfinished_bytes = 0
        self._offered: deque[Row] = deque()
        self._room = threading.Event()
        self._retries: list[tuple[float, int, Attempt]] = []
        self._order = itertools.count()
        self._client = Client(self._answered)
        self._is_asleep = False
        self._deadline: float | None = None  # set once no more rows come: when to leave at the latest
        self._is_holding = False  # begin nothing new, only finish what is in flight
        self._is_ended = False

    # ── called by the reading thread ──────────────────────────────────────────────────────────────

    def offer(self, row: Row) -> None:
        """Hands over one row; waits while too much is unfinished."""
        self._offered.append(row)
        if self._is_asleep:
            self._client.wake()
        while self._is_full() and not self._is_ended:
            self._room.clear()
            self._room.wait(0.5)

    def _is_full(self) -> bool:
        rows = self.unfinished_rows + len(self._offered)
        return rows > self._limits.unfinished_rows or self._unfinished_bytes > self._limits.unfinished_bytes

    def end(self, patience_seconds: float, *, hold: bool) -> None:
        """No more rows. With ``hold`` nothing new is begun either, and only what is in flight is awaited."""
        self._is_holding = self._is_holding or hold
        self._deadline = time.monotonic() + patience_seconds
        if not self._is_ended:
            self._client.wake()

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Until ``end`` was called and all is finished, or its patience is over."""
        next_tick = time.monotonic() + TICK_SECONDS
        try:
            while not self._is_over():
                self._take_offered()
                self._retry_due()
                self._client.run_once(self._wait_seconds(next_tick))
                self._is_asleep = False
                now = time.monotonic()
                if now >= next_tick:
                    self._on_tick()
                    next_tick = now + (TICK_SECONDS if self.unfinished_rows else IDLE_TICK_SECONDS)
                elif self.unfinished_rows and next_tick - now > TICK_SECONDS:
                    next_tick = now + TICK_SECONDS
        finally:
            self._is_ended = True
            self._room.set()
            self._client.close()

    def _is_over(self) -> bool:
        if self._deadline is None:
            return False
        if time.monotonic() >= self._deadline:
            return True
        if self._is_holding:
            return self._client.in_flight == 0
        return not self._offered and self.unfinished_rows == 0

    def _wait_seconds(self, next_tick: float) -> float:
        self._is_asleep = True  # from here on the reader wakes us; what it offered before is seen below
        if self._offered:
            return 0.0
        until = next_tick
        if self._retries and not self._is_holding:
            until = min(until, self._retries[0][0])
        if self._deadline is not None:
            until = min(until, self._deadline)
        return max(0.0, until - time.monotonic())

    def _take_offered(self) -> None:
        offered = self._offered
        while offered:
            self._take(offered.popleft())

    def _take(self, row: Row) -> None:
        """Puts the row into every lane that wants it and has not had it."""
        offset = row.offset
        self.seen_offset = offset
        for place in row.matched:
            lane = self.lanes[place]
            if lane.progress.is_done(offset):
                continue
            lane.progress.take_on(offset)
            row.unfinished += 1
            if lane.has_room and not self._is_holding:
                self._begin(lane, row)
            else:
                lane.waiting.append(row)
        if row.unfinished:
            self.unfinished_rows += 1
            self._unfinished_bytes += len(row.body)

    def _begin(self, lane: Lane, row: Row) -> None:
        lane.busy += 1
        self._post(Attempt(lane, row))

    def _post(self, attempt: Attempt) -> None:
        lane, row = attempt.lane, attempt.row
        subscription = lane.subscription
        headers = row.headers + lane.headers
        url = subscription.subscriber_url
        if attempt.dead_letter_headers is not None:
            headers += attempt.dead_letter_headers
            url = subscription.delivery.dead_letter_url or ""
        self._client.send(Post(url, headers, row.body, subscription.delivery.timeout_seconds), attempt)

    # ── answers ───────────────────────────────────────────────────────────────────────────────────

    def _answered(self, attempt: Attempt, answer: Answer) -> None:
        outcome = outcome_of(answer.status)
        if outcome is Outcome.DELIVERED:
            if attempt.dead_letter_headers is None:
                attempt.lane.counts.delivered += 1
            else:
                attempt.lane.counts.dead_lettered += 1
            self._finished(attempt)
            return
        attempt.lane.counts.failed_attempts += 1
        attempt.failures += 1
        wait = None
        if outcome is Outcome.TRY_AGAIN:
            policy = attempt.lane.subscription.delivery
            wait = wait_seconds(policy, attempt.failures, answer.retry_after_seconds)
        if wait is not None:
            attempt.lane.on_waiting_for_retry()
            heapq.heappush(self._retries, (time.monotonic() + wait, next(self._order), attempt))
            self._begin_waiting(attempt.lane)
        else:
            self._undeliverable(attempt, answer)

    def _undeliverable(self, attempt: Attempt, answer: Answer) -> None:
        """The subscriber is given up: the dead letter sink gets a full cycle of its own, if there is one."""
        subscription = attempt.lane.subscription
        if attempt.dead_letter_headers is None and subscription.delivery.dead_letter_url:
            attempt.failures = 0
            attempt.dead_letter_headers = [
                b"ce-knativeerrordest:" + subscription.subscriber_url.encode(),
                b"ce-knativeerrorcode:%d" % answer.status,
            ]
            if answer.body:
                data = base64.b64encode(answer.body[:ERROR_DATA_BYTES])
                attempt.dead_letter_headers.append(b"ce-knativeerrordata:" + data)
            self._post(attempt)
            return
        attempt.lane.counts.given_up += 1
        logger.warning(
            "given up: offset %d of %s for %s %s/%s: %s",
            attempt.row.offset,
            subscription.topic,
            subscription.kind.lower(),
            subscription.namespace,
            subscription.name,
            f"status {answer.status}" if answer.status else answer.error,
        )
        self._finished(attempt)

    def _finished(self, attempt: Attempt) -> None:
        lane, row = attempt.lane, attempt.row
        lane.progress.finish(row.offset)
        lane.is_dirty = True
        lane.busy -= 1
        row.unfinished -= 1
        if not row.unfinished:
            self.unfinished_rows -= 1
            self._unfinished_bytes -= len(row.body)
            if not self._room.is_set() and self.unfinished_rows < self._limits.unfinished_rows * 3 // 4:
                self._room.set()
        if lane.waiting:
            self._begin_waiting(lane)

    def _begin_waiting(self, lane: Lane) -> None:
        while lane.waiting and lane.has_room and not self._is_holding:
            self._begin(lane, lane.waiting.popleft())

    def _retry_due(self) -> None:
        now = time.monotonic()
        while self._retries and self._retries[0][0] <= now and not self._is_holding:
            attempt = heapq.heappop(self._retries)[2]
            attempt.lane.on_retrying()
            self._post(attempt)
