"""Promises of the delivering loop, against real HTTP servers: order, windows, retries, dead letters, holding."""

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from penstock.contract.model import Delivery, Subscription
from penstock.delivery.deliver import Deliveries, Limits
from penstock.delivery.lane import Lane
from penstock.delivery.progress import Progress
from penstock.delivery.row import Row
from penstock.ports import free_port
from tests.sink import Answer, Request, Sink

MakeSink = Callable[[], Sink]


def lane(url: str, window: int = 8, position: int = 0, **fields: Any) -> Lane:
    subscription = Subscription(
        uid="u", kind="Trigger", namespace="shop", name="t", topic="orders", group="g", subscriber_url=url
    )
    return Lane(msgspec.structs.replace(subscription, **fields), Progress(position), window)


def row(offset: int, places: tuple[int, ...] = (0,)) -> Row:
    return Row(offset, places, [b"ce-id:%d" % offset, b"content-type:application/json"], b'{"n":%d}' % offset)


@contextmanager
def running(*lanes: Lane, limits: Limits | None = None) -> Iterator[Deliveries]:
    """The loop in its thread; at the end everything offered must be finished."""
    deliveries = Deliveries(lanes, limits or Limits(), on_tick=lambda: None)
    thread = threading.Thread(target=deliveries.run, daemon=True)
    thread.start()
    try:
        yield deliveries
    finally:
        deliveries.end(20.0, hold=False)
        thread.join(25.0)
        assert not thread.is_alive()


def ids(requests: list[Request]) -> list[int]:
    return [int(each.headers["ce-id"]) for each in requests]


def test_every_lane_that_matches_gets_the_event_once(sink: MakeSink) -> None:
    """Kept promise: one delivery per matching subscription, also to the same address."""
    subscriber = sink()
    lanes = [lane(subscriber.url + path) for path in ("/a", "/b", "/b")]
    with running(*lanes) as deliveries:
        for offset in range(50):
            deliveries.offer(row(offset, (0, 1, 2) if offset % 2 else (0,)))
    assert sorted(ids(subscriber.at("/a"))) == list(range(50))
    assert sorted(ids(subscriber.at("/b"))) == sorted([*range(1, 50, 2)] * 2)
    assert [each.progress.position for each in lanes] == [50, 50, 50]


def test_the_request_carries_event_and_namespace(sink: MakeSink) -> None:
    """Kept promise: headers and data arrive as they are, with Knative's namespace header."""
    subscriber = sink()
    with running(lane(subscriber.url + "/a")) as deliveries:
        deliveries.offer(row(7))
    (request,) = subscriber.requests
    assert (request.method, request.body) == ("POST", b'{"n":7}')
    assert request.headers["ce-id"] == "7"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["kn-namespace"] == "shop"
    assert "expect" not in request.headers


def test_an_ordered_lane_keeps_order_through_retries(sink: MakeSink) -> None:
    """Kept promise: n+1 does not begin before n is finished, however often n fails."""
    subscriber = sink()
    failed: set[int] = set()

    def fail_every_third_once(request: Request) -> Answer:
        number = int(request.headers["ce-id"])
        if number % 3 == 0 and number not in failed:
            failed.add(number)
            return Answer(503)
        return Answer(200)

    subscriber.answer("/a", with_=fail_every_third_once)
    policy = Delivery(retry=2, backoff_delay_seconds=0.01)
    with running(lane(subscriber.url + "/a", order="ordered", delivery=policy)) as deliveries:
        for offset in range(30):
            deliveries.offer(row(offset))
    expected = [each for offset in range(30) for each in ([offset, offset] if offset % 3 == 0 else [offset])]
    assert ids(subscriber.requests) == expected


def test_an_unordered_lane_goes_on_while_one_event_waits(sink: MakeSink) -> None:
    """Kept promise: a failing event does not hold up the others, and the position does not pass it."""
    subscriber = sink()
    release = threading.Event()
    subscriber.answer(
        "/a", with_=lambda r: Answer(503 if r.headers["ce-id"] == "0" and not release.is_set() else 200)
    )
    target = lane(
        subscriber.url + "/a", delivery=Delivery(retry=1000, backoff_policy="linear", backoff_delay_seconds=0.02)
    )
    with running(target) as deliveries:
        for offset in range(20):
            deliveries.offer(row(offset))
        subscriber.wait_for(25, timeout_seconds=10)
        assert target.progress.position == 0
        assert target.progress.beyond() == ((1, 19),)
        release.set()
    assert target.progress.position == 20


