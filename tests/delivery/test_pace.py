"""Promises of pace: when a retry comes, and how much is sent at once to who has too much to do."""

import threading
from collections.abc import Callable

import pytest

from penstock.contract.model import Delivery
from penstock.delivery import deliver
from penstock.delivery.retry import wait_seconds
from tests.delivery.loop import MakeSink, lane, row, running
from tests.sink import Answer, Request
from tests.waiting import until


@pytest.mark.scenario(17)
@pytest.mark.parametrize(("asked", "longest", "at_least", "at_most"), [(1, None, 0.95, 8.0), (60, 0.2, 0.19, 20.0)])
def test_a_subscriber_that_asks_for_time_gets_it(
    sink: MakeSink, asked: int, longest: float | None, at_least: float, at_most: float
) -> None:
    """Kept promise: the next try comes when Retry-After is over, or retryAfterMax, if that is less."""
    subscriber = sink()
    answers = iter([Answer(503, headers={"Retry-After": str(asked)}), Answer(200)])
    subscriber.answer("/a", with_=lambda _: next(answers))
    policy = Delivery(retry=1, backoff_delay_seconds=0.01, retry_after_max_seconds=longest)
    with running(lane(subscriber.url + "/a", delivery=policy)) as rows:
        rows.offer(row(0))
    first, second = subscriber.requests
    assert at_least <= second.received - first.received <= at_most


def test_every_retry_throws_its_own_dice(sink: MakeSink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: what failed together does not come back together."""
    thrown: list[float] = []

    def noting(policy: Delivery, failures: int, asked: float = 0.0, dice: float = 0.0) -> float | None:
        thrown.append(dice)
        return wait_seconds(policy, failures, asked, dice)

    monkeypatch.setattr(deliver, "wait_seconds", noting)
    subscriber = sink()
    seen: set[str] = set()

    def fail_once(request: Request) -> Answer:
        identity = request.headers["ce-id"]
        status = 200 if identity in seen else 500
        seen.add(identity)
        return Answer(status)

    subscriber.answer("/a", with_=fail_once)
    with running(lane(subscriber.url + "/a", delivery=Delivery(retry=1, backoff_delay_seconds=0.01))) as rows:
        for offset in range(20):
            rows.offer(row(offset))
    assert len(thrown) == len(set(thrown)) == 20
    assert all(0.0 <= dice <= 1.0 for dice in thrown)


@pytest.mark.parametrize("too_much", [429, 502, 503, 504])
def test_who_has_too_much_to_do_gets_half_and_then_one_more_with_each_success(sink: MakeSink, too_much: int) -> None:
    """Kept promise: of eight requests at once four are left, then two; a success makes it three."""
    subscriber = sink()
    held = [threading.Event() for _ in range(20)]  # the answers; events begin in their order
    statuses = {0: too_much, 8: too_much, 12: 200}

    def decide(request: Request) -> Answer:
        number = int(request.headers["ce-id"])
        return Answer(statuses.get(number, 400), after=held[number])

    subscriber.answer("/a", with_=decide)
    target = lane(subscriber.url + "/a", window=8)

    def has_ended(count: int) -> Callable[[], bool]:
        return lambda: target.counts.delivered + target.counts.given_up == count

    with running(target) as rows:
        for offset in range(len(held)):
            rows.offer(row(offset))
        subscriber.wait_for(8)
        assert target.busy == 8
        for first, last, at_once in ((0, 7, 4), (8, 11, 2), (12, 13, 3)):
            held[first].set()
            until(has_ended(first + 1), "what it said is known before the others are answered")
            for each in held[first + 1 : last + 1]:
                each.set()
            subscriber.wait_for(last + 1 + at_once, timeout_seconds=10)  # the last of them begins when all is settled
            assert target.busy == at_once
        for each in held:
            each.set()
    assert target.progress.position == len(held)
