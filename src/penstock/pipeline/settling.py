"""Decides when several changes are applied together: changes of the contract, and partitions of a subscription that
are isolated one after another.

A query is replaced once for changes that belong together, so the dispatcher waits until no further change has come
for a moment. Changes that never stop would keep it waiting for ever, so the first one waits for a limited time.

Two threads may use it: one notes changes, the other takes them.
"""

import time

LONGEST = 5  # times the quiet period


class Settling:
    def __init__(self, quiet_seconds: float) -> None:
        self._quiet_seconds = quiet_seconds
        self._waiting: tuple[float, float] | None = None  # since when, and when the last change came

    @property
    def is_waiting(self) -> bool:
        """Whether there is a change that is not applied yet."""
        return self._waiting is not None

    @property
    def due_in(self) -> float:
        """Seconds until the changes are taken; 0 also when there are none."""
        waiting = self._waiting
        if waiting is None:
            return 0.0
        first, last = waiting
        due = min(last + self._quiet_seconds, first + LONGEST * self._quiet_seconds)
        return max(0.0, due - time.monotonic())

    def note(self) -> None:
        """A change has come. Called once it can be read."""
        now, waiting = time.monotonic(), self._waiting
        self._waiting = (now if waiting is None else waiting[0], now)

    def take(self) -> bool:
        """Whether it is time. The caller then reads everything that has changed."""
        if self._waiting is None or self.due_in > 0:
            return False
        self._waiting = None
        return True
