"""kill -9 in the middle of 1,000 events a second: nothing that was acknowledged is missing anywhere."""

import os
import signal
from collections import Counter
from collections.abc import Callable

import pytest

from tests.conftest import System
from tests.sink import Sink
from tests.system.resources import apply, broker, remove, trigger
from tests.system.sender import Sender
from tests.waiting import until

RATE = 1000
BEFORE, AFTER = 4 * RATE, 3 * RATE  # events before the kill, and acknowledged after it


@pytest.mark.parametrize("part", ["dispatcher", "receiver", "kafka"])
@pytest.mark.scenario(1, 2, 8)
def test_a_killed_part_loses_nothing(
    penstock_up: System, sink: Callable[[], Sink], capsys: pytest.CaptureFixture[str], part: str
) -> None:
    """Kept promise: every acknowledged event reaches every subscriber; few come twice."""
    subscriber = sink()
    name = f"kill-{part}"
    resources = [broker(name), *(trigger(f"{name}-{n}", name, f"{subscriber.url}/{n}") for n in range(2))]
    apply(penstock_up, *resources)
    ingress = f"{penstock_up.ingress_url}/default/{name}"
    first = Sender(ingress, 50, name="first").start()  # until the new query flows: no backlog for what follows
    for path in ("/0", "/1"):
        subscriber.wait_for(200, path, 60)
    first.stop()
    sender = Sender(ingress, RATE).start()
    until(lambda: len(sender.acknowledged) >= BEFORE, f"{BEFORE} events acknowledged")
    until(
        lambda: all(subscriber.count(path) > len(sender.acknowledged) - RATE / 4 for path in ("/0", "/1")),
        "both triggers are in full flow", 90,
    )  # fmt: skip

    killed = penstock_up.pid(part)
    os.kill(killed, signal.SIGKILL)
    until(lambda: penstock_up.pid(part) not in (0, killed), f"{part} is started again")
    at_kill = len(sender.acknowledged)
    until(lambda: len(sender.acknowledged) >= at_kill + AFTER, "events are acknowledged again", 90)
    sender.stop()

    counts = {path: Counter[str]() for path in ("/0", "/1")}

    def everything_came() -> bool:
        for path, count in counts.items():
            count.clear()
            count.update(request.headers["ce-id"] for request in subscriber.at(path))
        return all(sender.acknowledged <= count.keys() for count in counts.values())

    until(everything_came, f"all {len(sender.acknowledged)} acknowledged events at both subscribers", 120)
    twice = {path: sum(n - 1 for n in count.values()) for path, count in counts.items()}
    with capsys.disabled():
        print(  # noqa: T201 - the number belongs into the test's output
            f"\nkill -9 {part}: {sender.sent} sent, {len(sender.acknowledged)} acknowledged, 0 missing, "
            f"{sum(twice.values())} came twice {twice}"
        )
    assert sum(twice.values()) < 300
    remove(penstock_up, *resources)
