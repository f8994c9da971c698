"""Where ingress addresses lead, kept current from the contract topic.

Comes in: contract records, on the table's thread. Goes out: a route for a path, or for a host, on the event loop's.
"""

import logging
from collections.abc import Mapping, Sequence

from penstock.contract.model import CONTRACT_TOPIC, Route, decode_agreement
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import Table

logger = logging.getLogger("penstock.receiver")


class Routes:
    """The routes of all resources, by path and by host."""

    def __init__(self, connection: KafkaConnection) -> None:
        # Both are replaced whole, never changed: readers need no lock.
        self.by_path: dict[bytes, Route] = {}
        self.by_host: dict[bytes, Route] = {}
        self._by_key: dict[str, tuple[Route, ...]] = {}
        self._table = Table(connection, CONTRACT_TOPIC, self._changed)

    def start(self) -> None:
        self._table.start()

    def stop(self) -> None:
        self._table.stop()

    @property
    def all(self) -> list[Route]:
        return [*self.by_path.values(), *self.by_host.values()]

    @property
    def kinds(self) -> dict[str, str]:
        """Of the resources, by the path of their address."""
        return {route.path: key.partition("/")[0] for key, routes in list(self._by_key.items()) for route in routes}

    @property
    def are_current(self) -> bool:
        return self._table.is_current

    def of_host(self, header: bytes) -> Route | None:
        """Where a Host header leads, whatever the path."""
        return self.by_host.get(host_name(header))

    def _changed(self, key: str, value: bytes | None) -> None:
        try:
            routes = () if value is None else decode_agreement(value).routes
        except ValueError as error:  # msgspec raises several kinds
            logger.error(
                "the contract's record of %s cannot be read, so its addresses stay as they are: %s", key, error
            )
            return
        before = self._by_key.pop(key, ())
        if routes:
            self._by_key[key] = routes
        if routes != before:
            self.by_path, self.by_host = addresses(self._by_key)
            logger.info("%d addresses are known after a change of %s", len(self.by_path), key)


def addresses(by_key: Mapping[str, Sequence[Route]]) -> tuple[dict[bytes, Route], dict[bytes, Route]]:
    """The routes by path and by host. Of two resources with the same address the first one by its key has it, in
    every receiver and whichever came first; when it goes, the other one gets it."""
    by_path: dict[bytes, Route] = {}
    by_host: dict[bytes, Route] = {}
    for key in sorted(by_key):
        for route in by_key[key]:
            if route.path:
                by_path.setdefault(route.path.encode(), route)
            for host in route.hosts:
                by_host.setdefault(host.encode(), route)
    return by_path, by_host


def host_name(header: bytes) -> bytes:
    """What a Host header names: in lower case, without its port and without the dot that ends a full name."""
    return header.partition(b":")[0].lower().removesuffix(b".")
