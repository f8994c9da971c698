"""THE PATH, third part: from matched rows to answered POSTs.

                        ┌────── wait ◀──────┐
    rows ─▶ take ─▶ lanes ─▶ begin ─▶ POST ─▶ answered ─▶ finished ─▶ progress ─▶ ledger
                                              │    │          ▲
                                              │    └─ reply ──┤ once Kafka, or the address for replies, has it
                                              └─▶ dead letter sink, or given up: recorded

One thread does all of it: it waits for rows and for answers in the same place. When too much is unfinished, it reads
no more rows, so memory is bounded and Kafka keeps the rest. If one slow lane is the reason, that lane is isolated
(parked): it begins no more deliveries, and another query continues it where it stopped.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.access.addresses import ALWAYS, AddressPolicy
from penstock.contract.model import GONE, REPORT_TOPIC, Gone, encode
from penstock.contract.telemetry import DEAD_LETTERED, GIVEN_UP, SINK_GIVEN_UP, Holds
from penstock.delivery.burial import bury
from penstock.delivery.client import Answer, Client
from penstock.delivery.dead_letter import LONGEST_REASON, Verdict, cut, for_sink, verdict, without_password
from penstock.delivery.hold_up import HoldUp
from penstock.delivery.lane import Attempt, Lane, Reply
from penstock.delivery.outbox import Outbox
from penstock.delivery.posts import post_of, reply_posts
from penstock.delivery.progress import Range
from penstock.delivery.reply import LoopCut, replies, reply_records
from penstock.delivery.retry import GONE_STATUS, TOO_MUCH, Outcome, outcome_of, wait_seconds
from penstock.delivery.row import Row, Source
from penstock.delivery.tally import holds, how_failed
from penstock.delivery.timers import Timers
from penstock.errors import Rejected
from penstock.event.attributes import DEFAULT_LIMITS, AttributeLimits, check_lengths, check_number
from penstock.event.kafka import Record

if TYPE_CHECKING:
    from penstock.delivery.tracing import DeliveryTracing

logger = logging.getLogger("penstock.delivery")

TICK_SECONDS = 0.05
IDLE_TICK_SECONDS = 0.5
LAST_RETRY_SECONDS = 0.5  # after the end of the rows, retries due within this time are waited for
DRAIN_SECONDS = 30.0  # what is in flight in a parked lane may take so long
POISON = "it ended its worker twice"
STORING_SECONDS = 0.002  # how soon to look whether Kafka has what was handed to it


@dataclass(frozen=True)
class Limits:
    """The limits of one worker: how much may be unfinished before it takes no more rows, and others."""

    window: int = 32  # POSTs in flight per lane
    unfinished_rows: int = 2_000
    unfinished_bytes: int = 32 * 1024 * 1024
    may_park: bool = False  # whether the slow lane may be isolated; another query then continues it
    most_parked: int = 8  # lanes that may be isolated at the end of the rows
    reply_hops: int = 16
    attributes: AttributeLimits = DEFAULT_LIMITS  # of a reply
    policy: AddressPolicy = ALWAYS  # which addresses are connected to


class Deliveries:
    """All lanes of one partition, and the loop that serves them."""

    def __init__(
        self, lanes: Sequence[Lane], limits: Limits, on_tick: Callable[[float], None], outbox: Outbox
    ) -> None:
        self.lanes = lanes
        self.seen_offset = -1  # of the last row taken, wanted or not
        self.taken_rows = 0  # since the beginning, wanted or not
        self.unfinished_rows = 0
        self._limits = limits
        self._on_tick = on_tick  # told how long the last round took: a long one means that we were stopped
        self._outbox = outbox  # to Kafka: replies, and what was not delivered
        self._unfinished_bytes = 0
        self._has_moved = False  # rows came or something was finished since the last tick
        self._hold_up = HoldUp()
        self._draining: dict[Lane, float] = {}  # parked lanes, and until when they may finish what is in flight
        self._timers = Timers()
        self.touch: Callable[[int], None] = lambda _: None  # told what is worked on, should that be the end of us
        self.leave: Callable[[], None] = lambda: None
        self.tracing: DeliveryTracing | None = None
        self._client = Client(self._answered, after_pause=lambda: self.after_pause(), policy=limits.policy)
        self._ended_at = 0.0  # when the rows ended
        self._waits_for_retries = True
        self._deadline: float | None = None  # set once no more rows are taken: when to leave at the latest
        self._is_letting_go = False  # begin nothing new, only finish what is in flight
        self._hand_over_at: float | None = None  # when the successor may continue all drained lanes
        self.hand_over: Callable[[], None] = lambda: None  # called once, if some lanes are still busy at that time
        self.after_pause: Callable[[], None] = lambda: None  # called before anything more is begun

    @property
    def is_finished(self) -> bool:
        """Whether everything that was begun is finished. Rows that an isolated lane has dropped do not count."""
        return not any(map(_is_unfinished, self.lanes))

    def let_go(self, patience_seconds: float, longest_seconds: float) -> None:
        """Begins no delivery any more. After ``patience_seconds`` the loop calls ``hand_over``: a successor gets all
        lanes with nothing in flight. The loop ends when all requests are answered, or after ``longest_seconds``.
        """
        if not self._is_letting_go:
            self._is_letting_go = True
            now = time.monotonic()
            self._deadline = now + longest_seconds
            self._hand_over_at = now + patience_seconds

    def go_on(self, lane: Lane, position: int, beyond: Iterable[Range], failing: Mapping[int, int]) -> None:
        """Continues a lane that was held back: the earlier worker has handed it over, at this position."""
        self._let_rows_go(lane.go_on(position, beyond, failing))
        if not lane.is_parked:
            self._begin_waiting(lane, time.monotonic())

    def isolate(self, lane: Lane) -> list[int]:
        """Begins nothing more in this lane; another query continues it. Returns the offsets that are in flight."""
        return [] if lane.is_parked else self._park(lane)

    def holds(self) -> dict[str, Holds]:
        """What this worker has begun and not finished for each subscription, by uid."""
        return holds(self.lanes, self._timers.waiting(time.time() - time.monotonic()))

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────

    def run(self, source: Source, patience_seconds: float, *, waits_for_retries: bool = True) -> None:
        """Runs until the rows have ended and all of them are finished, or the wait for them is over, or the hand-over
        is done.

        If it does not wait for retries, unfinished lanes are isolated at the end; another query continues them.
        """
        now = time.monotonic()
        self._waits_for_retries = waits_for_retries
        next_tick = now + TICK_SECONDS
        try:
            while not self._is_over():
                if source.is_over and self._deadline is None:
                    self._ended_at, self._deadline = now, now + patience_seconds
                wants_rows = not (source.is_over or self._is_full())
                self._client.watch(source.fileno() if wants_rows else None)
                has_rows = wants_rows and source.is_ready
                has_rows = self._client.run_once(0.0 if has_rows else self._wait_seconds(next_tick)) or has_rows
                before, now = now, time.monotonic()
                if self._hand_over_at is not None and now >= self._hand_over_at:
                    self._hand_over_at = None
                    self.hand_over()
                if now >= next_tick:
                    self._has_moved = False
                    self._on_tick(now - before)
                    next_tick = now + (TICK_SECONDS if self.unfinished_rows else IDLE_TICK_SECONDS)
                elif self._has_moved and next_tick - now > TICK_SECONDS:  # also when all of it is finished by now
                    next_tick = now + TICK_SECONDS
                if has_rows:
                    self.take(source.read())
                if self._outbox.waiting:
                    self._outbox.settle()
                self._timers_due()
                self._park_who_holds_up(now)
            if not (self._waits_for_retries or self._is_letting_go):
                self._leave_unfinished()
        finally:
            self._client.close()

    def take(self, rows: Iterable[Row]) -> None:
        now = time.monotonic()
        self._has_moved = True
        for row in rows:
            self._take(row, now)
            self.taken_rows += 1

    def _is_full(self) -> bool:
        return self._is_letting_go or self._fill() >= 1.0

    def _fill(self) -> float:
        """The share of the room that is taken."""
        limits = self._limits
        return max(self.unfinished_rows / limits.unfinished_rows, self._unfinished_bytes / limits.unfinished_bytes)

    def _is_over(self) -> bool:
        if self._deadline is None:
            return False
        now = time.monotonic()
        if now >= self._deadline:
            return True
        if self._is_letting_go:
            return not any(lane.busy for lane in self.lanes)
        return self.unfinished_rows == 0 or self._only_retries_are_left()

    def _only_retries_are_left(self) -> bool:
        """Nothing is in flight, and the retries that are left would delay the end for long."""
        if self._waits_for_retries or self._outbox.waiting or any(map(_is_awaited, self.lanes)):
            return False
        due = self._timers.next_at
        return due is None or due > self._ended_at + LAST_RETRY_SECONDS

    def _wait_seconds(self, next_tick: float) -> float:
        until = next_tick
        due = self._timers.next_at
        if due is not None and not self._is_letting_go:
            until = min(until, due)
        if self._deadline is not None:
            until = min(until, self._deadline)
        if self._hand_over_at is not None:
            until = min(until, self._hand_over_at)
        wait = max(0.0, until - time.monotonic())
        return min(wait, STORING_SECONDS) if self._outbox.waiting else wait

    def _take(self, row: Row, now: float) -> None:
        """Puts the row into every lane that matches it and has not finished it."""
        offset = row.offset
        if self.tracing is not None:
            self.tracing.take(row, self.lanes)
        for place in row.matched:
            lane = self.lanes[place]
            if lane.is_parked or lane.progress.is_done(offset):
                continue
            row.unfinished += 1
            lane.tally.matched += 1
            lane.add(row, now)
            self._begin_waiting(lane, now)
        if row.unfinished:
            self.unfinished_rows += 1
            self._unfinished_bytes += len(row.body)
        self.seen_offset = offset  # last: what is seen and not taken on counts as finished

    # ── parking ───────────────────────────────────────────────────────────────────────────────────

    def _park_who_holds_up(self, now: float) -> None:
        if self._is_letting_go:
            return
        if self._draining:
            self._end_draining(now)
        if not self._limits.may_park:
            return
        lane = self._hold_up.find(self.lanes, self.unfinished_rows, self._fill(), now)
        if lane is not None:
            self._park(lane)

    def _park(self, lane: Lane) -> list[int]:
        rows = [row for attempt in self._timers.drop(lane) for row in attempt.rows]
        self._draining[lane] = time.monotonic() + DRAIN_SECONDS
        rows += lane.park()
        self._let_rows_go(rows)
        left = {row.offset for row in rows}
        lane.complain("parked at", self.seen_offset, f"{lane.progress.open_count} events are unfinished")
        return [each for each in lane.progress.open_offsets() if each not in left]

    def _leave_unfinished(self) -> None:
        """At the end of the rows, lanes that are not finished stop. The ledger has the number of their attempts."""
        unfinished = [
            lane for lane in self.lanes if lane.progress.is_open and not (lane.is_parked or lane.is_held_back)
        ]
        if self._limits.may_park and len(unfinished) > self._limits.most_parked:
            return  # most of them would wait for a query of their own, so all go on in the next shared one
        for lane in self.lanes:
            if lane in unfinished:
                self._park(lane)
            if lane.is_parked and lane.busy:
                self._abandon(lane)

    def _abandon(self, lane: Lane) -> None:
        """Gives up what is in flight; the next worker sends it again."""
        self._dropped(self._client.abandon(partial(_is_of, lane)))

    def abandon_unsent(self) -> None:
        """After a pause: drops requests that have not left. The worker that has the partition now sends them."""
        self._dropped(self._client.abandon_unsent())

    def abandon_all(self) -> None:
        """After a long pause of a worker that only waited for answers: another worker sends these requests again."""
        self._dropped(self._client.abandon(lambda _: True))

    def _dropped(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            if attempt.trace is not None:
                attempt.trace.abandoned()
            attempt.lane.drop()
            self._let_rows_go(attempt.rows)

    def _end_draining(self, now: float) -> None:
        """Gives up requests of isolated lanes whose time is over. The query that continues a lane repeats them."""
        for lane, until in list(self._draining.items()):
            if now > until:
                self._abandon(lane)
            if now > until or lane.is_drained:
                del self._draining[lane]

    def _let_rows_go(self, rows: Iterable[Row]) -> None:
        for row in rows:
            row.unfinished -= 1
            if not row.unfinished:
                self.unfinished_rows -= 1
                self._unfinished_bytes -= len(row.body)

    # ── attempts ──────────────────────────────────────────────────────────────────────────────────

    def _begin_waiting(self, lane: Lane, now: float) -> None:
        while not self._is_letting_go and (attempt := lane.next(now)) is not None:
            self._post(attempt)
        if lane.wakes_at and not lane.timer:
            lane.timer = lane.wakes_at
            self._timers.add(lane.wakes_at, lane)

    def _post(self, attempt: Attempt) -> None:
        if any(row.is_poison for row in attempt.rows):
            self._set_aside(attempt)
            return
        if len(attempt.rows) == 1:  # of a batch nobody knows which one it was
            self.touch(attempt.rows[0].offset)
        try:
            self._send(attempt)
        except (OSError, MemoryError):
            self.leave()  # the machine's trouble, not the event's
            raise
        self.leave()

    def _set_aside(self, attempt: Attempt) -> None:
        """Gives up an event that has ended its worker twice. Other events of its batch are delivered one by one."""
        for part in attempt.lane.split(attempt) if len(attempt.rows) > 1 else [attempt]:
            if part.rows[0].is_poison:
                part.verdict = Verdict(0, POISON, attempt.failures, {})
                part.lane.tally.note(part, GIVEN_UP, POISON)
                self._give_up(part)
            else:
                self._post(part)

    def _send(self, attempt: Attempt) -> None:
        attempt.began = time.time()
        post = post_of(attempt, self.touch, attempt.began)
        if len(attempt.rows) > 1:
            self.leave()
        if self.tracing is not None:
            post = self.tracing.sent(attempt, post)
        self._client.send(post, attempt)

    def _timers_due(self) -> None:
        now = time.monotonic()
        while not self._is_letting_go and (due := self._timers.pop(now)) is not None:
            lane, attempt = due
            if attempt is None:
                lane.timer = 0.0
            else:
                lane.try_again(attempt)
            self._begin_waiting(lane, now)

    # ── answers ───────────────────────────────────────────────────────────────────────────────────

    def _answered(self, attempt: Attempt, answer: Answer) -> None:
        outcome = outcome_of(answer.status)
        if attempt.reply is None:
            attempt.answered, attempt.status = max(attempt.began, self._client.heard_at), answer.status
            if attempt.trace is not None:
                attempt.trace.answered(answer)
        if attempt.reply is not None:
            self._reply_answered(attempt, attempt.reply, answer)
        elif outcome is not Outcome.DELIVERED:
            self._failed(attempt, answer, may_retry=outcome is Outcome.TRY_AGAIN)
        elif attempt.verdict is not None:
            attempt.lane.counts.dead_lettered += 1
            attempt.lane.tally.note(attempt, DEAD_LETTERED)
            bury(self._outbox, attempt, "dead-lettered", self._finished)
        elif (answer.body or answer.is_cut_off) and attempt.lane.wants_replies:
            self._take_reply(attempt, answer)
        else:
            self._delivered(attempt)

    def _delivered(self, attempt: Attempt) -> None:
        lane = attempt.lane
        lane.counts.delivered += len(attempt.rows)
        lane.tally.note(attempt)
        lane.tally.last_error = ""
        lane.speed_up()
        self._finished(attempt)

    def _failed(self, attempt: Attempt, answer: Answer, *, may_retry: bool) -> None:
        lane = attempt.lane
        lane.failed(attempt)
        if answer.status in TOO_MUCH:
            lane.slow_down()
        if answer.status == GONE_STATUS and attempt.verdict is None and not lane.is_gone:
            self._is_gone(lane)
        lane.tally.last_error = why = answer.error or f"status {answer.status}"
        wait = None
        if may_retry and not lane.is_parked:
            policy = lane.subscription.delivery
            wait = wait_seconds(policy, attempt.failures, answer.retry_after_seconds, random.random())
        lane.tally.note(attempt, how_failed(attempt, is_last=wait is None and not lane.is_parked), why)
        lane.say_failed(attempt, why, wait)
        if lane.is_parked:
            lane.drop()
            self._let_rows_go(attempt.rows)
            return
        if wait is None:
            self._undeliverable(attempt, answer)
            return
        now = time.monotonic()
        lane.set_aside()
        self._timers.add(now + wait, lane, attempt)
        self._begin_waiting(lane, now)

    def _is_gone(self, lane: Lane) -> None:
        """Sends nothing more to this subscriber, and reports it. The controller then disables the subscription."""
        of = lane.subscription
        lane.is_gone = True
        lane.complain("410 Gone at", self.seen_offset, "it is disabled")
        gone = encode(Gone(of.topic, of.subscriber_url, of.resumed))
        self._outbox.send(REPORT_TOPIC, [Record((GONE + of.uid).encode(), gone, [])], lambda _: None)

    def _take_reply(self, attempt: Attempt, answer: Answer) -> None:
        """The delivery counts once Kafka, or the address that wants it, has the reply; until then it may fail."""
        lane = attempt.lane
        try:
            events = replies(answer, attempt.rows, self._limits.reply_hops)
            for event in events:
                check_number(event.attributes, self._limits.attributes.number)
                check_lengths(event.attributes, self._limits.attributes.each_bytes)
        except LoopCut:
            lane.counts.loops_cut += 1
            why = "not passed on: it came through too many replies already"
            lane.complain("the reply to", attempt.rows[0].offset, why, attempt.rows[0])
            events = []
        except Rejected as error:
            # The message may name a very long attribute.
            why = f"the reply is not a CloudEvent: {error.message}"[:LONGEST_REASON]
            self._failed(attempt, answer._replace(error=why), may_retry=True)
            return
        if not events:
            self._delivered(attempt)
            return
        cause = attempt.rows[0] if attempt.trace is None else attempt.trace.reply()
        if lane.subscription.reply_url:
            attempt.reply = Reply(answer, reply_posts(lane, events, cause))
            self._client.send(attempt.reply.posts[0], attempt)
        else:
            self._store_reply(attempt, answer, reply_records(events, cause))

    def _store_reply(self, attempt: Attempt, answer: Answer, records: Sequence[Record]) -> None:
        lane = attempt.lane

        def stored(error: str | None) -> None:
            if attempt.trace is not None:
                attempt.trace.replied(error)
            if error is None:
                lane.counts.replies += len(records)
                self._delivered(attempt)
            else:
                failure = answer._replace(error=f"the reply could not be stored: {error}")
                self._failed(attempt, failure, may_retry=True)

        self._outbox.send(lane.subscription.reply_topic, records, stored)

    def _reply_answered(self, attempt: Attempt, reply: Reply, answer: Answer) -> None:
        """Sends one reply after the other. If one is refused, the whole delivery has failed and is tried again."""
        lane = attempt.lane
        if outcome_of(answer.status) is Outcome.DELIVERED:
            lane.counts.replies += 1
            reply.posts.popleft()
            if reply.posts:
                self._client.send(reply.posts[0], attempt)
                return
            attempt.reply = None
            if attempt.trace is not None:
                attempt.trace.replied(None)
            self._delivered(attempt)
            return
        attempt.reply = None
        if answer.status in TOO_MUCH:
            lane.slow_down()
        why = f"status {answer.status}" if answer.status else answer.error
        said = f"the reply was not taken by {without_password(lane.subscription.reply_url)}: {why}"
        if attempt.trace is not None:
            attempt.trace.replied(said)
        failure = reply.answer._replace(error=said, retry_after_seconds=answer.retry_after_seconds)
        self._failed(attempt, failure, may_retry=True)

    def _undeliverable(self, attempt: Attempt, answer: Answer) -> None:
        """The subscriber gets no further attempt. The event goes to the dead letter sink, with new retries. It is
        given up if there is no sink, or if it is a dead letter already and has no hop left."""
        lane = attempt.lane
        if attempt.verdict is not None:
            self._give_up(attempt)
            return
        attempt.verdict = found = verdict(lane.subscription, answer, attempt.failures)
        for part in lane.split(attempt) if len(attempt.rows) > 1 else [attempt]:
            if self.tracing is not None:
                self.tracing.undeliverable(part)
            if not lane.subscription.delivery.dead_letter_url:
                self._give_up(part)
                continue
            try:
                part.verdict = for_sink(found, part.rows[0], self._limits.reply_hops)
            except LoopCut:
                lane.counts.loops_cut += 1
                part.verdict = cut(found)
                lane.tally.note(part, SINK_GIVEN_UP, part.verdict.reason)
                self._give_up(part)
            else:
                part.failures = 0
                self._post(part)

    def _give_up(self, attempt: Attempt) -> None:
        assert attempt.verdict is not None
        attempt.lane.counts.given_up += 1
        bury(self._outbox, attempt, "given up", self._finished)

    def _finished(self, attempt: Attempt) -> None:
        now, lane = time.monotonic(), attempt.lane
        self._has_moved = True
        lane.finished_at = now
        lane.finish(attempt)
        self._let_rows_go(attempt.rows)
        self._begin_waiting(lane, now)


def _is_of(lane: Lane, attempt: Attempt) -> bool:
    return attempt.lane is lane


def _is_awaited(lane: Lane) -> bool:
    """Whether the lane still waits for answers, here or in the earlier worker that drains it."""
    return lane.busy > 0 or (lane.is_held_back and lane.progress.is_open)


def _is_unfinished(lane: Lane) -> bool:
    """Whether rows of this lane would be lost if the worker ended as finished. The ledger has no record of this
    worker for a lane that is held back, so such a lane is unfinished while it is open or isolated."""
    if lane.is_parked and not lane.is_held_back:
        return lane.busy > 0
    return lane.is_parked or lane.progress.is_open
