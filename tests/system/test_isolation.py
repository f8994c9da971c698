"""One slow subscriber is its own problem: the others do not wait for it, and it loses nothing."""

import os
import threading
import time
from collections.abc import Callable

import pytest

from tests.conftest import System
from tests.signals import kill
from tests.sink import Answer, Request, Sink
from tests.system.processes import worker_niceness
from tests.system.resources import apply, broker, remove, trigger
from tests.system.test_delivery import send
from tests.waiting import until

MakeSink = Callable[[], Sink]
pytestmark = pytest.mark.alone

EVENTS = 6_000
ORDERED = {"kafka.eventing.knative.dev/delivery.order": "ordered"}


def burst(system: System, broker_name: str, first: int, count: int) -> None:
    shown = system.run(
        "send", f"broker/{broker_name}", "--type", "burst", "--source", "/s", "--subject", "one-partition",
        "--ext", f"first={first}", "--count", str(count),
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr


def offsets(requests: list[Request]) -> list[tuple[int, int]]:
    return [(int(r.headers["ce-knativekafkapartition"]), int(r.headers["ce-knativekafkaoffset"])) for r in requests]


@pytest.mark.scenario(15, 16)
def test_a_subscriber_that_was_down_drains_in_order_while_the_others_never_noticed(
    penstock_up: System, sink: MakeSink
) -> None:
    """Kept promise: who hangs is set apart, catches up in order when it is back, and shares a query again."""
    subscriber = sink()
    is_back = threading.Event()
    subscriber.answer("/hangs", with_=lambda _: Answer(200, delay_seconds=0.0 if is_back.is_set() else 4.0))
    resources = [
        broker("isolated"),
        trigger("hangs", "isolated", subscriber.url + "/hangs", annotations=ORDERED),
        trigger("good", "isolated", subscriber.url + "/good"),
        trigger("ordered", "isolated", subscriber.url + "/ordered", annotations=ORDERED),
    ]
    apply(penstock_up, *resources)
    burst(penstock_up, "isolated", 0, EVENTS)
    subscriber.wait_for(EVENTS, path="/good", timeout_seconds=90)
    subscriber.wait_for(EVENTS, path="/ordered", timeout_seconds=90)
    assert len(subscriber.at("/hangs")) < EVENTS / 10
    log = penstock_up.data_dir / "logs" / "dispatcher.log"
    until(lambda: "trigger default/hangs gets a query of its own" in log.read_text(), "it is set apart", 60)
    waits: list[float] = []
    for n in range(50):
        sent = time.time()
        send(penstock_up, "isolated", f"now-{n}")
        subscriber.wait_for(EVENTS + n + 1, path="/good", timeout_seconds=30)
        waits.append(subscriber.at("/good")[-1].received - sent)
    assert sorted(waits)[-3] < 2.0, waits  # two may be late for other reasons
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    dispatcher = penstock_up.pid("dispatcher")
    until(lambda: worker_niceness(dispatcher) == {mine, mine + 10}, "who catches up has the processor last")

    is_back.set()
    until(lambda: len(set(offsets(subscriber.at("/hangs")))) == EVENTS + 50, "it has caught up", 120)
    until(lambda: "trigger default/hangs has caught up" in log.read_text(), "it shares the query again", 60)
    burst(penstock_up, "isolated", EVENTS, 100)
    until(lambda: len(set(offsets(subscriber.at("/hangs")))) == EVENTS + 150, "it goes on", 60)
    for path in ("/good", "/ordered"):
        assert len(subscriber.wait_for(EVENTS + 150, path=path, timeout_seconds=30)) == EVENTS + 150
    for path in ("/hangs", "/ordered"):
        came = offsets(subscriber.at(path))
        by_partition = {partition: [o for p, o in came if p == partition] for partition, _ in came}
        assert all(each == sorted(each) for each in by_partition.values()), path
    remove(penstock_up, *resources)


def test_a_trigger_from_the_beginning_does_not_hold_up_the_others(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: whoever wants all of the past reads it apart, and the present goes on meanwhile."""
    subscriber = sink()
    first = [broker("past"), trigger("present", "past", subscriber.url + "/present")]
    apply(penstock_up, *first)
    for at in (0, EVENTS, 2 * EVENTS, 3 * EVENTS):
        burst(penstock_up, "past", at, EVENTS)
    subscriber.wait_for(4 * EVENTS, path="/present", timeout_seconds=120)
    from_start = trigger(
        "from-the-start", "past", subscriber.url + "/all", annotations={"penstock.dev/start": "earliest"}
    )
    apply(penstock_up, from_start)
    until(lambda: len(set(offsets(subscriber.at("/all")))) == 4 * EVENTS, "all of the past has come", 120)
    log = penstock_up.data_dir / "logs" / "dispatcher.log"
    assert "trigger default/from-the-start gets a query of its own" in log.read_text()
    until(lambda: "trigger default/from-the-start has caught up" in log.read_text(), "it shares the query", 60)
    send(penstock_up, "past", "last")
    until(lambda: len(subscriber.at("/all")) >= 4 * EVENTS + 1, "and goes on", 60)
    for path in ("/present", "/all"):
        assert len(subscriber.wait_for(4 * EVENTS + 1, path=path, timeout_seconds=30)) == 4 * EVENTS + 1
    remove(penstock_up, *first, from_start)


@pytest.mark.scenario(16)
def test_a_kill_while_a_trigger_is_apart_loses_nothing(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: kill -9 of the dispatcher with a subscriber set apart: both get everything, in order."""
    subscriber = sink()
    is_back = threading.Event()
    subscriber.answer("/hangs", with_=lambda _: Answer(200, delay_seconds=0.0 if is_back.is_set() else 4.0))
    resources = [
        broker("killed-apart"),
        trigger("hangs", "killed-apart", subscriber.url + "/hangs", annotations=ORDERED),
        trigger("good", "killed-apart", subscriber.url + "/good"),
    ]
    log, own = penstock_up.data_dir / "logs" / "dispatcher.log", "trigger default/hangs gets a query of its own"
    before = log.read_text().count(own)  # of other tests
    apply(penstock_up, *resources)
    burst(penstock_up, "killed-apart", 0, EVENTS)
    subscriber.wait_for(EVENTS, path="/good", timeout_seconds=90)
    until(lambda: log.read_text().count(own) > before, "it is isolated", 60)
    kill(until(lambda: penstock_up.pid("dispatcher"), "the dispatcher runs"))
    burst(penstock_up, "killed-apart", EVENTS, 1000)
    until(lambda: len(set(offsets(subscriber.at("/good")))) == EVENTS + 1000, "the other has everything", 120)
    is_back.set()
    until(lambda: len(set(offsets(subscriber.at("/hangs")))) == EVENTS + 1000, "so has this one", 120)
    firsts: dict[int, list[int]] = {}
    for partition, offset in offsets(subscriber.at("/hangs")):
        seen = firsts.setdefault(partition, [])
        if offset not in seen[-200:]:
            seen.append(offset)
    assert all(each == sorted(each) for each in firsts.values())
    twice = len(subscriber.at("/hangs")) - EVENTS - 1000
    assert twice < 10
    remove(penstock_up, *resources)
