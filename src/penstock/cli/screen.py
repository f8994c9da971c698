"""What ``up``, ``down`` and ``fetch`` show while they work: bars and spinners on a terminal, plain lines elsewhere.

All of it goes to stderr. Both kinds show fetching (``kafka.progress``) and the supervisor's events.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from penstock.kafka.progress import Step
from penstock.supervisor.supervise import Event
from penstock.visible import visible

PLAIN_EVERY_SECONDS = 5.0


class PlainScreen:
    """A line whenever something has changed."""

    @contextmanager
    def step(self, title: str, total_bytes: int) -> Iterator[Step]:
        self.say(f"fetching {title}, {_megabytes(total_bytes)}")
        begun = time.monotonic()
        yield _PlainStep(title, total_bytes)
        self.say(f"fetched {title} in {time.monotonic() - begun:.1f} s")

    def say(self, line: str) -> None:
        typer.echo(visible(line), err=True)

    def event(self, event: Event) -> None:
        self.say(words(event))

    def close(self) -> None:
        pass


class TerminalScreen:
    """Bars for what is fetched, a spinner for each part that starts."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    @contextmanager
    def step(self, title: str, total_bytes: int) -> Iterator[Step]:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console) as bars:
            task = bars.add_task(f"Fetching {title}", total=total_bytes)
            yield _BarStep(bars, task)
            bars.update(task, completed=total_bytes)

    def say(self, line: str) -> None:
        self._console.print(visible(line), markup=False, highlight=False, soft_wrap=True)

    def event(self, event: Event) -> None:
        if event.kind == "starting":
            self._spin(event.part, f"{event.part} starts")
        elif event.kind == "stopping":
            self._spin(event.part, f"{event.part} ends")
        else:
            self._settle(event.part)
            if event.kind != "all ready":
                self.say(words(event))

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
        self._tasks.clear()

    def _spin(self, part: str, text: str) -> None:
        if self._bars is None:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bars = Progress(*columns, console=self._console, transient=True)
            self._bars.start()
        self._tasks[part] = self._bars.add_task(text, total=None)

    def _settle(self, part: str) -> None:
        task = self._tasks.pop(part, None)
        if self._bars is not None and task is not None:
            self._bars.remove_task(task)
        if not self._tasks:
            self.close()


Screen = PlainScreen | TerminalScreen


def screen() -> Screen:
    return TerminalScreen() if sys.stderr.isatty() else PlainScreen()


def words(event: Event) -> str:
    """An event as a line, and the reason of a death as lines below it."""
    if event.kind == "died":
        first, *rest = event.text.splitlines() or [""]
        return "\n".join([f"{event.part} died ({first})", *(f"  {line}" for line in rest)])
    if event.kind == "all ready":
        return f"all ready after {event.seconds:.1f} s"
    if event.kind == "ready":
        return f"{event.part} is ready after {event.seconds:.1f} s"
    return f"{event.part}: {event.kind}"


class _BarStep:
    def __init__(self, bars: Progress, task: TaskID) -> None:
        self._bars, self._task = bars, task

    def advance_to(self, done_bytes: int) -> None:
        self._bars.update(self._task, completed=done_bytes)


class _PlainStep:
    def __init__(self, title: str, total_bytes: int) -> None:
        self._title, self._total_bytes = title, total_bytes
        self._next = time.monotonic() + PLAIN_EVERY_SECONDS

    def advance_to(self, done_bytes: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_EVERY_SECONDS
            typer.echo(f"  {self._title}: {_megabytes(done_bytes)} of {_megabytes(self._total_bytes)}", err=True)


def _megabytes(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB"