def test_retries_that_are_used_up_end_in_the_dead_letter_sink(sink: MakeSink) -> None:
    """Kept promise: after the full cycle the event goes to the sink with Knative's error attributes."""
    subscriber, dead = sink(), sink()
    subscriber.answer("/a", status=500, body=b"no room")
    policy = Delivery(retry=2, backoff_delay_seconds=0.01, dead_letter_url=dead.url + "/d")
    target = lane(subscriber.url + "/a", delivery=policy)
    with running(target) as deliveries:
        deliveries.offer(row(3))
    assert len(subscriber.requests) == 3
    (letter,) = dead.requests
    assert letter.headers["ce-knativeerrordest"] == subscriber.url + "/a"
    assert letter.headers["ce-knativeerrorcode"] == "500"
    assert base64.b64decode(letter.headers["ce-knativeerrordata"]) == b"no room"
    assert letter.body == b'{"n":3}'
    assert (target.counts.dead_lettered, target.counts.given_up) == (1, 0)


@pytest.mark.parametrize("status", [400, 302, 410])
def test_a_refusal_is_not_retried(sink: MakeSink, status: int) -> None:
    """Kept promise: what will never be taken is given up at once, counted, redirects never followed."""
    subscriber = sink()
    subscriber.answer("/a", status=status, headers={"location": subscriber.url + "/elsewhere"})
    target = lane(subscriber.url + "/a", delivery=Delivery(retry=5, backoff_delay_seconds=0.01))
    with running(target) as deliveries:
        deliveries.offer(row(0))
        deliveries.offer(row(1))
    assert [each.path for each in subscriber.requests] == ["/a", "/a"]
    assert target.counts.given_up == 2
    assert target.progress.position == 2


def test_nobody_listening_counts_as_a_failed_attempt() -> None:
    """Kept promise: a refused connection is retried, then given up; the lane goes on."""
    target = lane(f"http://127.0.0.1:{free_port()}/", delivery=Delivery(retry=1, backoff_delay_seconds=0.01))
    with running(target) as deliveries:
        deliveries.offer(row(0))
    assert (target.counts.failed_attempts, target.counts.given_up) == (2, 1)


def test_a_hanging_subscriber_is_cut_off_by_the_timeout(sink: MakeSink) -> None:
    """Kept promise: the timeout ends an attempt, and the event is tried again."""
    subscriber = sink()
    answers = iter([Answer(200, delay_seconds=30.0), Answer(200)])
    subscriber.answer("/a", with_=lambda _: next(answers))
    target = lane(subscriber.url + "/a", delivery=Delivery(retry=1, backoff_delay_seconds=0.01, timeout_seconds=0.2))
    with running(target) as deliveries:
        deliveries.offer(row(0))
    assert target.counts.delivered == 1


def test_link_local_addresses_are_never_connected_to() -> None:
    """Kept promise: a subscriber address cannot reach a cloud's metadata service."""
    target = lane("http://169.254.169.254/latest", delivery=Delivery(timeout_seconds=2.0))
    with running(target) as deliveries:
        deliveries.offer(row(0))
    assert target.counts.given_up == 1


def test_an_endless_answer_is_cut_off(sink: MakeSink) -> None:
    """Kept promise: a huge answer costs bounded memory, and its status still counts."""
    subscriber = sink()
    subscriber.answer("/a", body=b"x" * (8 * 1024 * 1024))
    target = lane(subscriber.url + "/a")
    with running(target) as deliveries:
        deliveries.offer(row(0))
    assert target.counts.delivered == 1


def test_the_reader_waits_when_too_much_is_unfinished(sink: MakeSink) -> None:
    """Kept promise: memory is bounded; rows beyond the limit stay with Spark."""
    subscriber = sink()
    release = threading.Event()
    subscriber.answer("/a", with_=lambda _: Answer(200 if release.is_set() else 503))
    target = lane(
        subscriber.url + "/a",
        delivery=Delivery(retry=10_000, backoff_policy="linear", backoff_delay_seconds=0.01),
    )
    with running(target, limits=Limits(window=4, unfinished_rows=10)) as deliveries:
        offered: list[int] = []

        def offer_all() -> None:
            for offset in range(40):
                deliveries.offer(row(offset))
                offered.append(offset)

        reader = threading.Thread(target=offer_all, daemon=True)
        reader.start()
        subscriber.wait_for(100)
        assert len(offered) <= 11
        release.set()
        reader.join(20.0)
        assert len(offered) == 40
    assert target.progress.position == 40


def test_holding_finishes_what_is_in_flight_and_begins_nothing(sink: MakeSink) -> None:
    """Kept promise: a worker that lost its partition sends nothing new, and what it sent is recorded."""
    subscriber = sink()
    subscriber.answer("/a", delay_seconds=0.3)
    target = lane(subscriber.url + "/a", window=2)
    deliveries = Deliveries([target], Limits(), on_tick=lambda: None)
    thread = threading.Thread(target=deliveries.run, daemon=True)
    thread.start()
    for offset in range(10):
        deliveries.offer(row(offset))
    subscriber.wait_for(2)
    deliveries.end(5.0, hold=True)
    thread.join(10.0)
    assert not thread.is_alive()
    assert len(subscriber.requests) == 2
    assert target.progress.position == 2
