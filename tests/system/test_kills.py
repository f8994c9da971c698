"""kill -9 in the middle of 1,000 events a second: nothing that was acknowledged is missing anywhere.

A machine that does not bring 1,000 a second to two subscribers is asked for half as many.
"""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.conftest import System
from tests.signals import kill
from tests.sink import Sink
from tests.system.resources import apply, broker, remove, trigger
from tests.system.sender import MakeSender, Sender
from tests.waiting import until

pytestmark = pytest.mark.alone

RATES = (1000, 500, 250)
BEFORE_SECONDS, AFTER_SECONDS = 4, 3  # of events before the kill, and acknowledged after it
PATHS = ("/0", "/1")


def full_flow(make_sender: MakeSender, ingress: str, subscriber: Sink, rate: int) -> Sender | None:
    """A sender at this rate, once both subscribers are at its heels; None when they stay behind."""
    came_before = {path: subscriber.count(path) for path in PATHS}
    sender: Sender = make_sender(ingress, rate, name=f"at-{rate}")

    def behind() -> int:
        return len(sender.acknowledged) - min(subscriber.count(path) - came_before[path] for path in PATHS)

    until(lambda: len(sender.acknowledged) >= BEFORE_SECONDS * rate, "events are acknowledged", 60)
    try:
        until(lambda: behind() < rate / 4, "both triggers are in full flow", 30)
    except AssertionError:
        sender.stop()
        until(lambda: behind() <= 0, f"what was sent at {rate} a second has come", 120)
        return None
    return sender


@pytest.mark.parametrize("part", ["dispatcher", "receiver", "kafka"])
@pytest.mark.scenario(1, 2, 8)
def test_a_killed_part_loses_nothing(
    penstock_up: System,
    sink: Callable[[], Sink],
    make_sender: MakeSender,
    capsys: pytest.CaptureFixture[str],
    part: str,
) -> None:
    """Kept promise: every acknowledged event reaches every subscriber; few come twice."""
    subscriber = sink()
    name = f"kill-{part}"
    resources = [broker(name), *(trigger(f"{name}-{n}", name, f"{subscriber.url}/{n}") for n in range(2))]
    apply(penstock_up, *resources)
    ingress = f"{penstock_up.ingress_url}/default/{name}"
    first = make_sender(ingress, 50, name="first")  # until the new query flows: no backlog for what follows
    for path in PATHS:
        subscriber.wait_for(200, path, 60)
    first.stop()
    until(lambda: all(subscriber.count(path) >= len(first.acknowledged) for path in PATHS), "all of it has come")
    rate, sender = next(
        (rate, sender) for rate in RATES if (sender := full_flow(make_sender, ingress, subscriber, rate))
    )

    killed = penstock_up.pid(part)
    kill(killed)
    until(lambda: penstock_up.pid(part) not in (0, killed), f"{part} is started again")
    at_kill = len(sender.acknowledged)
    until(lambda: len(sender.acknowledged) >= at_kill + AFTER_SECONDS * rate, "events are acknowledged again", 90)
    sender.stop()

    counts = {path: Counter[str]() for path in PATHS}

    def everything_came() -> bool:
        for path, count in counts.items():
            count.clear()
            count.update(request.headers["ce-id"] for request in subscriber.at(path))
        return all(sender.acknowledged <= count.keys() for count in counts.values())

    until(everything_came, f"all {len(sender.acknowledged)} acknowledged events at both subscribers", 120)
    twice = {path: sum(n - 1 for n in count.values()) for path, count in counts.items()}
    with capsys.disabled():
        print(  # noqa: T201 - the number belongs into the test's output
            f"\nkill -9 {part} at {rate} a second: {sender.sent} sent, {len(sender.acknowledged)} acknowledged, "
            f"0 missing, {sum(twice.values())} came twice {twice}"
        )
    assert sum(twice.values()) < max(300, rate)  # of both paths together: half a second of the flow, if it is full
    remove(penstock_up, *resources)
