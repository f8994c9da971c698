"""How often the controller looks at everything that it has to ask for."""

from typing import Any

import pytest

from penstock.control import observe
from penstock.control.observe import Observer, Sight
from penstock.control.series import STEP_SECONDS
from penstock.control.settings import ControllerSettings


class Clock:
    """In the place of the module ``time``; waiting moves it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.7

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


def looks(monkeypatch: pytest.MonkeyPatch, seconds: float, asks: Any = lambda _observer: None) -> list[float]:
    """When it looked; each look takes a while, and afterwards somebody may ask."""
    clock, found = Clock(), []
    monkeypatch.setattr(observe, "time", clock)
    observer = Observer(ControllerSettings(), lambda: None, lambda: "")
    end = clock.now + seconds

    def look() -> Sight:
        found.append(clock.now)
        clock.now += 0.03
        asks(observer)
        return Sight(clock.now, ())

    def wait(pause: float) -> None:
        clock.now += pause
        if clock.now > end:
            observer._stopping.set()

    monkeypatch.setattr(observer, "_look", look)
    monkeypatch.setattr(observer._wanted, "wait", wait)
    observer._run()
    return found


def test_while_nobody_asks_it_looks_once_in_each_step_of_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: the history has no holes, and Kafka is asked for nothing more."""
    steps = [int(at) // STEP_SECONDS for at in looks(monkeypatch, 600)]
    assert steps == list(range(steps[0], steps[0] + len(steps)))


def test_while_somebody_asks_it_looks_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looks(monkeypatch, 60, lambda observer: observer.sight)
    assert 59 <= len(found) <= 62
