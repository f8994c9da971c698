"""The sending of dead letters once more: which of them, to whom, and the sending itself.

Called by jobs (``jobs.py``) and by the request that waits until it is done. A letter is in one hand at a time, so two
jobs that overlap send nothing twice; whoever has sent one marks it, so a job that is started again goes on.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.contract.model import HOME, Cluster, DeadLetter, Subscription
from penstock.contract.moments import iso
from penstock.control.dead_letters import MOST, Wanted, still_failing, subscribed
from penstock.control.world import World
from penstock.delivery.dead_letter import without_password
from penstock.errors import Rejected
from penstock.kafka.dead_letter_index import Indexed
from penstock.kafka.dead_letters import DeadLetters

DEFAULT_RATE = 100.0  # events per second
LARGEST_RATE = 100_000.0
BATCH_BYTES = 8 * 1024 * 1024  # of events in memory at a time
MOST_PROBLEMS = 100


@dataclass(frozen=True)
class Plan:
    """What would be sent: the same for a dry run, the question before it, and the run."""

    letters: tuple[Indexed, ...]  # the oldest first
    orphans: tuple[Indexed, ...]  # whose subscription is no more
    targets: tuple[dict[str, Any], ...]
    rate: float  # events per second, 0: no limit
    is_more: bool

    @property
    def shown(self) -> dict[str, Any]:
        warnings = [f"{each['key']}: {each['warning']}" for each in self.targets if each["warning"]]
        if self.orphans:
            warnings.append(f"{len(self.orphans)} cannot be sent: their subscription is no more")
        if self.is_more:
            warnings.append("there are older ones besides; they come with the next run")
        return {
            "count": len(self.letters),
            "target": list(self.targets),
            "rate": self.rate or None,
            "seconds": round(len(self.letters) / self.rate, 1) if self.rate else None,
            "first": iso(self.letters[0].time) if self.letters else None,
            "last": iso(self.letters[-1].time) if self.letters else None,
            "warning": "; ".join(warnings) or None,
        }

    @property
    def problems(self) -> list[dict[str, str]]:
        return [
            {"id": each.id, "message": f"its {each.kind.lower()} {each.namespace}/{each.name} is no more"}
            for each in self.orphans[:MOST_PROBLEMS]
        ]


def rate_of(value: Any) -> float:
    if value is None:
        return DEFAULT_RATE
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_RATE:
        raise Rejected(f"rate is {value!r}; a number of events per second is expected, 0 for no limit")
    return float(value)


def plan(world: World, wanted: Wanted, rate: float, most: int | None = None) -> Plan:
    """Raises Rejected when there are none. ``most``: only so many, the oldest."""
    index = world.dead_letters
    index.wait_until_current()
    found = index.find(wanted)
    if not found:
        raise Rejected("no dead letter is like that", hint="`penstock deadletters list` shows them")
    there = subscribed(world)
    letters = [each for each in found if each.uid in there]
    orphans = tuple(each for each in found if each.uid not in there)
    chosen = tuple(letters[:most])
    is_more = index.is_more or len(chosen) < len(letters)
    return Plan(chosen, orphans, tuple(_targets(world, chosen)), rate, is_more)


def _targets(world: World, letters: Sequence[Indexed]) -> Iterator[dict[str, Any]]:
    one_of = {each.uid: each for each in letters}
    for uid, count in Counter(each.uid for each in letters).most_common():
        letter = one_of[uid]
        agreed = _subscription(world, letter)
        failing = still_failing(world, uid)
        warning = f"its subscriber still fails: {failing}" if failing else None
        if agreed is not None and agreed.is_paused(world.clock().timestamp()):
            warning = "it is paused: they wait until it is resumed"
        address = without_password(agreed.subscriber_url) if agreed is not None else None
        yield {"key": letter.subscription, "subscriber": address, "count": count, "warning": warning}


class Redriver:
    """Sends what a plan says."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        # Letters that somebody sends now, or has sent and the index does not know it yet.
        self._taken: set[str] = set()

    def batches(self, letters: Iterable[Indexed], size: int) -> Iterator[list[DeadLetter]]:
        """With their events; at most so many and so many bytes at a time."""
        batch: list[DeadLetter] = []
        room = BATCH_BYTES
        for letter in DeadLetters(self._world.connection).at(each.record for each in letters):
            batch.append(letter)
            room -= len(bytes(letter.event))
            if len(batch) >= size or room <= 0:
                yield batch
                batch, room = [], BATCH_BYTES
        if batch:
            yield batch

    def send(self, batch: Sequence[DeadLetter], letters: DeadLetters) -> int:
        """How many of them; the others were sent by somebody else. Raises Unavailable. ``letters``: of this job."""
        mine = self._take(batch)
        by_cluster: dict[Cluster, list[DeadLetter]] = {}
        for each in mine:
            by_cluster.setdefault(_cluster_of(self._world, each), []).append(each)
        keys = [each.key for each in mine]
        try:
            for cluster, some in by_cluster.items():
                letters.redrive(some, self._world.clusters.connection(cluster))
        except BaseException:
            with self._lock:  # what was sent is marked, and the index learns of it
                self._taken.difference_update(keys)
            raise
        if self._world.dead_letters.wait_until_closed(keys):
            with self._lock:
                self._taken.difference_update(keys)
        return len(mine)

    def _take(self, batch: Sequence[DeadLetter]) -> list[DeadLetter]:
        index = self._world.dead_letters
        with self._lock:
            self._taken = {key for key in self._taken if index.is_open(key)}
            mine = [each for each in batch if index.is_open(each.key) and each.key not in self._taken]
            self._taken.update(each.key for each in mine)
            return mine


def redrive_now(world: World, redriver: Redriver, wanted: Wanted) -> dict[str, Any]:
    """Sends the oldest of them at once; ``more``: there are others. Raises Rejected when there are none."""
    chosen = plan(world, wanted, 0, MOST)
    letters = DeadLetters(world.connection)
    sent = sum(redriver.send(batch, letters) for batch in redriver.batches(chosen.letters, MOST))
    return {"redriven": sent, "problems": chosen.problems, "more": chosen.is_more and bool(sent)}


def _cluster_of(world: World, letter: DeadLetter) -> Cluster:
    """Where its topic is."""
    agreed = _subscription(world, letter)
    return agreed.cluster if agreed is not None else HOME


def _subscription(world: World, letter: Indexed | DeadLetter) -> Subscription | None:
    agreed = world.contract.subscriptions(f"{letter.kind}/{letter.namespace}/{letter.name}")
    return next((each for each in agreed if each.topic == letter.topic), None)
