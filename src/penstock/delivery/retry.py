"""What an answer means and when to try again. Pure: the dice of the jitter are the caller's."""

from enum import Enum

from penstock.contract.model import Delivery

RETRIED_STATUSES = frozenset({404, 408, 409, 429})
TOO_MUCH = frozenset({429, 502, 503, 504})  # a subscriber that says so gets less at once
GONE_STATUS = 410  # a subscriber that says so wants nothing any more
LONGEST_WAIT_SECONDS = 600.0  # however large the exponent or the subscriber's wish
JITTER = 0.1  # of the delay, so that lanes which failed together do not come back together


class Outcome(Enum):
    """How an attempt ended."""

    DELIVERED = "delivered"
    TRY_AGAIN = "try again"
    REFUSED = "refused"  # the subscriber will not take it, now or later


def outcome_of(status: int) -> Outcome:
    """The meaning of an HTTP status; 0 stands for no answer at all."""
    if 200 <= status < 300:
        return Outcome.DELIVERED
    if status == 0 or status >= 500 or status in RETRIED_STATUSES:
        return Outcome.TRY_AGAIN
    return Outcome.REFUSED


def wait_seconds(
    policy: Delivery, failures: int, retry_after_seconds: float = 0.0, dice: float = 0.0
) -> float | None:
    """How long to wait after the n-th failure (n from 1), or None when the retries are used up.

    The subscriber's own wish (Retry-After) is honoured up to ``retryAfterMax``; ``dice`` are between 0 and 1.
    """
    if failures > policy.retry:
        return None
    delay = policy.backoff_delay_seconds
    if policy.backoff_policy == "exponential":
        delay *= 2.0 ** min(failures - 1, 40)
    delay *= 1.0 + JITTER * dice
    longest = policy.retry_after_max_seconds
    asked = min(retry_after_seconds, LONGEST_WAIT_SECONDS if longest is None else longest)
    return min(max(delay, asked), LONGEST_WAIT_SECONDS)
