"""Producers: one for each cluster, and for each choice of settings, that an address leads to.

Comes in: a route. Goes out: the producer for it, and whether its Kafka takes events. An outlet is made when a route
needs it and ended when none does; a Secret with another version is another cluster to it. All of them are under the
bounds of the process. A cluster that is away, or whose Secret is wrong, is a 503 for its own routes only. Everything
here runs on the event loop; only the end of a producer waits in a thread.
"""

import asyncio
import logging
import time
from collections.abc import Iterable

from penstock.contract.model import HOME, Cluster, Route
from penstock.errors import Misconfigured, PenstockError
from penstock.kafka.clusters import Clusters
from penstock.kafka.produce import AcknowledgedProducer, ProducerLimits
from penstock.kafka.tuning import producer_settings
from penstock.receiver.health import Health

logger = logging.getLogger("penstock.receiver")

AGAIN_SECONDS = 2.0  # after which an outlet that could not be made is tried again

Key = tuple[Cluster, tuple[tuple[str, str], ...]]
HOME_KEY: Key = (HOME, ())


class Outlet:
    """A producer, and what is known about its Kafka."""

    __slots__ = ("health", "producer")

    def __init__(self, clusters: Clusters, key: Key, limits: ProducerLimits) -> None:
        cluster, settings = key
        chosen = producer_settings(dict(settings))
        connection = clusters.connection(cluster)
        self.health = Health(lambda: self.producer.led_topics(), "" if cluster.is_home else connection.label)
        self.producer = AcknowledgedProducer(connection, limits, self.health.lost_all_brokers, chosen)


class Outlets:
    """All of them, by cluster and settings. Home's is there from the start."""

    def __init__(self, clusters: Clusters, limits: ProducerLimits) -> None:
        self._clusters = clusters
        self._limits = limits
        self._home = Outlet(clusters, HOME_KEY, limits)
        self._others: dict[Key, Outlet] = {}
        self._refused: dict[Key, tuple[float, PenstockError]] = {}  # until when, and why
        self._ending: set[asyncio.Task[int]] = set()

    def of(self, route: Route) -> Outlet:
        """Raises Misconfigured when there can be none."""
        if not route.settings and route.cluster.is_home:
            return self._home
        key = _key(route)
        return self._others.get(key) or self._made(key)

    def follow(self, routes: Iterable[Route]) -> None:
        """Makes what these need, so that it is connected before the first event, and ends what none of them does."""
        wanted = {_key(route) for route in routes} - {HOME_KEY}
        for key in self._others.keys() - wanted:
            self._end(self._others.pop(key))
        self._refused = {key: refusal for key, refusal in self._refused.items() if key in wanted}
        for key in wanted - self._others.keys():
            try:
                self._made(key)
            except PenstockError:
                continue  # said when it was tried
        self._clusters.keep_only(cluster for cluster, _ in wanted if not cluster.is_home)

    async def end(self, timeout_seconds: float) -> int:
        """Waits until everything is reported; returns how many records are not."""
        for outlet in (self._home, *self._others.values()):
            self._end(outlet, timeout_seconds)
        self._others.clear()
        return sum(await asyncio.gather(*self._ending)) if self._ending else 0

    def _made(self, key: Key) -> Outlet:
        until, refusal = self._refused.get(key, (0.0, None))
        if refusal is not None and time.monotonic() < until:
            raise refusal
        try:
            self._others[key] = Outlet(self._clusters, key, self._limits)
        except Exception as error:  # librdkafka has its own for settings that it does not take
            found = error if isinstance(error, PenstockError) else Misconfigured(f"the producer's settings: {error}")
            if refusal is None or refusal.message != found.message:
                logger.error("no events for %s: %s", key[0].bootstrap_servers or "home", found.message)
            self._refused[key] = time.monotonic() + AGAIN_SECONDS, found
            raise found from None
        self._refused.pop(key, None)
        return self._others[key]

    def _end(self, outlet: Outlet, timeout_seconds: float | None = None) -> None:
        """What it still has is reported all the same."""
        outlet.health.stop()
        patience = self._limits.delivery_timeout_seconds if timeout_seconds is None else timeout_seconds
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(outlet.producer.end, patience))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _key(route: Route) -> Key:
    return route.cluster, tuple(sorted(route.settings.items()))
