"""How far each subscription is behind: the end of its topic against what its consumer group has committed.

Called by the API, the metrics and the status page; asks Kafka at most once a second however many ask us.
"""

import threading
import time
from dataclasses import dataclass

from penstock.control import names, triggers
from penstock.control.kinds import BROKER, TRIGGER, Resource, key_of, name_of, namespace_of, spec_of
from penstock.control.triggers import Topic
from penstock.control.world import World
from penstock.kafka import topics
from penstock.kafka.groups import Offsets

FRESH_SECONDS = 1.0


@dataclass(frozen=True)
class LanePosition:
    """One partition as a subscription sees it."""

    partition: int
    position: int  # the next offset to be finished
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)


Lags = dict[str, list[LanePosition]]  # by key of the trigger; no entry: not known yet


class LagReader:
    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._last: Lags = {}

    def read(self) -> Lags:
        """Raises Unavailable when Kafka does not answer."""
        with self._lock:
            wanted = [(each, topic) for each in self._world.store.list(TRIGGER.name) if (topic := self.topic(each))]
            is_old = time.monotonic() - self._asked_at > FRESH_SECONDS
            if is_old or {key_of(each) for each, _ in wanted} != set(self._last):
                self._last = self._ask(wanted)
                self._asked_at = time.monotonic()
            return self._last

    def _ask(self, wanted: list[tuple[Resource, Topic]]) -> Lags:
        groups = {key_of(each): names.trigger_group(namespace_of(each), name_of(each)) for each, _ in wanted}
        committed = self._world.groups.offsets(groups.values())
        ends = {t.name: topics.latest_offsets(self._world.admin, t.name, t.partitions) for t in _unique(wanted)}
        return {
            key_of(each): _positions(each, topic, committed[groups[key_of(each)]], ends[topic.name])
            for each, topic in wanted
        }

    def topic(self, trigger: Resource) -> Topic | None:
        """The topic that the trigger reads, once it has a start there."""
        broker = self._world.store.get(BROKER.name, namespace_of(trigger), str(spec_of(trigger)["broker"]))
        topic = triggers.topic_of(broker) if broker is not None else None
        return topic if topic is not None and triggers.decided_start(trigger, topic) is not None else None


def _unique(with_topic: list[tuple[Resource, Topic]]) -> list[Topic]:
    return list({topic.name: topic for _, topic in with_topic}.values())


def _positions(trigger: Resource, topic: Topic, committed: Offsets, ends: dict[int, int]) -> list[LanePosition]:
    """A partition without a commit stands where the trigger started."""
    start = triggers.decided_start(trigger, topic)
    positions = dict(start.covering(topic.partitions).positions) if start else {}
    for (name, partition), at in committed.items():
        if name == topic.name:
            positions[partition] = at.offset
    return [LanePosition(p, positions.get(p, 0), end) for p, end in sorted(ends.items())]
