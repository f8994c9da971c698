"""Promises of the one word on an event: it follows from what is known, and what is not known is said."""

import pytest

from penstock.contract.model import Delivery, Subscription
from penstock.contract.telemetry import DEAD_LETTERED, DELIVERED, GIVEN_UP, RETRIED, TO_SINK_RETRIED
from penstock.control.outcomes import UNKNOWN_ATTEMPTS, Facts, outcome, shown
from penstock.kafka.delivery_log import Tried

SUBSCRIPTION = Subscription(
    uid="u",
    kind="Trigger",
    namespace="n",
    name="t",
    topic="orders",
    group="g",
    subscriber_url="http://localhost/",
    delivery=Delivery(retry=3, backoff_policy="linear", backoff_delay_seconds=2.0),
)


def tried(*ended: int) -> list[Tried]:
    return [Tried("u", 100.0 + n, 50, 500, each, n + 1, "answered 500") for n, each in enumerate(ended)]


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (Facts(False, "no"), "FILTERED"),
        (Facts(True, "yes"), "PENDING"),
        (Facts(True, "yes", is_finished=False, is_reached=True), "IN FLIGHT"),
        (Facts(True, "yes", is_finished=False, is_reached=True, failures=2), "RETRYING"),
        (Facts(True, "yes", tried(RETRIED), is_finished=False), "RETRYING"),
        (Facts(True, "yes", tried(RETRIED, TO_SINK_RETRIED), is_finished=False), "RETRYING"),
        (Facts(True, "yes", tried(RETRIED, DELIVERED), is_finished=True), "DELIVERED"),
        (Facts(True, "yes", tried(RETRIED, DEAD_LETTERED), is_finished=True), "DEAD"),
        (Facts(True, "yes", tried(GIVEN_UP), is_finished=True), "DEAD"),
        (Facts(True, "yes", is_finished=True), "DELIVERED"),
        (Facts(True, "yes", is_finished=True, begins_at=7), "BEFORE"),
        (Facts(True, "yes", tried(DELIVERED), is_finished=True, begins_at=7), "DELIVERED"),
        (Facts(True, "yes", tried(RETRIED), is_gone=True), "CANCELLED"),
        (Facts(True, "yes", tried(DELIVERED), is_gone=True), "DELIVERED"),
        (Facts(True, "yes", is_finished=False, held="paused: by hand"), "HELD"),
        (Facts(True, "yes", is_finished=True, held="paused: by hand"), "DELIVERED"),
    ],
)
def test_one_word(facts: Facts, word: str) -> None:
    """Kept promise: an end that was logged counts most, then the dead letter, the start, the position."""
    assert outcome(facts) == word


def test_what_is_not_known_is_said() -> None:
    """Kept promise: a position behind the event without an attempt in the log is no claim about attempts."""
    said = shown(SUBSCRIPTION, Facts(True, "yes", is_finished=True))
    assert (said["outcome"], said["attempts"], said["notes"]) == ("DELIVERED", [], [UNKNOWN_ATTEMPTS])


def test_requests_to_the_sink_are_told_apart() -> None:
    """Kept promise: what was sent to the dead letter sink is no attempt at the subscriber."""
    said = shown(SUBSCRIPTION, Facts(True, "yes", tried(RETRIED, TO_SINK_RETRIED, DEAD_LETTERED)))
    assert [each["to_sink"] for each in said["attempts"]] == [False, True, True]


def test_the_next_try() -> None:
    """Kept promise: it comes after the delay of the policy, from the end of the last attempt on."""
    said = shown(SUBSCRIPTION, Facts(True, "yes", tried(RETRIED), is_finished=False))
    assert said["next_try"] == "1970-01-01T00:01:42.150Z"
    assert said["max_attempts"] == 4
    assert said["attempts"][0]["error"] == "answered 500"
