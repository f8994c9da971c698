"""What became of an event at one subscription, by all that is known of it. Pure.

In: what filter, position, log and dead letters say. Out: one word, and what is not known. Called by ``explain``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.contract.model import Delivery, Subscription
from penstock.contract.moments import iso
from penstock.contract.telemetry import DEAD_LETTERED, DELIVERED, GIVEN_UP, RETRIED, SINK_GIVEN_UP, TO_SINK_RETRIED
from penstock.delivery.retry import wait_seconds
from penstock.delivery.tally import OF_SINK
from penstock.kafka.dead_letter_index import Indexed
from penstock.kafka.delivery_log import Tried

ENDED = {
    DELIVERED: "delivered",
    RETRIED: "retried",
    DEAD_LETTERED: "dead-lettered",
    GIVEN_UP: "given up",
    TO_SINK_RETRIED: "sink retried",
    SINK_GIVEN_UP: "given up",
}
FINAL = frozenset({DELIVERED, DEAD_LETTERED, GIVEN_UP, SINK_GIVEN_UP})
UNKNOWN_ATTEMPTS = "its position is behind the event; attempts are no longer known"


@dataclass(frozen=True)
class Facts:
    """What is known of an event at a subscription."""

    matched: bool
    because: str
    attempts: Sequence[Tried] = ()
    letter: Indexed | None = None
    begins_at: int | None = None  # where the subscription began, if that is behind the event
    is_finished: bool | None = None  # by its position; None: that is not known
    is_reached: bool = False  # a worker has had it
    failures: int = 0  # by the ledger
    held: str = ""  # why nothing is delivered now
    is_gone: bool = False  # the subscription was deleted
    notes: tuple[str, ...] = field(default=())


def is_final(attempts: Sequence[Tried]) -> bool:
    return any(each.ended in FINAL for each in attempts)


def outcome(facts: Facts) -> str:
    """One of the words that people see."""
    if not facts.matched:
        return "FILTERED"
    ends = [each.ended for each in facts.attempts if each.ended in FINAL]
    if ends:
        return "DELIVERED" if ends[-1] == DELIVERED else "DEAD"
    if facts.letter is not None:
        return "DEAD"
    if facts.is_gone:
        return "CANCELLED"
    if facts.begins_at is not None and not facts.attempts:
        return "BEFORE"
    if facts.is_finished:
        return "DELIVERED"
    if facts.held:
        return "HELD"
    if facts.attempts or facts.failures:
        return "RETRYING"
    return "IN FLIGHT" if facts.is_reached else "PENDING"


def shown(subscription: Subscription, facts: Facts) -> dict[str, Any]:
    """As the API and the command line show it."""
    word = outcome(facts)
    because, notes = facts.because, list(facts.notes)
    if word == "BEFORE":
        because = f"it began later, at offset {facts.begins_at}"
    elif word == "HELD":
        notes.append(facts.held)
    elif word == "DELIVERED" and not is_final(facts.attempts):
        notes.append(UNKNOWN_ATTEMPTS)
    retries = word == "RETRYING" and bool(facts.attempts)
    return {
        "name": subscription.name,
        "namespace": subscription.namespace,
        "kind": subscription.kind,
        "key": f"{subscription.kind}/{subscription.namespace}/{subscription.name}",
        "uid": subscription.uid,
        "matched": facts.matched,
        "because": because,
        "outcome": word,
        "attempts": [_attempt(each) for each in facts.attempts],
        "next_try": _next_try(subscription.delivery, facts.attempts[-1]) if retries else None,
        "max_attempts": subscription.delivery.retry + 1,
        "dead_letter": None if facts.letter is None else _letter(facts.letter),
        "notes": notes,
    }


def _attempt(tried: Tried) -> dict[str, Any]:
    return {
        "time": iso(tried.began),
        "status": tried.status,
        "took_ms": tried.took_ms,
        "ended": ENDED.get(tried.ended, str(tried.ended)),
        "error": tried.why or None,
        "to_sink": tried.ended in OF_SINK,
    }


def _letter(letter: Indexed) -> dict[str, Any]:
    return {
        "outcome": letter.outcome,
        "reason": letter.reason,
        "code": letter.code,
        "attempts": letter.attempts,
        "time": iso(letter.time),
        "redriven": iso(letter.redriven) if letter.redriven else None,
    }


def _next_try(policy: Delivery, last: Tried) -> str | None:
    """About: the dice of the delay, and what the subscriber wished, are the worker's."""
    wait = wait_seconds(policy, last.failures, dice=0.5)
    return None if wait is None else iso(last.began + last.took_ms / 1000 + wait)
