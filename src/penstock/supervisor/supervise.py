"""The supervisor: one loop over all parts, woken by signals and by the clock.

    rank by rank: start ──▶ ready ──▶ next rank ──▶ all ready
    died ──▶ said why ──▶ backoff ──▶ start
    SIGTERM, SIGINT ──▶ end rank by rank (a second one: at once)

Comes in: parts. Goes out: events, for whoever shows them, and ``run/up.json``. Called by ``penstock up``.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

from penstock import child
from penstock.errors import Unavailable
from penstock.supervisor.part import Part, RunningPart, backoff_seconds
from penstock.supervisor.rundir import RunDirectory
from penstock.telemetry import logs

PROBE_EVERY_SECONDS = 0.1
LOOK_EVERY_SECONDS = 5.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Event:
    """Something that happened to a part, or to all of them (then the part's name is empty)."""

    kind: Literal["starting", "ready", "died", "all ready", "stopping", "stopped"]
    part: str = ""
    text: str = ""
    seconds: float = 0.0


Listener = Callable[[Event], None]


@dataclass(frozen=True)
class Patience:
    """When a first start counts as failed; None means never, and it is tried for ever."""

    deaths: int | None = None
    seconds: float | None = None


class Supervisor:
    """Runs parts until it is told to stop. One per process, in the main thread."""

    def __init__(
        self, parts: Sequence[Part], directory: RunDirectory, run_id: str, listener: Listener, about: dict[str, Any]
    ) -> None:
        self.parts = [RunningPart(part) for part in parts]
        self._directory = directory
        self._listener = listener
        self._about = {"pid": os.getpid(), "birth": child.birth_of(os.getpid()), "run_id": run_id, **about}
        self._stop_requests = 0
        self._was_ready = False
        self._started = time.monotonic()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def run(self, patience: Patience = Patience()) -> None:  # noqa: B008 (a frozen value)
        """Returns after a requested stop; raises Unavailable when the first start failed for good."""
        before = self._take_signals()
        try:
            self._write_state()
            while not self._stop_requests:
                now = time.monotonic()
                self._step(now)
                self._judge(now, patience)
                self._wait()
        finally:
            self._end_all()
            self._give_back_signals(before)

    def _step(self, now: float) -> None:
        """One look at every part."""
        for running in self.parts:
            if running.has_died(now):
                pause = backoff_seconds(running.failures)
                self._tell("died", running, f"{running.reason}\nnext start in {pause:g} s")
        rank = self._rank_in_reach()
        for running in self.parts:
            if running.state == "waiting" and running.part.start_rank <= rank and now >= running.next_start:
                running.start(now)
                self._tell("starting", running)
        for running in self.parts:
            since = running.since
            if running.has_become_ready(now):
                self._tell("ready", running, seconds=now - since)
        if not self._was_ready and all(running.state == "ready" for running in self.parts):
            self._was_ready = True
            self._listener(Event("all ready", seconds=now - self._started))

    def _rank_in_reach(self) -> int:
        """During the first start, the lowest rank that is not ready yet. After it, every part is on its own."""
        pending = [running.part.start_rank for running in self.parts if running.state != "ready"]
        if self._was_ready or not pending:
            return max(running.part.start_rank for running in self.parts)
        return min(pending)

    def _judge(self, now: float, patience: Patience) -> None:
        if self._was_ready:
            return
        for running in self.parts:
            if patience.deaths is not None and running.failures >= patience.deaths:
                raise Unavailable(
                    f"{running.part.name} died {running.failures} times while starting: {running.reason}",
                    hint=f"see {running.part.log}",
                )
        if patience.seconds is not None and now - self._started > patience.seconds:
            late = ", ".join(running.part.name for running in self.parts if running.state != "ready")
            raise Unavailable(
                f"not ready after {patience.seconds:g} s: {late}", hint=f"see the logs in {self._directory.logs}"
            )

    def _wait(self) -> None:
        """Until a signal comes or there is something to look at."""
        now = time.monotonic()
        pauses = [LOOK_EVERY_SECONDS]
        pauses += [PROBE_EVERY_SECONDS for running in self.parts if running.state == "starting"]
        reach = self._rank_in_reach()  # parts of later ranks wait for others, not for a time
        waiting = [each for each in self.parts if each.state == "waiting" and each.part.start_rank <= reach]
        pauses += [running.next_start - now for running in waiting]
        select.select([self._wake_read], [], [], max(0.0, min(pauses)))
        try:
            while os.read(self._wake_read, 512):
                pass
        except BlockingIOError:
            pass
        for running in self.parts:
            with contextlib.suppress(OSError):  # a full disk is the parts' trouble, not the end of watching them
                logs.keep_bounded(running.part.command.output)

    def _end_all(self) -> None:
        for rank in sorted({running.part.stop_rank for running in self.parts}):
            group = [running for running in self.parts if running.part.stop_rank == rank and running.process]
            for running in group:
                self._tell("stopping", running)
                running.process.terminate()  # type: ignore[union-attr]  # filtered above
            for running in group:
                self._end(running)
        child.kill_all(child.marked(self._about["run_id"]))
        self._directory.forget_state()

    def _end(self, running: RunningPart) -> None:
        assert running.process is not None
        deadline = time.monotonic() + running.part.patience_seconds
        while running.process.poll() is None and self._stop_requests < 2 and time.monotonic() < deadline:
            select.select([], [], [], child.POLL_SECONDS)
        child.stop(running.process, 0.0 if running.process.poll() is None else 1.0)
        running.process, running.state = None, "stopped"
        self._tell("stopped", running)

    def _tell(self, kind: Any, running: RunningPart, text: str = "", seconds: float = 0.0) -> None:
        self._write_state()
        self._listener(Event(kind, running.part.name, text, seconds))

    def _write_state(self) -> None:
        parts = {
            running.part.name: {
                "pid": running.pid,
                "birth": running.birth,
                "state": running.state,
                "restarts": running.restarts,
                "reason": running.reason,
            }
            for running in self.parts
        }
        with contextlib.suppress(OSError):  # the disk is full: `status` shows what was, and all goes on
            self._directory.write_state({**self._about, "parts": parts})

    def _take_signals(self) -> dict[signal.Signals, Any]:
        """Signals wake the loop through a pipe; the handlers only count."""

        def on_stop(number: int, frame: FrameType | None) -> None:
            self._stop_requests += 1

        def on_child(number: int, frame: FrameType | None) -> None:
            pass

        before: dict[signal.Signals, Any] = {each: signal.signal(each, on_stop) for each in STOP_SIGNALS}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, on_child)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        return before

    def _give_back_signals(self, before: dict[signal.Signals, Any]) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
