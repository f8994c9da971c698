"""Triggers that come, change and go, and orderly ends, in the middle of traffic: nothing lost, nothing twice."""

import itertools
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock.cli.client import Client
from penstock.control.kinds import TRIGGER
from tests.conftest import System
from tests.signals import kill
from tests.sink import Request, Sink
from tests.system.processes import worker_pids
from tests.system.resources import apply, broker, get, remove, trigger
from tests.system.sender import MakeSender
from tests.waiting import until

pytestmark = pytest.mark.alone

RATE = 300
CHANGES = 200
CHANGES_SECONDS = 40.0
TRIES = 3


def received(subscriber: Sink, path: str) -> Counter[str]:
    return Counter(request.headers["ce-id"] for request in subscriber.at(path))


def wait_for_all(subscriber: Sink, path: str, identities: set[str]) -> None:
    until(lambda: identities <= received(subscriber, path).keys(), f"all {len(identities)} events at {path}", 90)


@pytest.mark.scenario(31)
def test_triggers_come_change_and_go_under_load(
    penstock_up: System, sink: Callable[[], Sink], make_sender: MakeSender
) -> None:
    """Kept promise: changing one trigger neither loses nor repeats an event of another; Ready means from now on."""
    subscriber = sink()
    shop, steady = broker("changing"), trigger("steady", "changing", subscriber.url + "/steady")
    apply(penstock_up, shop, steady)
    sender = make_sender(f"{penstock_up.ingress_url}/default/changing", RATE)
    subscriber.wait_for(RATE, "/steady", 60)

    guest = trigger("guest", "changing", subscriber.url + "/guest-1")
    apply(penstock_up, guest)
    before = set(sender.acknowledged)
    subscriber.wait_for(RATE, "/guest-1", 60)

    guest["spec"]["subscriber"]["uri"] = subscriber.url + "/guest-2"
    apply(penstock_up, guest)
    subscriber.wait_for(RATE, "/guest-2", 60)
    owed = sender.acknowledged - before

    def has_all() -> bool:
        return owed <= received(subscriber, "/guest-1").keys() | received(subscriber, "/guest-2").keys()

    until(has_all, f"all {len(owed)} events since the guest was ready, at one address or the other")
    remove(penstock_up, guest)
    after = get(penstock_up, "trigger", "steady")
    assert after["metadata"]["name"] == "steady"
    goal = len(sender.acknowledged) + RATE
    until(lambda: len(sender.acknowledged) >= goal, "traffic goes on")
    sender.stop()

    wait_for_all(subscriber, "/steady", sender.acknowledged)
    assert set(received(subscriber, "/steady").values()) == {1}, "nothing comes twice without a kill"
    guests = received(subscriber, "/guest-1") + received(subscriber, "/guest-2")
    missed = [each for each in guests if guests[each] > 1]
    assert not missed, f"{len(missed)} events came to both addresses"
    remove(penstock_up, shop, steady)


def change(client: Client, guests: list[dict[str, Any]]) -> None:
    """Two hundred changes of these triggers, at an even pace."""
    began = time.monotonic()
    for number, guest in zip(range(CHANGES), itertools.cycle(guests), strict=False):
        guest["metadata"]["namespace"] = "default"
        guest["spec"]["filter"] = {"attributes": {"type": f"test.{number}"}}
        client.apply(TRIGGER, guest)
        time.sleep(max(0.0, began + number * CHANGES_SECONDS / CHANGES - time.monotonic()))  # the pace of changes


def longest_silence(came: list[Request]) -> float:
    return max(after.received - before.received for before, after in itertools.pairwise(came))


