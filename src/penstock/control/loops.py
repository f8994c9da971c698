"""Do the events of a subscription come back to it? Pure: contract values in, the way round out.

    topic ──subscription──▶ address ──route──▶ topic ──subscription──▶ … ──▶ the first topic

An event that goes round once unchanged goes round for ever. Where every subscription on the way takes everything, or
there is only one, that is certain, and it is refused; where filters stand between it may be meant, and is only said.
Replies and dead letters are not on the map: they have an end of their own (``knativebrokerttl``). Only a dead letter
sink that leads straight back to the topic of its subscription is found here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from penstock.access.addresses import literal_address
from penstock.contract.model import Agreement, Cluster, Route, Subscription

PORTS = {"http": 80, "https": 443}
THIS_HOST = "this host"
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
        self._ingress = _origin(ingress_url)
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
        route = self._by_host.get((parts.hostname or "").removesuffix("."))
        if _origin(url) == self._ingress:
            route = self._by_path.get(parts.path.removesuffix("/"))
        return (_where(route.cluster), route.topic) if route is not None else None

    def returns_dead_letters(self, subscription: Subscription) -> bool:
        """Whether the dead letter sink leads to the topic that the subscription reads."""
        url = subscription.delivery.dead_letter_url
        return bool(url) and self.behind(url or "") == _place(subscription)

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


def is_same_address(one: str, other: str) -> bool:
    """Whether both lead to the same resource. Query, a slash at the end and the name of this host do not count."""
    paths = (urlsplit(each).path.removesuffix("/") for each in (one, other))
    return _origin(one) == _origin(other) and len(set(paths)) == 1


def _origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port. All addresses and names of loopback are one host."""
    parts = urlsplit(url)
    try:
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        port = None
    host = (parts.hostname or "").removesuffix(".")
    return parts.scheme, THIS_HOST if _is_this_host(host) else host, port


def _is_this_host(host: str) -> bool:
    literal = literal_address(host)
    if not literal:
        return host == "localhost" or host.endswith(".localhost")
    address = ip_address(literal)
    address = (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
    return address.is_loopback or address.is_unspecified  # a connection to 0.0.0.0 leads to this host too


def _loop_of(way: tuple[Subscription, ...]) -> Loop:
    names = tuple(f"{each.kind.lower()} {each.namespace}/{each.name}" for each in way)
    return Loop(names, is_endless=len(way) == 1 or not any(each.filters for each in way))


def _place(subscription: Subscription) -> Place:
    return _where(subscription.cluster), subscription.topic


def _where(cluster: Cluster) -> Cluster:
    """The same Kafka whatever the credentials."""
    return Cluster(cluster.bootstrap_servers)
