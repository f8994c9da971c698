"""A lane: the deliveries of one subscription in one partition.

What order means is which events share a key: of a key only one attempt is begun at a time, through all its retries,
before the next. Unordered events have no key, ordered ones all have the same, and in key order it is the record's.

    add ─▶ waiting ─▶ (room, rate, key free, batch full or due) ─▶ begun ─▶ finished ─▶ the next of its keys
                                                                 │   ▲
                                                                 ▼   │
                                                  waits for its next try: no room taken, its keys still held
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.contract.model import Subscription
from penstock.delivery.client import Answer, Post
from penstock.delivery.dead_letter import Verdict
from penstock.delivery.dress import dress_of
from penstock.delivery.identity import fields_of
from penstock.delivery.progress import Progress, Range
from penstock.delivery.row import Row
from penstock.delivery.tally import Tally
from penstock.telemetry.logs import Bounded, about

if TYPE_CHECKING:
    from penstock.delivery.tracing import AttemptTrace

logger = logging.getLogger("penstock.delivery")

SIGNING_SECONDS = 2.0  # how often to look whether there is a key by now
FAILED_LINES, OUTCOME_LINES = 3, 20  # in the log, a second
ALL = 0  # the key of every event in an ordered lane


class Hold:
    """Keys that are held until all of those who share the hold are finished."""

    __slots__ = ("keys", "sharing")

    def __init__(self, keys: Sequence[int]) -> None:
        self.keys = keys
        self.sharing = 1


NO_HOLD = Hold(())


class Reply:
    """Events of an answer on their way to the address that wants them, one after the other."""

    __slots__ = ("answer", "posts")

    def __init__(self, answer: Answer, posts: Sequence[Post]) -> None:
        self.answer = answer  # the subscriber's
        self.posts = deque(posts)  # the first one is in flight


class Attempt:
    """One event, or a batch of them, on its way to one subscriber, through retries and to the dead letter sink."""

    __slots__ = ("answered", "began", "failures", "hold", "lane", "reply", "rows", "status", "trace", "verdict")

    def __init__(self, lane: "Lane", rows: list[Row], hold: Hold = NO_HOLD, failures: int = 0) -> None:
        self.lane = lane
        self.rows = rows
        self.hold = hold
        self.failures = failures
        self.began = self.answered = 0.0  # the last request, seconds since the epoch
        self.status = 0  # of its answer
        self.reply: Reply | None = None  # set while the subscriber's answer is sent on
        self.verdict: Verdict | None = None  # set once the subscriber has been given up
        self.trace: AttemptTrace | None = None  # of events that are traced


@dataclass(frozen=True)
class LaneLimits:
    """How much of a subscription's allowance one lane has."""

    window: int = 32  # POSTs in flight
    events_per_second: float = 0.0  # 0: as fast as it goes


@dataclass
class Counts:
    """What happened in a lane since its worker took over."""

    delivered: int = 0
    failed_attempts: int = 0
    dead_lettered: int = 0
    given_up: int = 0
    replies: int = 0
    loops_cut: int = 0  # replies and dead letters not passed on, since no hop was left
    parked: int = 0  # times that the lane held up others


