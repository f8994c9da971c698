"""The loop: whatever changed is looked at once, everything every few seconds, failures again with backoff.

    store, reports ──changed──▶ Work ──due──▶ look at one resource ──settled?──▶ forget it until the next resync
                                 ▲                                 └──no / error──▶ again, a little later
                                 └──────── every resync_seconds: all of them

It is level-based: looking at a resource twice, or after a restart, does no harm. One thread does all of it.
"""

import logging
import threading
import time
from collections.abc import Callable

from penstock.contract.model import topic_of
from penstock.control import egress_steps, ingress_steps, names, starts
from penstock.control.dependents import dependents
from penstock.control.kinds import (
    EGRESS,
    INGRESS,
    Resource,
    generation_of,
    is_being_deleted,
    key_of,
    noted,
    status_of,
)
from penstock.control.world import World
from penstock.errors import PenstockError

logger = logging.getLogger("penstock.control")

FIRST_BACKOFF_SECONDS = 0.1
LONGEST_BACKOFF_SECONDS = 5.0
_INGRESS = {kind.name for kind in INGRESS}
_EGRESS = {kind.name for kind in EGRESS}


def backoff_seconds(attempt: int) -> float:
    """0.1, 0.2, 0.4 … up to 5 s."""
    return float(min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(attempt, 10)))


class Work:
    """Which keys are due when. A key is there at most once, at its earliest time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._due: dict[str, float] = {}
        self._clock = clock
        self._changed = threading.Condition()

    def add(self, key: str, after_seconds: float = 0.0) -> None:
        at = self._clock() + after_seconds
        with self._changed:
            if at < self._due.get(key, float("inf")):
                self._due[key] = at
                self._changed.notify_all()

    def take(self, longest_wait_seconds: float) -> list[str]:
        """The keys that are due, in the order in which they were, or none after waiting that long."""
        deadline = self._clock() + longest_wait_seconds
        with self._changed:
            while True:
                now = self._clock()
                due = sorted((at, key) for key, at in self._due.items() if at <= now)
                if due or now >= deadline:
                    for _, key in due:
                        del self._due[key]
                    return [key for _, key in due]
                next_at = min(self._due.values(), default=deadline)
                self._changed.wait(max(0.0, min(next_at, deadline) - now))

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class Reconciler:
    def __init__(self, world: World, work: Work) -> None:
        self._world = world
        self._work = work
        self._attempts: dict[str, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)

    def start(self) -> None:
        self._world.store.listen(self.on_change)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._work.wake()
        if self._thread.is_alive():
            self._thread.join(timeout=3.0)  # each step may be its last anyway

    def on_change(self, _event: str, resource: Resource) -> None:
        """What a change of one resource makes worth looking at."""
        if generation_of(resource) != status_of(resource).get("observedGeneration") or is_being_deleted(resource):
            self._attempts.pop(key_of(resource), None)
            self._work.add(key_of(resource))
        for key in dependents(self._world.store.list(), resource):
            self._work.add(key)

    def on_query(self, place: str) -> None:
        """The dispatcher said something new about a topic: who reads it may want to show it."""
        topic = topic_of(place)
        for resource in self._world.store.list():
            kind, notes = resource["kind"], noted(resource)
            is_ending = is_being_deleted(resource) and notes.get(names.NOTED_TOPIC) == topic
            if (kind in _EGRESS and topic in starts.noted_starts(resource)) or (kind in _INGRESS and is_ending):
                self._work.add(key_of(resource))

    def _run(self) -> None:
        next_resync = time.monotonic()
        while not self._stopping.is_set():
            if time.monotonic() >= next_resync:
                try:
                    self._add_everything()
                except Exception:
                    logger.exception("not all resources could be reconciled")
                next_resync = time.monotonic() + self._world.settings.resync_seconds
            for key in self._work.take(max(0.0, next_resync - time.monotonic())):
                if self._stopping.is_set():
                    return
                self._look_at(key)

    def _add_everything(self) -> None:
        # Brokers before triggers: a trigger takes its topic from its broker's status.
        everything = sorted(self._world.store.list(), key=lambda r: r["kind"] in _EGRESS)
        self._world.clusters.forget_unused()
        for key in dict.fromkeys([*map(key_of, everything), *self._world.contract.keys()]):
            self._work.add(key)

    def _look_at(self, key: str) -> None:
        try:
            settled = self.reconcile(key)
        except PenstockError as error:
            logger.warning("%s: %s", key, error.message)
            settled = False
        except Exception:
            logger.exception("%s could not be reconciled", key)
            settled = False
        if settled:
            self._attempts.pop(key, None)
            return
        attempt = self._attempts.get(key, 0)
        self._attempts[key] = attempt + 1
        self._work.add(key, backoff_seconds(attempt))

    def reconcile(self, key: str) -> bool:
        """Makes one resource true; whether nothing is left to wait for."""
        if key in self._world.store.unreadable():
            return True  # what was last written to the contract stays in force
        kind, namespace, name = (*key.split("/", 2), "", "")[:3]
        resource = self._world.store.get(kind, namespace, name)
        if resource is None:
            self._world.contract.remove(key)
            return True
        deleting = is_being_deleted(resource)
        if kind in _INGRESS:
            return (ingress_steps.take_apart if deleting else ingress_steps.reconcile)(self._world, resource)
        if kind in _EGRESS:
            return (egress_steps.take_apart if deleting else egress_steps.reconcile)(self._world, resource)
        if deleting:  # of what is only read there is nothing to take apart
            self._world.store.remove(resource)
        return True
