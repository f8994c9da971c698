"""How far each subscription is behind: the end of its topic against what its consumer group has committed.

Called by the API, the metrics and the status page; asks Kafka at most once a second however many ask us.
"""

import threading
import time
from dataclasses import dataclass
from typing import Any

from penstock.contract.model import Cluster, place_of
from penstock.control import egress_steps, starts
from penstock.control.ingress import Topic, noted_cluster
from penstock.control.kinds import EGRESS, Resource, key_of
from penstock.control.world import World
from penstock.errors import PenstockError
from penstock.kafka import topics
from penstock.kafka.groups import Offsets

FRESH_SECONDS = 1.0


@dataclass(frozen=True)
class LanePosition:
    """One partition as a subscription sees it."""

    topic: str
    partition: int
    position: int  # the next offset to be finished
    end: int
    place: str = ""  # which topic of that name

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)


Lags = dict[str, list[LanePosition]]  # by key of the resource; no entry: not known yet


class LagReader:
    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._asked_for: set[tuple[str, str]] = set()  # key of the resource, id of the topic
        self._last: Lags = {}

    def read(self) -> Lags:
        """Raises Unavailable when Kafka does not answer."""
        with self._lock:
            everything = [each for kind in EGRESS for each in self._world.store.list(kind.name)]
            wanted = [(each, topic) for each in everything for topic in self.topics(each)]
            asked_for = {(key_of(each), topic.topic_id) for each, topic in wanted}
            if time.monotonic() - self._asked_at > FRESH_SECONDS or asked_for != self._asked_for:
                self._last = self._ask(wanted)
                self._asked_at, self._asked_for = time.monotonic(), asked_for
            return self._last

    def _ask(self, wanted: list[tuple[Resource, Topic]]) -> Lags:
        found: Lags = {}
        by_cluster: dict[Cluster, list[tuple[Resource, Topic]]] = {}
        for each, topic in wanted:
            by_cluster.setdefault(topic.cluster, []).append((each, topic))
        for cluster, here in by_cluster.items():
            try:
                self._ask_cluster(cluster, here, found)
            except PenstockError:
                if cluster.is_home:
                    raise  # of another that is away nothing is known
        return found

    def _ask_cluster(self, cluster: Cluster, wanted: list[tuple[Resource, Topic]], found: Lags) -> None:
        groups = {key_of(each): egress_steps.group_of(each) for each, _ in wanted}
        committed = self._world.groups_of(cluster).offsets(set(groups.values()))
        admin, topics_here = self._world.admin_of(cluster), {topic.name: topic for _, topic in wanted}
        ends = {t.name: _ends(admin, t) for t in topics_here.values()}
        for each, topic in wanted:
            lanes = found.setdefault(key_of(each), [])
            lanes += _positions(each, topic, committed[groups[key_of(each)]], ends[topic.name])

    def topics(self, resource: Resource) -> list[Topic]:
        """The topics that it reads, as far as it has a start there. Nobody is asked."""
        agreed = self._world.contract.subscriptions(key_of(resource))
        clusters = {each.topic: each.cluster for each in agreed}
        noted = noted_cluster(resource)  # for a topic without an agreement, for example if there is no subscriber
        return [
            Topic(name, start.topic_id, len(start.positions), clusters.get(name, noted))
            for name, start in starts.noted_starts(resource).items()
            if name and start.topic_id and (name in clusters or self._may_ask(noted))
        ]

    def _may_ask(self, cluster: Cluster) -> bool:
        """A login is used only if the contract uses it. Otherwise its Secret may no longer allow these servers."""
        if not cluster.secret:
            return True
        agreements = self._world.contract.agreements().values()
        used = [each.cluster for of in agreements for each in of.routes]
        used += [each.cluster for of in agreements for each in of.subscriptions]
        return any(
            (each.bootstrap_servers, each.secret) == (cluster.bootstrap_servers, cluster.secret) for each in used
        )


def _ends(admin: Any, topic: Topic) -> dict[int, int]:
    """None while the topic is gone."""
    try:
        return topics.latest_offsets(admin, topic.name, topic.partitions)
    except PenstockError:
        if topics.describe(admin, [topic.name]):
            raise
        return {}


def _positions(resource: Resource, topic: Topic, committed: Offsets, ends: dict[int, int]) -> list[LanePosition]:
    """A partition without a commit stands where the resource started."""
    start = starts.decided(resource, topic.topic_id)
    positions = dict(start.covering(topic.partitions).positions) if start else {}
    for (name, partition), at in committed.items():
        if name == topic.name:
            positions[partition] = at.offset
    place = place_of(topic.name, topic.cluster)
    return [LanePosition(topic.name, p, positions.get(p, 0), end, place) for p, end in sorted(ends.items())]
