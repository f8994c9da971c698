"""Promises of a dispatcher whose contract changes again and again without a pause. Kafka and Spark are real."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from penstock.contract.model import CONTRACT_TOPIC, Agreement, Subscription, encode
from penstock.kafka.table import put
from tests.pipeline.test_dispatcher import MakeSink, World, ids
from tests.pipeline.test_dispatcher import world as world
from tests.waiting import until

PACE_SECONDS = 0.15  # below the pause after which the dispatcher applies changes


@contextmanager
def changing(world: World, guests: list[Subscription]) -> Iterator[Callable[[], int]]:
    """Changes the filters of these subscriptions in turn, and reports how many changes there were."""
    producer, stopping, made, faults = world.kafka.producer(), threading.Event(), list[int](), list[Exception]()

    def change() -> None:
        for guest in itertools.cycle(guests):
            if stopping.wait(PACE_SECONDS):
                return
            changed = msgspec.structs.replace(guest, filters=({"exact": {"type": f"restless.{len(made)}"}},))
            agreed = encode(Agreement(guest.uid, 1, (), (changed,)))
            put(producer, CONTRACT_TOPIC, f"Trigger/default/{guest.uid}", agreed)
            made.append(1)

    def change_or_report() -> None:
        try:
            change()
        except Exception as fault:
            faults.append(fault)

    def count() -> int:
        if faults:
            raise faults[0]
        return len(made)

    thread = threading.Thread(target=change_or_report, daemon=True)
    thread.start()
    try:
        yield count
    finally:
        stopping.set()
        thread.join(60)
    assert not thread.is_alive()
    assert faults == []


@pytest.mark.timeout(600)
def test_changes_without_a_pause_do_not_keep_a_new_subscription_from_starting(world: World, sink: MakeSink) -> None:
    """Kept promise: while others change all the time, a new subscription is reported as served, and from then on its
    events arrive before the changes end."""
    subscriber = sink()
    first = world.subscribe(subscriber.url + "/first", partitions=1, gear="live")
    guests = [world.subscribe(subscriber.url + "/guests", 1, first.topic, gear="live") for _ in range(2)]

    def serves(uid: str) -> bool:
        report = world.report(first.topic)
        return report is not None and report.state == "running" and uid in report.subscriptions

    until(lambda: all(serves(each.uid) for each in (first, *guests)), "all are served", 150)
    with changing(world, guests) as changes:
        until(lambda: changes() >= 20, "the changes go on")
        for n in range(3):
            new = world.subscribe(f"{subscriber.url}/new-{n}", 1, first.topic, gear="live")
            until(lambda uid=new.uid: serves(uid), "the new one is served", 150)  # type: ignore[misc]
            world.send(first.topic, [f"e{n}"], partition=0)
            until(lambda n=n: f"e{n}" in ids(subscriber.at(f"/new-{n}")), "its event arrives", 150)  # type: ignore[misc]
            before = changes()
            until(lambda before=before: changes() > before, "the changes still go on")  # type: ignore[misc]
    subscriber.wait_for(3, "/first")
    until(lambda: sorted(set(ids(subscriber.at("/first")))) == ["e0", "e1", "e2"], "the first one has all")
