"""Kafka's essentials and all topics that resources use, as they were at the last look. Nobody who asks waits for it.

Called by ``observe`` every few seconds in the background; read by the metrics, the live feed and the page of topics.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.contract.model import DEAD_LETTERS_TOPIC, HOME, Cluster, place_of
from penstock.control.world import World
from penstock.errors import PenstockError
from penstock.kafka import cluster_state
from penstock.kafka.cluster_state import ClusterState, LogSizes, PartitionState, Sizes

STATE_SECONDS = 5.0
SIZE_SECONDS = 10.0
RETENTION_SECONDS = 60.0


@dataclass(frozen=True)
class TopicState:
    topic: str
    place: str
    partitions: tuple[PartitionState, ...]
    offsets: dict[int, tuple[int, int]]  # begin and end by partition
    retention_ms: int | None  # -1: for ever; None: not known
    bytes: int | None


@dataclass(frozen=True)
class KafkaState:
    """Of the home cluster, and topics of all. None: not known."""

    brokers: int | None = None
    offline: int | None = None
    under_replicated: int | None = None
    disk_bytes: int | None = None
    disk_free_bytes: int | None = None
    topics: tuple[TopicState, ...] = ()
    dead_letters_retention_ms: int | None = None
    problem: str = "Kafka has not been asked yet"


@dataclass
class _Clusters:
    """What is kept between two looks at a cluster."""

    retention: dict[str, int] = field(default_factory=dict)
    retention_at: float = float("-inf")
    sizes: Sizes = field(default_factory=Sizes)
    sizes_at: float = float("-inf")
    reader: LogSizes | None = None


class KafkaLooker:
    """For one thread."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kept: dict[Cluster, _Clusters] = {}

    def look(self, wanted: Iterable[tuple[str, Cluster]]) -> KafkaState:
        """``wanted``: topics with their clusters. A cluster that is away only lacks; of home it is the problem."""
        by_cluster: dict[Cluster, set[str]] = {HOME: set()}
        for topic, cluster in wanted:
            by_cluster.setdefault(cluster, set()).add(topic)
        for cluster in self._kept.keys() - by_cluster.keys():
            self._close(self._kept.pop(cluster))
        home, found, problem = None, list[TopicState](), ""
        for cluster, names in by_cluster.items():
            try:
                state = cluster_state.look(self._world.admin_of(cluster))
                found += self._topics(cluster, state, sorted(names))
                home = state if cluster.is_home else home
            except PenstockError as error:
                problem = error.message if cluster.is_home else problem
        kept_home = self._kept.get(HOME) or _Clusters()
        sizes = kept_home.sizes
        return KafkaState(
            brokers=home.brokers if home else 0,
            offline=home.offline if home else None,
            under_replicated=home.under_replicated if home else None,
            disk_bytes=sizes.total if sizes.topics else None,
            disk_free_bytes=sizes.free_bytes,
            topics=tuple(sorted(found, key=lambda each: each.place)),
            dead_letters_retention_ms=kept_home.retention.get(DEAD_LETTERS_TOPIC),
            problem=problem,
        )

    def close(self) -> None:
        for kept in self._kept.values():
            self._close(kept)
        self._kept.clear()

    def _topics(self, cluster: Cluster, state: ClusterState, names: list[str]) -> list[TopicState]:
        admin, kept, now = (
            self._world.admin_of(cluster),
            self._kept.setdefault(cluster, _Clusters()),
            time.monotonic(),
        )
        names = [name for name in names if name in state.topics]
        offsets = cluster_state.offsets(admin, state, names)
        asked = [*names, DEAD_LETTERS_TOPIC] if cluster.is_home and DEAD_LETTERS_TOPIC in state.topics else names
        if now - kept.retention_at > RETENTION_SECONDS or not kept.retention.keys() >= set(asked):
            kept.retention, kept.retention_at = cluster_state.retentions(admin, asked), now
        if now - kept.sizes_at > SIZE_SECONDS:
            kept.sizes_at = now
            kept.sizes = self._sizes(cluster, kept)
        return [
            TopicState(
                topic=name,
                place=place_of(name, cluster),
                partitions=state.topics[name],
                offsets={p.partition: offsets[name, p.partition] for p in state.topics[name]
                         if (name, p.partition) in offsets},
                retention_ms=kept.retention.get(name),
                bytes=kept.sizes.topics.get(name),
            )
            for name in names
        ]  # fmt: skip

    def _sizes(self, cluster: Cluster, kept: _Clusters) -> Sizes:
        try:
            if kept.reader is None:
                kept.reader = LogSizes(self._world.clusters.connection(cluster))
            return kept.reader.read()
        except PenstockError:
            return kept.sizes

    @staticmethod
    def _close(kept: _Clusters) -> None:
        if kept.reader is not None:
            kept.reader.close()
