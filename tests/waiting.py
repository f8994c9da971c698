"""Waiting for something to become true, with a deadline: the only place in the tests that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_SECONDS = 60.0


def until(look: Callable[[], T | None], what: str = "what was expected", seconds: float = DEADLINE_SECONDS) -> T:
    """What ``look`` gives once it gives something; fails when it does not within the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
