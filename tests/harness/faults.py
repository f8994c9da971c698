"""What is done to the system while it works. Each fault is a scenario of the list, by its number there."""

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.pipeline.marks import STATE
from tests import signals
from tests.conftest import System
from tests.disk import contents
from tests.harness import subscriber as moods
from tests.harness.subscriber import HostileSubscriber, Mood
from tests.waiting import until


class World(Protocol):
    """What a fault may touch."""

    system: System
    subscriber: HostileSubscriber
    chance: random.Random
    scale: float  # how long things last: 1 in CI, more in a soak

    def change_triggers(self) -> None:
        """Lets a trigger come and go, which replaces the query."""

    def set_mood(self, mood: Mood | None) -> None:
        """Of one or two subscriptions, by chance; None: all are well."""

    def pause_and_resume(self, seconds: float) -> None: ...


@dataclass(frozen=True)
class FaultKind:
    name: str
    do: Callable[[World], None]
    cuts: bool  # whether deliveries may come twice


def kill(part: str) -> Callable[[World], None]:
    def do(world: World) -> None:
        killed = world.system.pid(part)
        signals.kill(killed)
        until(lambda: world.system.pid(part) not in (0, killed), f"{part} is started again")

    return do


def kill_worker(world: World) -> None:
    _signal_if_there(world.chance.choice(workers(world.system)), signal.SIGKILL)


def kill_daemon(world: World) -> None:
    for each in daemons(world.system):
        _signal_if_there(each, signal.SIGKILL)


def stop_worker(world: World) -> None:
    """Stopped, replaced by a successor, and woken up again: it must move nothing."""
    with stopped(world.chance.choice(workers(world.system))):
        world.change_triggers()
        _wait(3.0 * world.scale)


def stop_driver(world: World) -> None:
    """Its workers go on meanwhile."""
    driver = world.system.pid("dispatcher")
    with stopped(driver, *(pid for pid in children(driver) if _name(pid) == "java")):
        _wait(6.0 * world.scale)


def stop_kafka(world: World) -> None:
    with stopped(world.system.pid("kafka")):
        _wait(4.0 * world.scale)


def end_dispatcher(world: World) -> None:
    """In order, at full load: nothing may come twice."""
    ended = world.system.pid("dispatcher")
    signals.kill(ended, signal.SIGTERM)
    until(lambda: world.system.pid("dispatcher") not in (0, ended), "the dispatcher is started again")


def mood(of: Mood, seconds: float) -> Callable[[World], None]:
    def do(world: World) -> None:
        world.set_mood(of)
        _wait(seconds * world.scale)
        world.set_mood(None)

    return do


FAULTS = (
    FaultKind("1 kill -9 receiver", kill("receiver"), cuts=False),
    FaultKind("2 kill -9 dispatcher", kill("dispatcher"), cuts=True),
    FaultKind("3 kill -9 a worker", kill_worker, cuts=True),
    FaultKind("4 kill -9 the worker daemon", kill_daemon, cuts=True),
    FaultKind("5 a worker stopped and replaced", stop_worker, cuts=True),
    FaultKind("6 the driver stopped", stop_driver, cuts=True),
    FaultKind("7 kill -9 controller", kill("controller"), cuts=False),
    FaultKind("8 kill -9 kafka", kill("kafka"), cuts=True),
    FaultKind("9 kafka stopped", stop_kafka, cuts=True),
    FaultKind("15 a subscriber hangs", mood(moods.hanging, 5.0), cuts=False),
    FaultKind("15 a subscriber cuts connections", mood(moods.cutting, 3.0), cuts=False),
    FaultKind("16 a subscriber is down", mood(moods.down, 4.0), cuts=False),
    FaultKind("16 a subscriber fails half of the time", mood(moods.failing, 3.0), cuts=False),
    FaultKind("17 a subscriber asks to wait", mood(moods.asking_to_wait, 3.0), cuts=False),
    FaultKind("31 triggers come and go", lambda world: world.change_triggers(), cuts=False),
    FaultKind("a trigger is paused", lambda world: world.pause_and_resume(2.0 * world.scale), cuts=False),
    FaultKind("34 SIGTERM to the dispatcher", end_dispatcher, cuts=False),
)


# ── processes ─────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    for pid in pids:
        signals.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            _signal_if_there(pid, signal.SIGCONT)


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(entry.parent.name))
    return found


def daemons(system: System) -> list[int]:
    """The process from which Spark's Python workers are forked; none, while its orphans serve and need no other."""
    javas = [each for each in children(system.pid("dispatcher")) if _name(each) == "java"]
    return [each for java in javas for each in children(java) if _name(each).startswith("python")]


def workers(system: System) -> list[int]:
    """Those that serve a partition, by the marks that they leave; whoever forked them may be gone."""
    marks = system.data_dir / "scratch" / "marks"

    def alive() -> list[int]:
        pids = {STATE.unpack(state)[3] for _, state in contents(marks) if len(state) == STATE.size}
        return sorted(pid for pid in pids if pid and Path(f"/proc/{pid}").exists())

    return until(alive, "a worker")


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _signal_if_there(pid: int, number: signal.Signals) -> None:
    try:
        signals.kill(pid, number)
    except ProcessLookupError:
        return


def _wait(seconds: float) -> None:
    """Time is part of a fault: nothing tells when a process has been stopped for long enough."""
    over = time.monotonic() + seconds
    until(lambda: time.monotonic() >= over, "time", seconds + 60)
