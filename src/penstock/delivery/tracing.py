"""The spans of deliveries, for events that are traced; all others never come here but for one look at a header.

    (receiver: receive ─▶ produce) ─▶ match ─┬─▶ attempt ─▶ reply ─▶ (match of the reply)
                                             ├─▶ attempt
                                             └─▶ dead letter ─▶ attempt (to the sink)

The request of an attempt carries that attempt's span as its ``traceparent``. Called by ``deliver.py``; made by the
worker for its partition when tracing is on, and imported only then.
"""

from collections.abc import Sequence
from functools import lru_cache
from time import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from penstock.delivery.client import Answer, Post
from penstock.delivery.dead_letter import without_password
from penstock.delivery.dress import Dress
from penstock.delivery.identity import attributes_of, subscription_label
from penstock.delivery.row import ForeignRow, Row, RowTrace
from penstock.telemetry.spans import (
    CLIENT,
    CONSUMER,
    INTERNAL,
    PRODUCER,
    Attributes,
    Span,
    SpanKind,
    Tracing,
    Value,
    end,
    parent_of,
)
from penstock.telemetry.traces import Parent

if TYPE_CHECKING:
    from penstock.delivery.lane import Attempt, Lane

TRACEPARENT = b"traceparent:"
KAFKAS_STEP_SECONDS = 0.001  # its times are cut off, and would lie before what they follow
NAMED = ("id", "source", "type")  # attributes of the event that spans know
CUT_OFF = "cut off: whoever goes on with the partition sends it again"


class DeliveryTracing:
    """Of one partition."""

    def __init__(self, tracing: Tracing, topic: str, partition: int) -> None:
        self.tracing = tracing
        self.topic = topic
        self.open: set[Span] = set()  # begun and not ended
        self._place: Attributes = {
            "messaging.system": "kafka",
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(partition),
        }

    def take(self, row: Row, lanes: "Sequence[Lane]") -> None:
        """The row is here: if it is traced, everything that becomes of it belongs to its match span."""
        traceparent = traceparent_of(row)
        if not traceparent and row.received:
            return  # the receiver has thrown the dice already
        is_traced, parent = self.tracing.choice.of(traceparent)
        if not is_traced:
            return
        wanting = [lanes[place] for place in row.matched]
        wanting = [lane for lane in wanting if not (lane.is_parked or lane.progress.is_done(row.offset))]
        if wanting:
            row.trace = self._match(row, wanting, parent)

    def _match(self, row: Row, wanting: "Sequence[Lane]", parent: Parent | None) -> RowTrace:
        event = _event(row, None)
        attributes = {
            **self._place,
            **event,
            "messaging.kafka.offset": row.offset,
            "messaging.operation.name": "match",
            "messaging.operation.type": "receive",
            "penstock.subscriptions": [subscription_label(lane.subscription) for lane in wanting],
        }
        now = time()
        began = min(row.written + KAFKAS_STEP_SECONDS, now) if row.written else now
        span = self.tracing.begin(f"match {self.topic}", CONSUMER, parent, attributes, began)
        end(span)
        return RowTrace(parent_of(span), event)

    def sent(self, attempt: "Attempt", post: Post) -> Post:
        """The request of an attempt, with its span in it, if one of its events is traced."""
        for row in attempt.rows:
            if row.trace is not None:
                break
        else:
            return post
        if attempt.trace is None:
            attempt.trace = AttemptTrace(self, attempt)
        return attempt.trace.sent(post)

    def undeliverable(self, attempt: "Attempt") -> None:
        """The subscriber is given up for one event."""
        if attempt.rows[0].trace is not None:
            if attempt.trace is None:
                attempt.trace = AttemptTrace(self, attempt)
            attempt.trace.undeliverable()

    def close(self) -> None:
        """What is still open is cut off here, and is sent again by somebody else."""
        for span in self.open:
            end(span, CUT_OFF)
        self.open.clear()
        self.tracing.flush()