class Lane:
    """Mutable state of one lane; owned by the delivering thread."""

    __slots__ = (
        "_again",
        "_allowance",
        "_allowed_at",
        "_batch",
        "_batch_due",
        "_failed_lines",
        "_freed",
        "_held",
        "_is_simple",
        "_limits",
        "_order",
        "_outcome_lines",
        "_room",
        "_waiting",
        "busy",
        "counts",
        "dress",
        "failing",
        "finished_at",
        "headers",
        "is_dirty",
        "is_gone",
        "is_held_back",
        "is_parked",
        "namespace_line",
        "partition",
        "progress",
        "signing_keys",
        "signing_problem",
        "subscription",
        "tally",
        "timer",
        "topic_id",
        "wakes_at",
        "wants_replies",
    )

    def __init__(
        self,
        subscription: Subscription,
        progress: Progress,
        limits: LaneLimits,
        failing: Mapping[int, int] | None = None,
    ) -> None:
        self.subscription = subscription
        self.progress = progress
        self.partition: int | None = None  # only to be named
        self.topic_id = ""  # as Kafka has it; for the dead letters
        self.counts = Counts()
        self.tally = Tally()
        self.busy = 0  # POSTs in flight
        self.failing = dict(failing or {})  # offset: how often it has failed; goes into the ledger
        self.is_parked = False  # it begins nothing, and a query of its own goes on with it
        self.is_held_back = False  # it begins nothing yet: a predecessor still waits for answers
        self.is_gone = False  # the subscriber wants nothing any more: nothing more begins, and nothing is dropped
        self.signing_keys: tuple[bytes, ...] = ()
        self.signing_problem = ""  # why nothing can be signed that has to be: nothing is sent meanwhile
        self.is_dirty = False  # has begun, failed or finished something since the ledger was last written
        self.wakes_at = 0.0  # when the loop has to ask again by itself; 0: something else will happen first
        self.finished_at = 0.0  # the last time that anything was
        self.timer = 0.0  # when it will; 0: no timer is set
        self.namespace_line = b"Kn-Namespace:" + subscription.namespace.encode()
        self.headers = [self.namespace_line, b"Prefer:reply"]
        self.wants_replies = bool(subscription.reply_topic or subscription.reply_url)
        self.dress = dress_of(subscription)  # what makes its events different from those of others; mostly nothing
        self._order = subscription.order
        self._is_simple = subscription.order == "unordered" and subscription.delivery.batch <= 1
        self._batch = subscription.delivery.batch
        self._batch_due = 0.0  # when an incomplete batch is sent all the same
        self._limits = limits
        self._room = limits.window  # POSTs in flight now; less while the subscriber says that it is too much
        self._allowance = 1.0  # events that the rate allows at once
        self._allowed_at = 0.0
        self._waiting: deque[Row] = deque()  # not begun, and not looked at
        self._held: dict[int, deque[Row]] = {}  # keys of what is begun, each with what waits behind it
        self._freed: deque[int] = deque()  # held keys whose next event may begin
        self._again: deque[Attempt] = deque()  # retries whose time has come
        self._failed_lines, self._outcome_lines = Bounded(FAILED_LINES), Bounded(OUTCOME_LINES)

    # ── what comes in, what begins ────────────────────────────────────────────────────────────────

    def add(self, row: Row, now: float) -> None:
        """Takes a row, in the order of offsets."""
        self.progress.take_on(row.offset)
        self.is_dirty = True
        if self._batch > 1 and not self._waiting:
            self._batch_due = now + self.subscription.delivery.batch_wait_seconds
        self._waiting.append(row)

    def next(self, now: float) -> Attempt | None:
        """What may begin now, if anything may; from then on it takes room."""
        self.wakes_at = 0.0
        if self.signing_problem:
            self.wakes_at = now + SIGNING_SECONDS
            return None
        if self.busy >= self._room or self.is_gone or not self._is_allowed(now):
            return None
        if self._again:
            attempt = self._again.popleft()
        else:
            if self._is_gathering(now):
                return None
            keys: dict[int, None] = {}
            if self._is_simple:
                rows = [self._waiting.popleft()] if self._waiting else []
            else:
                rows = list(self._gathered(keys))
            if not rows:
                return None
            attempt = Attempt(self, rows, Hold(tuple(keys)) if keys else NO_HOLD, self._failures_of(rows))
        self.busy += 1
        self._allowance -= len(attempt.rows)
        return attempt

    def _is_allowed(self, now: float) -> bool:
        rate = self._limits.events_per_second
        if not rate:
            return True
        self._allowance = min(max(1.0, rate / 10), self._allowance + (now - self._allowed_at) * rate)
        self._allowed_at = now
        if self._allowance > 0.999:  # sums of fractions
            return True  # a batch may overdraw it; the next one waits for that
        self.wakes_at = now + (1.0 - self._allowance) / rate
        return False

    def _is_gathering(self, now: float) -> bool:
        """Whether a batch is not full and may wait. What waits behind a held key does not count: it goes at once."""
        if self._batch <= 1 or len(self._waiting) >= self._batch or self._freed or now >= self._batch_due:
            return False
        if self._waiting:
            self.wakes_at = self._batch_due
        return True

    def _gathered(self, keys: dict[int, None]) -> Iterator[Row]:
        """The rows of the next attempt, their keys held from now on."""
        room = self._batch
        while self._freed and room:
            freed = self._freed[0]
            behind = self._held[freed]
            keys[freed] = None
            while behind and room:
                room -= 1
                yield behind.popleft()
            self._freed.popleft()
        if self._order == "ordered" and self._held and not keys:
            return  # all have the same key
        while self._waiting and room:
            row = self._waiting.popleft()
            key = self._key_of(row)
            if key is not None:
                held = self._held.get(key)
                if held is None:
                    self._held[key] = deque()
                    keys[key] = None
                elif held or key not in keys:
                    held.append(row)
                    continue
            room -= 1
            yield row

    # ── what becomes of it ────────────────────────────────────────────────────────────────────────

    def failed(self, attempt: Attempt) -> None:
        """Once more; the ledger remembers it."""
        attempt.failures += 1
        self.counts.failed_attempts += 1
        if attempt.verdict is None:
            for row in attempt.rows:
                self.failing[row.offset] = attempt.failures
            self.is_dirty = True

    def slow_down(self) -> None:
        """The subscriber, or what is before it, has too much to do: half as much at once."""
        self._room = max(1, self._room // 2)

    def speed_up(self) -> None:
        """It has taken something: one more at once."""
        if self._room < self._limits.window:
            self._room += 1

    def set_aside(self) -> None:
        """An attempt waits for its next try, and others may use its room."""
        self.busy -= 1

    def try_again(self, attempt: Attempt) -> None:
        """Its time has come."""
        self._again.append(attempt)

    def split(self, attempt: Attempt) -> list[Attempt]:
        """A batch that was given up, as attempts of one event each; they share its hold."""
        parts = [Attempt(self, [row], attempt.hold, attempt.failures) for row in attempt.rows]
        attempt.hold.sharing += len(parts) - 1
        for part in parts:
            part.verdict = attempt.verdict
            part.began, part.answered, part.status = attempt.began, attempt.answered, attempt.status
        self.busy += len(parts) - 1
        return parts

    def finish(self, attempt: Attempt) -> None:
        """Whatever became of it: the next of its keys may begin."""
        self.is_dirty = True
        self.busy -= 1
        for row in attempt.rows:
            self.progress.finish(row.offset)
            if self.failing:
                self.failing.pop(row.offset, None)
        hold = attempt.hold
        if hold is NO_HOLD:
            return
        hold.sharing -= 1
        if hold.sharing:
            return
        for key in hold.keys:
            if self._held[key]:
                self._freed.append(key)
            else:
                del self._held[key]

    # ── hand-over ─────────────────────────────────────────────────────────────────────────────────

    def hold_back(self) -> None:
        """Takes rows and begins nothing, until the predecessor has its last answer."""
        self.is_held_back = True
        self._room = 0

    def go_on(self, position: int, beyond: Iterable[Range], failing: Mapping[int, int]) -> list[Row]:
        """Continues where the predecessor is now. Forgets and returns the rows that the predecessor finished."""
        self.is_held_back = False
        self._room = self._limits.window
        self.is_dirty = True
        self.failing = dict(failing)
        finished = set(self.progress.catch_up(position, beyond))
        if not finished or self.is_parked:
            return []  # an isolated lane holds no rows
        rows = [row for row in self._waiting if row.offset in finished]
        self._waiting = deque(row for row in self._waiting if row.offset not in finished)
        return rows

    # ── parking ───────────────────────────────────────────────────────────────────────────────────

    def park(self) -> list[Row]:
        """Begins nothing any more and forgets what has not begun; its offsets stay open, for whoever goes on.

        Returns the rows that this lane no longer holds. What is in flight ends as it may.
        """
        self.is_parked = True
        self.counts.parked += 1
        self.is_dirty = True
        rows = [*self._waiting, *(row for behind in self._held.values() for row in behind)]
        rows += [row for attempt in self._again for row in attempt.rows]
        self._waiting.clear()
        self._again.clear()
        self._freed.clear()
        for behind in self._held.values():
            behind.clear()
        return rows

    def drop(self) -> None:
        """An attempt of a parked lane failed: whoever goes on will try it again."""
        self.busy -= 1
        self.is_dirty = True

    @property
    def is_drained(self) -> bool:
        """Parked, and nothing in flight: somebody else may go on."""
        return self.is_parked and not self.busy and not self.is_held_back

    def complain(self, what: str, offset: int, why: str, row: Row | None = None) -> None:
        """In the log, with enough to find the event, if it is about one."""
        fields = {"partition": self.partition} | fields_of(self.subscription, offset, row, self.dress)
        self._say(f"{what} offset {offset}", why, fields)

    def say_outcome(self, outcome: str, attempt: Attempt, why: str) -> None:
        """Of an event that was not delivered."""
        self._say_bounded(self._outcome_lines, f"{outcome}: offset", attempt, why)

    def say_failed(self, attempt: Attempt, why: str, wait_seconds: float | None) -> None:
        """Of one attempt."""
        then = "no further try" if wait_seconds is None else f"next try in {wait_seconds:.3g} s"
        whom = "the dead letter sink failed" if attempt.verdict is not None else "failed"
        self._say_bounded(self._failed_lines, f"attempt {attempt.failures} {whom}: offset", attempt, f"{why}; {then}")

    def _say_bounded(self, lines: Bounded, what: str, attempt: Attempt, why: str) -> None:
        left_out = lines.ask(time.monotonic())
        if left_out is None:
            return
        row = attempt.rows[0]
        fields = fields_of(self.subscription, row.offset, row, self.dress)
        fields |= {
            "attempt": attempt.failures or None,
            "status": attempt.status or None,
            "left_out": left_out or None,
        }
        others = f" and {len(attempt.rows) - 1} more" if len(attempt.rows) > 1 else ""
        self._say(f"{what} {row.offset}{others}", why, fields)

    def _say(self, what: str, why: str, fields: dict[str, Any]) -> None:
        of = self.subscription
        whom = f"{of.kind.lower()} {of.namespace}/{of.name}"
        logger.warning("%s of %s for %s: %s", what, of.topic, whom, why, extra=about(**fields))

    def _failures_of(self, rows: list[Row]) -> int:
        """What a predecessor has counted; the last try is made again, for its answer."""
        if not self.failing:
            return 0
        counted = max(self.failing.get(row.offset, 0) for row in rows)
        return min(counted, self.subscription.delivery.retry)

    def _key_of(self, row: Row) -> int | None:
        if self._order == "unordered":
            return None
        return ALL if self._order == "ordered" else row.key
