"""Waiting for a condition, with a deadline."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], what: str, timeout_seconds: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_seconds:g} s: {what}"
        time.sleep(0.1)
