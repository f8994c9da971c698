"""The topics that the contract names, by their place. Searches know only these, so no question chooses a server.

Written by the dispatcher as it follows the contract, read by ``search`` in other threads.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.contract.model import Agreement, Cluster, place_of
from penstock.errors import Rejected


class Place(NamedTuple):
    topic: str
    cluster: Cluster


class Places:
    def __init__(self) -> None:
        self._by_resource: dict[str, dict[str, Place]] = {}

    def take(self, key: str, agreement: Agreement | None) -> None:
        """The present contract record of a resource; None: it was deleted."""
        if agreement is None:
            self._by_resource.pop(key, None)
            return
        named = [Place(route.topic, route.cluster) for route in agreement.routes]
        named += [Place(each.topic, each.cluster) for each in agreement.subscriptions]
        self._by_resource[key] = {place_of(*each): each for each in named}

    def find(self, names: Sequence[str]) -> list[Place]:
        """Those that are known. Rejected if none is known: some may have been deleted meanwhile."""
        known: dict[str, Place] = {}
        for each in list(self._by_resource.values()):
            known |= each
        found = [known[name] for name in dict.fromkeys(names) if name in known]
        if not found:
            named = ", ".join(names) or "none"
            raise Rejected(f"the contract knows no such topic: {named}", hint="`penstock get brokers,kafkachannels`")
        return found
