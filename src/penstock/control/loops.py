"""Do the events of a subscription come back to it? Pure: contract values in, the way round out.

    topic ──subscription──▶ address ──route──▶ topic ──subscription──▶ … ──▶ the first topic

An event that goes round once unchanged goes round for ever. Where every subscription on the way takes everything, or
there is only one, that is certain, and it is refused; where filters stand between it may be meant, and is only said.
Replies and dead letters are other events, with an end of their own (``knativebrokerttl``, one attempt at a sink).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.contract.model import Agreement, Cluster, Route, Subscription

Place = tuple[Cluster, str]  # a topic and where it is


@dataclass(frozen=True)
class Loop:
    way: tuple[str, ...]  # kind and name of each subscription on it
    is_endless: bool

    @property
    def shown(self) -> str:
        return " → ".join((*self.way, self.way[0]))


class Map:
    """Where addresses lead, and who reads what."""

    def __init__(self, agreements: Iterable[Agreement], ingress_url: str) -> None:
        self._ingress_url = ingress_url
        self._by_path: dict[str, Route] = {}
        self._by_host: dict[str, Route] = {}
        self._readers: dict[Place, list[Subscription]] = {}
        for agreement in agreements:
            for route in agreement.routes:
                self._by_path[route.path] = route
                self._by_host |= dict.fromkeys(route.hosts, route)
            for each in agreement.subscriptions:
                self._readers.setdefault(_place(each), []).append(each)

    def behind(self, url: str) -> Place | None:
        """The topic that events get into which are sent to this address; None: it is not one of ours."""
        parts = urlsplit(url)
        route = self._by_host.get((parts.hostname or "").lower())
        if f"{parts.scheme}://{parts.netloc}" == self._ingress_url:
            route = self._by_path.get(parts.path.removesuffix("/"))
        return (_where(route.cluster), route.topic) if route is not None else None

    def loop(self, start: Subscription) -> Loop | None:
        """The shortest way from a subscription back to the topic that it reads."""
        home = _place(start)
        came_by: dict[Place, tuple[Subscription, ...]] = {}
        first = self.behind(start.subscriber_url)
        if first is None:
            return None
        came_by[first] = (start,)
        waiting = [first]
        while waiting:
            at = waiting.pop(0)
            if at == home:
                return _loop_of(came_by[at])
            for each in self._readers.get(at, ()):
                there = self.behind(each.subscriber_url)
                if there is not None and there not in came_by and each.uid != start.uid:
                    came_by[there] = (*came_by[at], each)
                    waiting.append(there)
        return None


def _loop_of(way: tuple[Subscription, ...]) -> Loop:
    names = tuple(f"{each.kind.lower()} {each.namespace}/{each.name}" for each in way)
    return Loop(names, is_endless=len(way) == 1 or not any(each.filters for each in way))


def _place(subscription: Subscription) -> Place:
    return _where(subscription.cluster), subscription.topic


def _where(cluster: Cluster) -> Cluster:
    """The same Kafka whatever the credentials."""
    return Cluster(cluster.bootstrap_servers)
