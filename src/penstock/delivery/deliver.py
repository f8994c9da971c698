"""THE PATH, third part: from matched rows to answered POSTs.

                        ┌────── wait ◀──────┐
    rows ─▶ take ─▶ lanes ─▶ begin ─▶ POST ─▶ answered ─▶ finished ─▶ progress ─▶ ledger
                                              │
                                              └─▶ dead letter sink, or given up

One thread does all of it: it waits for rows and for answers in the same place. When too much is unfinished it stops
looking for rows, so memory is bounded and Kafka keeps the rest.
"""

import base64
import heapq
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

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


class Source(Protocol):
    """Where rows come from."""

    is_over: bool  # no more will come
    is_ready: bool  # there are rows, whatever the descriptor says

    def fileno(self) -> int:
        """A descriptor that is readable when there are rows."""

    def read(self) -> Iterable[Row]:
        """The rows that are there."""


class Deliveries:
    """All lanes of one partition, and the loop that serves them."""

    def __init__(self, lanes: Sequence[Lane], limits: Limits, on_tick: Callable[[float], None]) -> None:
        self.lanes = lanes
        self.seen_offset = -1  # of the last row taken, wanted or not
        self.unfinished_rows = 0
        self._limits = limits
        self._on_tick = on_tick  # told how long the last round took: a long one means that we were stopped
        self._unfinished_bytes = 0
        self._retries: list[tuple[float, int, Attempt]] = []
        self._order = itertools.count()
        self._client = Client(self._answered)
        self._deadline: float | None = None  # set once no more rows are taken: when to leave at the latest
        self._is_letting_go = False  # begin nothing new, only finish what is in flight

    def let_go(self, patience_seconds: float) -> None:
        """From now on begin nothing; the loop ends when what is in flight is answered, or patience is over."""
        if not self._is_letting_go:
            self._is_letting_go = True
            self._deadline = time.monotonic() + patience_seconds

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────

    def run(self, source: Source, patience_seconds: float) -> None:
        """Until the source is over and all is finished, its patience then is over, or it had to let go."""
        now = time.monotonic()
        next_tick = now + TICK_SECONDS
        try:
            while not self._is_over():
                if source.is_over and self._deadline is None:
                    self._deadline = now + patience_seconds
                wants_rows = not (source.is_over or self._is_full())
                self._client.watch(source.fileno() if wants_rows else None)
                has_rows = wants_rows and source.is_ready
                has_rows = self._client.run_once(0.0 if has_rows else self._wait_seconds(next_tick)) or has_rows
                before, now = now, time.monotonic()
                if now >= next_tick:
                    self._on_tick(now - before)
                    next_tick = now + (TICK_SECONDS if self.unfinished_rows else IDLE_TICK_SECONDS)
                elif self.unfinished_rows and next_tick - now > TICK_SECONDS:
                    next_tick = now + TICK_SECONDS
                if has_rows:
                    self.take(source.read())
                self._retry_due()
        finally:
            self._client.close()

    def take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._take(row)

    def _is_full(self) -> bool:
        return (
            self._is_letting_go
            or self.unfinished_rows >= self._limits.unfinished_rows
            or self._unfinished_bytes >= self._limits.unfinished_bytes
        )

    def _is_over(self) -> bool:
        if self._deadline is None:
            return False
        if time.monotonic() >= self._deadline:
            return True
        return self._client.in_flight == 0 if self._is_letting_go else self.unfinished_rows == 0

    def _wait_seconds(self, next_tick: float) -> float:
        until = next_tick
        if self._retries and not self._is_letting_go:
            until = min(until, self._retries[0][0])
        if self._deadline is not None:
            until = min(until, self._deadline)
        return max(0.0, until - time.monotonic())

    def _take(self, row: Row) -> None:
        """Puts the row into every lane that wants it and has not had it."""
        offset = row.offset
        for place in row.matched:
            lane = self.lanes[place]
            if lane.progress.is_done(offset):
                continue
            lane.progress.take_on(offset)
            lane.is_dirty = True
            row.unfinished += 1
            if lane.has_room and not self._is_letting_go:
                self._begin(lane, row)
            else:
                lane.waiting.append(row)
        if row.unfinished:
            self.unfinished_rows += 1
            self._unfinished_bytes += len(row.body)
        self.seen_offset = offset  # last: what is seen and not taken on counts as finished

    def _begin(self, lane: Lane, row: Row) -> None:
        lane.busy += 1
        self._post(Attempt(lane, row))

    def _post(self, attempt: Attempt) -> None:
        lane, row = attempt.lane, attempt.row
        subscription = lane.subscription
        headers = row.headers + lane.headers
        url = subscription.subscriber_url
        if attempt.dead_letter_headers is not None:
            headers = [line for line in headers if not line.startswith(b"ce-knativeerror")]
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
                b"ce-knativeerrordest:" + without_password(subscription.subscriber_url).encode(),
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
        if lane.waiting:
            self._begin_waiting(lane)

    def _begin_waiting(self, lane: Lane) -> None:
        while lane.waiting and lane.has_room and not self._is_letting_go:
            self._begin(lane, lane.waiting.popleft())

    def _retry_due(self) -> None:
        now = time.monotonic()
        while self._retries and self._retries[0][0] <= now and not self._is_letting_go:
            attempt = heapq.heappop(self._retries)[2]
            attempt.lane.on_retrying()
            self._post(attempt)


def without_password(url: str) -> str:
    """What may be shown to others: an address can carry a user and a password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