@pytest.mark.timeout(400)
@pytest.mark.scenario(31)
def test_two_hundred_changes_silence_nobody(
    penstock_up: System, sink: Callable[[], Sink], make_sender: MakeSender
) -> None:
    """Kept promise: who stays as it is waits at most a second, in order, while its neighbours change all the time."""
    subscriber = sink()
    order = {"kafka.eventing.knative.dev/delivery.order": "ordered"}
    shop, steady = broker("restless"), trigger("calm", "restless", subscriber.url + "/calm", order)
    guests = [trigger(f"restless-{n}", "restless", subscriber.url + f"/{n}") for n in range(8)]
    apply(penstock_up, shop, steady, *guests)
    sender = make_sender(f"{penstock_up.ingress_url}/default/restless", RATE)
    subscriber.wait_for(RATE, "/calm", 60)

    silences = list[float]()
    while min(silences, default=2.0) > 1.0 and len(silences) < TRIES:  # a pause of the machine itself fails a try
        reached = subscriber.count("/calm")
        change(Client(penstock_up.admin_url), guests)
        silences.append(longest_silence(subscriber.at("/calm")[reached:]))
    for guest in guests:
        guest["spec"]["filter"] = {"attributes": {"type": "test.sent"}}
    apply(penstock_up, *guests)
    since = len(sender.acknowledged)
    until(lambda: len(sender.acknowledged) > since + RATE, "traffic goes on")
    sender.stop()

    wait_for_all(subscriber, "/calm", sender.acknowledged)
    came = subscriber.at("/calm")
    assert min(silences) <= 1.0, f"nothing came for so many seconds, by try: {silences}"
    assert set(received(subscriber, "/calm").values()) == {1}, "nothing comes twice without a kill"
    for partition in {each.headers["ce-knativekafkapartition"] for each in came}:
        here = [each.headers for each in came if each.headers["ce-knativekafkapartition"] == partition]
        offsets = [int(headers["ce-knativekafkaoffset"]) for headers in here]
        assert offsets == sorted(offsets), f"partition {partition} is out of order"
    assert all(subscriber.count(f"/{n}") for n in range(8)), "the last change of each is in force"
    remove(penstock_up, shop, steady, *guests)


@pytest.mark.scenario(34)
def test_an_orderly_end_of_the_dispatcher_repeats_nothing(
    penstock_up: System, sink: Callable[[], Sink], make_sender: MakeSender
) -> None:
    """Kept promise: SIGTERM lets workers finish what is in flight, so nothing comes twice."""
    subscriber = sink()
    resources = [broker("orderly"), trigger("orderly", "orderly", subscriber.url + "/")]
    apply(penstock_up, *resources)
    sender = make_sender(f"{penstock_up.ingress_url}/default/orderly", RATE)
    subscriber.wait_for(2 * RATE, timeout_seconds=60)
    old = penstock_up.pid("dispatcher")
    kill(old, signal.SIGTERM)
    until(lambda: penstock_up.pid("dispatcher") not in (0, old), "the dispatcher is started again")
    seen = len(subscriber.requests)
    subscriber.wait_for(seen + RATE, timeout_seconds=90)
    sender.stop()
    wait_for_all(subscriber, "/", sender.acknowledged)
    assert set(received(subscriber, "/").values()) == {1}
    remove(penstock_up, *resources)


@pytest.mark.scenario(3)
def test_a_killed_worker_is_replaced(penstock_up: System, sink: Callable[[], Sink], make_sender: MakeSender) -> None:
    """Kept promise: kill -9 of one Python worker loses nothing; the query starts again from the ledger."""
    subscriber = sink()
    resources = [broker("worker"), trigger("worker", "worker", subscriber.url + "/")]
    apply(penstock_up, *resources)
    sender = make_sender(f"{penstock_up.ingress_url}/default/worker", RATE)
    subscriber.wait_for(2 * RATE, timeout_seconds=60)
    workers = worker_pids(penstock_up.pid("dispatcher"))
    assert workers
    for each in workers:
        kill(each)
    seen = len(subscriber.requests)
    subscriber.wait_for(seen + 2 * RATE, timeout_seconds=90)
    sender.stop()
    wait_for_all(subscriber, "/", sender.acknowledged)
    remove(penstock_up, *resources)
