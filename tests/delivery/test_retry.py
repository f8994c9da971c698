"""Promises of the retry policy: Knative's rules on what is retried, and waits that grow, keep a cap and end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.model import Delivery
from penstock.delivery.retry import JITTER, LONGEST_WAIT_SECONDS, Outcome, outcome_of, wait_seconds


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *[(status, Outcome.DELIVERED) for status in (200, 201, 202, 204, 299)],
        *[(status, Outcome.TRY_AGAIN) for status in (0, 404, 408, 409, 429, 500, 502, 503, 504, 599)],
        *[(status, Outcome.REFUSED) for status in (100, 301, 302, 400, 401, 403, 405, 410, 413, 422)],
    ],
)
def test_what_a_status_means(status: int, outcome: Outcome) -> None:
    """Kept promise: success, retry and refusal are told apart as Knative does."""
    assert outcome_of(status) is outcome


def test_every_status_has_its_meaning() -> None:
    """Kept promise: all of 2xx is taken, all of 5xx and four more are tried again, and nothing else is."""
    statuses = range(100, 600)
    assert [each for each in statuses if outcome_of(each) is Outcome.DELIVERED] == [*range(200, 300)]
    again = [each for each in statuses if outcome_of(each) is Outcome.TRY_AGAIN]
    assert again == [404, 408, 409, 429, *range(500, 600)]


@given(retry=st.integers(0, 20), failures=st.integers(1, 30), delay=st.floats(0.001, 100))
def test_retries_end_after_the_number_asked_for(retry: int, failures: int, delay: float) -> None:
    """Kept promise: exactly ``retry`` further attempts, none of which waits beyond the cap."""
    wait = wait_seconds(Delivery(retry=retry, backoff_delay_seconds=delay), failures)
    assert (wait is None) == (failures > retry)
    assert wait is None or 0 < wait <= LONGEST_WAIT_SECONDS


@pytest.mark.parametrize(("policy", "expected"), [("linear", [1, 1, 1, 1]), ("exponential", [1, 2, 4, 8])])
def test_backoff_policies(policy: str, expected: list[float]) -> None:
    """Kept promise: linear waits the delay each time, exponential doubles it, with a little jitter."""
    delivery = Delivery(retry=9, backoff_policy=policy, backoff_delay_seconds=1.0)  # type: ignore[arg-type]
    for failures, base in enumerate(expected, start=1):
        wait = wait_seconds(delivery, failures)
        assert wait is not None
        assert base <= wait <= base * (1 + JITTER)


@pytest.mark.parametrize(("dice", "expected"), [(0.0, 10.0), (0.5, 10.5), (1.0, 11.0)])
@pytest.mark.parametrize("policy", ["linear", "exponential"])
def test_jitter_is_up_to_a_tenth_more(policy: str, dice: float, expected: float) -> None:
    """Kept promise: lanes that failed together come back apart, and none of them too early."""
    delivery = Delivery(retry=9, backoff_policy=policy, backoff_delay_seconds=10.0)  # type: ignore[arg-type]
    assert wait_seconds(delivery, 1, dice=dice) == pytest.approx(expected)


@pytest.mark.parametrize("failures", [41, 1_100, 2**31 - 1])
def test_no_number_of_failures_is_too_large_to_wait_for(failures: int) -> None:
    """Kept promise: who retries for ever waits the longest wait each time, however large the exponent would be."""
    assert wait_seconds(Delivery(retry=2**31 - 1), failures) == LONGEST_WAIT_SECONDS


def test_retry_after_can_be_switched_off() -> None:
    """Kept promise: retryAfterMax PT0S means that the header is ignored, as with Knative."""
    policy = Delivery(retry=1, backoff_delay_seconds=0.1, retry_after_max_seconds=0.0)
    wait = wait_seconds(policy, 1, retry_after_seconds=300.0)
    assert wait is not None
    assert wait < 1.0


@pytest.mark.scenario(17)
def test_retry_after_is_honoured_and_capped() -> None:
    """Kept promise: a subscriber that asks for time gets it, but not for ever."""
    patient = Delivery(retry=1, backoff_delay_seconds=0.01)
    assert wait_seconds(patient, 1, retry_after_seconds=3.0) == 3.0
    assert wait_seconds(patient, 1, retry_after_seconds=31_536_000.0) == LONGEST_WAIT_SECONDS
    capped = Delivery(retry=1, backoff_delay_seconds=0.01, retry_after_max_seconds=2.0)
    assert wait_seconds(capped, 1, retry_after_seconds=3.0) == 2.0
