"""Rings when a record comes to a topic that nobody reads.

One consumer waits at the ends of all such topics: a single request that Kafka answers when there is something, so a
thousand quiet partitions cost next to nothing. What it fetches is only a sign; events are read by the pipeline.
"""

import logging
import threading
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, TopicPartition

from penstock.contract.model import Cluster, place_of
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection

logger = logging.getLogger("penstock.kafka")

POLL_SECONDS = 0.2  # how soon a topic is added


class Doorbell:
    """``on_ring`` is called from its own thread, once for each ``watch``, with the topic and whether it was found
    shorter than it was: records that were there are lost, and whoever starts has to look again where."""

    def __init__(self, connection: KafkaConnection, on_ring: Callable[[str, bool], None]) -> None:
        self._connection = connection
        self._on_ring = on_ring
        self._lock = threading.Lock()
        self._wanted: dict[str, Mapping[int, int]] = {}  # topic: the next offset of each partition
        self._watched: dict[str, Mapping[int, int]] = {}  # as the consumer has it; only the thread touches it
        self._thread: threading.Thread | None = None
        self._is_closed = threading.Event()

    def watch(self, topic: str, offsets: Mapping[int, int]) -> None:
        """From now on; a record that is there already rings too."""
        with self._lock:
            self._wanted[topic] = dict(offsets)
            if self._thread is None:  # no client and no thread before somebody needs them
                self._thread = threading.Thread(target=self._run, name="doorbell", daemon=True)
                self._thread.start()

    def forget(self, topic: str) -> None:
        with self._lock:
            self._wanted.pop(topic, None)

    def close(self) -> None:
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                self._listen()
            except Exception:  # whatever it is: a bell that nobody hears would be the end of all quiet topics
                logger.exception("quiet topics are not watched; next try in a second")
                self._is_closed.wait(1.0)

    def _listen(self) -> None:
        # As little as Kafka gives: one batch of records, whatever its size.
        consumer = self._connection.consumer(
            **{"fetch.wait.max.ms": 500, "fetch.message.max.bytes": 1, "queued.min.messages": 1}
        )
        self._watched = {}
        try:
            while not self._is_closed.is_set():
                self._follow_wanted(consumer)
                message = consumer.poll(POLL_SECONDS)
                if message is not None and message.error() is None:
                    self._ring(message.topic(), message.partition(), message.offset())
        finally:
            consumer.close()

    def _follow_wanted(self, consumer: Consumer) -> None:
        with self._lock:
            wanted = dict(self._wanted)
        gone = [topic for topic, offsets in self._watched.items() if wanted.get(topic) is not offsets]
        if gone:
            consumer.incremental_unassign([TopicPartition(each, p) for each in gone for p in self._watched[each]])
            for topic in gone:
                del self._watched[topic]
        new = {topic: offsets for topic, offsets in wanted.items() if topic not in self._watched}
        if new:
            consumer.incremental_assign(
                [TopicPartition(topic, p, at) for topic, offsets in new.items() for p, at in offsets.items()]
            )
            self._watched.update(new)

    def _ring(self, topic: str, partition: int, offset: int) -> None:
        with self._lock:
            offsets = self._wanted.get(topic)
            if offsets is None or self._watched.get(topic) is not offsets:
                return  # fetched before it was forgotten, or watched anew
            del self._wanted[topic]
        self._on_ring(topic, offset < offsets.get(partition, 0))


class Doorbells:
    """One for each cluster. ``on_ring`` gets the place of a topic."""

    def __init__(self, clusters: Clusters, on_ring: Callable[[str, bool], None]) -> None:
        self._clusters = clusters
        self._on_ring = on_ring
        self._bells: dict[Cluster, tuple[Doorbell, set[str]]] = {}  # with the topics that it watches, or has

    def watch(self, cluster: Cluster, topic: str, offsets: Mapping[int, int]) -> None:
        if cluster not in self._bells:

            def ring(topic: str, is_shorter: bool) -> None:
                self._on_ring(place_of(topic, cluster), is_shorter)

            self._bells[cluster] = Doorbell(self._clusters.connection(cluster), ring), set()
        bell, topics = self._bells[cluster]
        topics.add(topic)
        bell.watch(topic, offsets)

    def forget(self, cluster: Cluster, topic: str) -> None:
        if cluster not in self._bells:
            return
        bell, topics = self._bells[cluster]
        topics.discard(topic)
        bell.forget(topic)
        if not topics and not cluster.is_home:  # its credentials may be outdated
            del self._bells[cluster]
            threading.Thread(target=bell.close, name="closing", daemon=True).start()

    def close(self) -> None:
        for bell, _ in self._bells.values():
            bell.close()
