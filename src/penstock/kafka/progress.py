"""How the rooms below the command line tell that something takes its time.

The command line shows it as bars on a terminal and as plain lines elsewhere (``cli/screen.py``).
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Step(Protocol):
    """One thing that takes its time, measured in bytes."""

    def advance_to(self, done_bytes: int) -> None: ...


class Progress(Protocol):
    """Where steps are shown."""

    def step(self, title: str, total_bytes: int) -> AbstractContextManager[Step]: ...

    def say(self, line: str) -> None: ...


class Silent:
    """Shows nothing."""

    def step(self, title: str, total_bytes: int) -> AbstractContextManager[Step]:
        return nullcontext(self)

    def say(self, line: str) -> None:
        pass

    def advance_to(self, done_bytes: int) -> None:
        pass
