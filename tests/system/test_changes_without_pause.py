"""Triggers that change again and again without a pause: a new one starts beside them, and Ready is the truth."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.cli.client import Client
from penstock.control.kinds import TRIGGER
from tests.conftest import System
from tests.sink import Sink
from tests.system.resources import apply, broker, trigger
from tests.system.test_delivery import ids, send
from tests.waiting import until

PACE_SECONDS = 0.15  # below the pause after which the dispatcher applies changes


@contextmanager
def changing(system: System, *guests: dict[str, Any]) -> Iterator[Callable[[], int]]:
    """Changes these triggers in turn, and reports how many changes there were."""
    client, stopping, made, faults = Client(system.admin_url), threading.Event(), list[int](), list[Exception]()

    def change() -> None:
        while not stopping.wait(PACE_SECONDS):
            guest = guests[len(made) % len(guests)]
            spec = {**guest["spec"], "filter": {"attributes": {"type": f"restless.{len(made)}"}}}
            metadata = {**guest["metadata"], "namespace": "default"}
            client.apply(TRIGGER, {**guest, "metadata": metadata, "spec": spec})
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
def test_a_new_trigger_that_is_ready_is_served_while_others_change(
    penstock_up: System, sink: Callable[[], Sink]
) -> None:
    """Kept promise: changes without a pause do not keep a new trigger from starting, and an event that is sent when
    ``wait`` has returned arrives while they still go on."""
    subscriber = sink()
    guests = [trigger(f"unquiet-{n}", "unquiet", subscriber.url + "/guests") for n in range(2)]
    apply(penstock_up, broker("unquiet"), *guests)
    with changing(penstock_up, *guests) as changes:
        until(lambda: changes() >= 20, "the changes go on")
        for n in range(3):
            apply(penstock_up, trigger(f"unquiet-new-{n}", "unquiet", f"{subscriber.url}/new-{n}"), seconds=150)
            send(penstock_up, "unquiet", f"e{n}")
            subscriber.wait_for(1, f"/new-{n}", 150)
            before = changes()
            until(lambda before=before: changes() > before, "the changes still go on")  # type: ignore[misc]
    until(lambda: len(set(ids(subscriber.at("/new-0")))) == 3, "the first one has all")
    assert set(ids(subscriber.at("/new-0"))) == {"e0", "e1", "e2"}
    assert set(ids(subscriber.at("/new-2"))) == {"e2"}
