"""Promises of a hand-over between two queries: nobody waits for a slow subscriber. Kafka and Spark are real."""

import itertools
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.event.kafka import encode_record
from penstock.event.model import Event
from tests.pipeline.test_dispatcher import World, ids
from tests.pipeline.test_dispatcher import world as world
from tests.sink import Sink
from tests.waiting import until

logger = logging.getLogger(__name__)
RATE = 100
SLOW_EVERY = 25  # events; the slow subscriber gets four a second
LONGEST_SILENCE_SECONDS = float(os.environ.get("LONGEST_SILENCE_SECONDS", "1.0"))  # far below the three of a fault


@contextmanager
def steady_stream(world: World, topic: str) -> Iterator[list[str]]:
    """The ids of what is sent, in one partition. Every now and then an event has the type "slow"."""
    sent: list[str] = []
    stopping = threading.Event()

    def send() -> None:
        producer, began = world.kafka.producer(), time.monotonic()
        while not stopping.wait(max(0.0, began + len(sent) / RATE - time.monotonic())):
            number = len(sent)
            kind = "slow" if number % SLOW_EVERY == 0 else "t"
            event = Event({"specversion": "1.0", "id": str(number), "source": "/s", "type": kind}, b"{}")
            record = encode_record(event)
            producer.produce(topic, record.value, headers=record.headers, partition=0)
            producer.poll(0)
            sent.append(str(number))
        assert producer.flush(30) == 0

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        stopping.set()
        thread.join(40)


def longest_silence(subscriber: Sink, path: str, since: float) -> float:
    times = [since, *(each.received for each in subscriber.at(path) if each.received >= since)]
    return max(after - before for before, after in itertools.pairwise(times))


@pytest.mark.alone
@pytest.mark.parametrize("seconds", [0, 3, 20])
@pytest.mark.parametrize("order", ["unordered", "ordered"])
def test_a_change_silences_nobody_though_a_subscriber_is_slow(
    world: World, sink: "type[Sink]", seconds: int, order: str
) -> None:
    """Kept promise: two changes of other subscriptions, while requests are in flight that take long, hold up nobody;
    what is in flight is finished by who began it, and nothing is delivered twice."""
    quick, slow = sink(), sink()
    path = f"/{order}-{seconds}"
    slow.answer(path, delay_seconds=float(seconds))
    first = world.subscribe(quick.url + path, partitions=1, gear="live")
    only_slow = ({"exact": {"type": "slow"}},)
    held = world.subscribe(slow.url + path, 1, first.topic, filters=only_slow, order=order, gear="live")

    def serves(uid: str) -> bool:
        report = world.report(first.topic)
        return report is not None and report.state == "running" and uid in report.subscriptions

    until(lambda: serves(held.uid), "both are served")
    with steady_stream(world, first.topic) as sent:
        slow.wait_for(1, path)
        quick.wait_for(2 * RATE, path)
        since = time.time()
        for number in range(2):
            changed = world.subscribe(quick.url + f"/other{number}", 1, first.topic, gear="live")
            until(lambda uid=changed.uid: serves(uid), "it is reported as served")  # type: ignore[misc]
        reached = quick.count(path)
        quick.wait_for(reached + 2 * RATE, path)
        silence = longest_silence(quick, path, since)
        logger.warning("%s, %d s: nothing came for %.3f s", order, seconds, silence)
    until(lambda: set(sent) <= set(ids(quick.at(path))), "the quick one has all")
    assert silence <= LONGEST_SILENCE_SECONDS, f"nothing came for {silence:.2f} s"
    assert set(Counter(ids(quick.at(path))).values()) == {1}
    begun = [int(each) for each in ids(slow.at(path))]
    slow.answer(path)
    wanted = [int(each) for each in sent if int(each) % SLOW_EVERY == 0]
    until(lambda: len(slow.at(path)) >= len(wanted), "the slow one has all")
    came = [int(each) for each in ids(slow.at(path))]
    assert sorted(came) == wanted, f"begun before the end: {begun}"
    if order == "ordered":
        assert came == wanted