class AttemptTrace:
    """The spans of one attempt of the lane, which may be several requests."""

    __slots__ = ("_attempt", "_dead", "_of", "_replies", "_spans")

    def __init__(self, of: DeliveryTracing, attempt: "Attempt") -> None:
        self._of = of
        self._attempt = attempt
        self._spans: list[Span] = []  # of the present request: one for each traced event in it
        self._replies: list[Span] = []
        self._dead: Span | None = None

    def sent(self, post: Post) -> Post:
        attempt = self._attempt
        request = {**_request(post.url), "penstock.attempt": attempt.failures + 1}
        if len(attempt.rows) > 1:
            request["messaging.batch.message_count"] = len(attempt.rows)
        whom = "dead letter sink of " if attempt.verdict is not None else ""
        name = f"attempt {whom}{subscription_label(attempt.lane.subscription)}"
        self._end_all(self._spans, "")
        dead = None if self._dead is None else parent_of(self._dead)
        for row in attempt.rows:
            if row.trace is not None:
                self._spans.append(self._begin(name, CLIENT, dead or row.trace.match, row, request))
        lines = with_traceparent(post.headers, parent_of(self._spans[0]))
        return Post(post.url, lines, post.body, post.timeout_seconds, post.wants_reply)

    def answered(self, answer: Answer) -> None:
        is_well = 200 <= answer.status < 300
        error = "" if is_well else answer.error or f"status {answer.status}"
        told: Attributes = {"http.response.status_code": answer.status} if answer.status else {}
        if error:
            told = {**told, "error.type": str(answer.status or "_OTHER"), "penstock.error": error}
        for span in self._spans:  # the list stays, since a reply goes on from there
            self._end(span, error, told, self._attempt.answered)

    def abandoned(self) -> None:
        """It is not waited for any longer."""
        for spans in (self._spans, self._replies):
            self._end_all(spans, CUT_OFF)

    def reply(self) -> Row:
        """The event that is answered, with the reply's span as its trace: replies go on from there."""
        attempt = self._attempt
        row = attempt.rows[0]
        to = attempt.lane.subscription
        where: Attributes = {"messaging.operation.name": "reply", "messaging.operation.type": "send"}
        if to.reply_url:
            where = {**where, "url.full": _shown(to.reply_url)}
        else:
            where = {**where, "messaging.destination.name": to.reply_topic}
        span = self._begin(f"reply {subscription_label(to)}", PRODUCER, parent_of(self._spans[0]), row, where)
        self._replies.append(span)
        return Row(row.offset, row.matched, with_traceparent(row.headers, parent_of(span)), b"")

    def replied(self, error: str | None) -> None:
        self._end_all(self._replies, error or "")

    def undeliverable(self) -> None:
        attempt, row = self._attempt, self._attempt.rows[0]
        found = attempt.verdict
        assert found is not None
        why: Attributes = {"penstock.error": found.reason, "penstock.attempts": found.attempts}
        name = f"dead letter {subscription_label(attempt.lane.subscription)}"
        self._dead = self._begin(name, INTERNAL, None if row.trace is None else row.trace.match, row, why)

    def buried(self, outcome: str, error: str | None) -> None:
        """It is in the record of dead letters, or could not be put there."""
        if self._dead is not None:
            span, self._dead = self._dead, None
            failed = "nobody took it" if outcome.startswith("given up") else error or ""
            self._end(span, failed, {"penstock.outcome": outcome})

    def _begin(self, name: str, kind: SpanKind, parent: Parent | None, row: Row, more: Attributes) -> Span:
        """Few attributes, since each takes time here and once more in the exporter. Where the event stands in Kafka
        is said by its match."""
        of, lane = self._of, self._attempt.lane
        event = row.trace.about if row.trace is not None and lane.dress is None else _event(row, lane.dress)
        attributes: dict[str, Value] = {
            "messaging.destination.name": of.topic,
            "penstock.subscription": subscription_label(lane.subscription),
            **event,
            **more,
        }
        began = self._attempt.began if kind is CLIENT else None  # a request
        span = of.tracing.begin(name, kind, parent, attributes, began)
        of.open.add(span)
        return span

    def _end_all(self, spans: list[Span], error: str) -> None:
        for span in spans:
            self._end(span, error)
        spans.clear()

    def _end(self, span: Span, error: str, told: Attributes | None = None, at: float = 0.0) -> None:
        if span in self._of.open:
            self._of.open.discard(span)
            end(span, error, told, at)


def _event(row: Row, dress: Dress | None) -> dict[str, str]:
    attributes = attributes_of(row, dress)
    return {f"cloudevents.event_{name}": attributes[name] for name in NAMED if name in attributes}


@lru_cache(maxsize=256)
def _request(url: str) -> dict[str, Value]:
    """What is the same for all requests to an address; a caller makes it its own."""
    return {"http.request.method": "POST", "url.full": _shown(url), "server.address": urlsplit(url).hostname or ""}


def _shown(url: str) -> str:
    """Neither password nor query, which may hold a token."""
    return urlunsplit(urlsplit(without_password(url))._replace(query="", fragment=""))


def traceparent_of(row: Row) -> bytes:
    for line in row.headers:
        if line.startswith(TRACEPARENT):
            return line[len(TRACEPARENT) :].strip()
    if isinstance(row, ForeignRow):
        return dict(row.record.headers).get(b"traceparent") or b""
    return b""


def with_traceparent(lines: Sequence[bytes], of: Parent) -> list[bytes]:
    """Header lines with this trace in them; a ``tracestate`` stays."""
    return [*(line for line in lines if not line.startswith(TRACEPARENT)), TRACEPARENT + of.traceparent]
