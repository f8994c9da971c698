"""The processes that the benchmark starts beside Penstock, and how it talks with them.

Each is ``python -m bench.NAME``. They speak JSON lines over pipes and end by themselves: those that run for long when
their stdin closes, the others when their work is done.
"""

import contextlib
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

import msgspec

from bench.circle import CircleCommand, Look
from bench.load import LoadPlan, LoadResult
from bench.sink import Command, SinkStats

ANSWER_SECONDS = 30.0
ROOT = Path(__file__).parent.parent
T = TypeVar("T")


class ChildFailed(Exception):
    """A helper process ended or fell silent; the message is for people."""


class Child:
    """A helper process with a line for each answer. A context manager: it is gone afterwards."""

    def __init__(self, module: str, argument: object | None = None) -> None:
        self.module = module
        arguments = [] if argument is None else [msgspec.json.encode(argument).decode()]
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"bench.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is for the benchmark, which then ends its children in order
        )
        self._errors: list[bytes] = []
        self._reader = threading.Thread(target=self._gather_errors, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def say(self, command: object) -> None:
        try:
            stdin = _pipe(self.process.stdin)
            stdin.write(msgspec.json.encode(command) + b"\n")
            stdin.flush()
        except OSError as error:
            raise self._failed(str(error)) from error

    def hear(self, kind: type[T], timeout_seconds: float = ANSWER_SECONDS) -> T:
        timer = threading.Timer(timeout_seconds, self.process.kill)
        timer.start()
        try:
            line = _pipe(self.process.stdout).readline()
        finally:
            timer.cancel()
        if not line:
            raise self._failed("no answer")
        return msgspec.json.decode(line, type=kind)

    def finish(self) -> None:
        """Asks for the end by closing stdin; a last answer may follow."""
        with contextlib.suppress(OSError):
            _pipe(self.process.stdin).close()

    def close(self, timeout_seconds: float = 10.0) -> None:
        self.finish()
        try:
            self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(1.0)
        _pipe(self.process.stdout).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(10.0 if kind is None else 1.0)

    def _gather_errors(self) -> None:
        with _pipe(self.process.stderr) as stderr:
            for line in stderr:
                self._errors = [*self._errors[-9:], line]

    def _failed(self, what: str) -> ChildFailed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2.0)
        self._reader.join(1.0)
        said = b"".join(self._errors[-2:]).decode(errors="replace").strip()  # a traceback ends with the reason
        return ChildFailed(
            f"bench.{self.module}: {what}, exit code {self.process.poll()}" + (f"\n{said}" if said else "")
        )


class Sink(Child):
    """The subscriber process: the bare one (``sink.py``), or an ordinary one (``ordinary.py``)."""

    def __init__(self, module: str = "sink") -> None:
        super().__init__(module)
        self.port = self.hear(dict[str, int])["port"]

    def url(self, lane: int) -> str:
        return f"http://127.0.0.1:{self.port}/t/{lane}"

    def reset(self, run: int) -> None:
        self.say(Command("reset", run))
        self.hear(dict[str, int])

    def count(self) -> int:
        self.say(Command("count"))
        return self.hear(dict[str, int])["count"]

    def stats(self) -> SinkStats:
        self.say(Command("stats"))
        return self.hear(SinkStats)


class Circle(Child):
    """Generator and subscriber in one, which send when something has arrived (``circle.py``)."""

    def __init__(self) -> None:
        super().__init__("circle")
        self.port = self.hear(dict[str, int])["port"]

    def url(self, lane: int) -> str:
        return f"http://127.0.0.1:{self.port}/t/{lane}"

    def start(self, url: str, run: int, lanes: int, under_way: int) -> Look:
        return self._ask(CircleCommand("start", url, run, lanes, under_way))

    def look(self) -> Look:
        return self._ask(CircleCommand("look"))

    def _ask(self, command: CircleCommand) -> Look:
        self.say(command)
        return self.hear(Look)


def run_load(plan: LoadPlan) -> LoadResult:
    """One run of the load generator, in a process of its own."""
    with Child("load", plan) as child:
        return child.hear(LoadResult, plan.seconds + 30.0)


def _pipe(pipe: IO[bytes] | None) -> IO[Any]:
    assert pipe is not None
    return pipe
