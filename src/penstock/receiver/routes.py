"""Where ingress addresses lead, kept current from the contract topic.

Comes in: contract records, on the table's thread. Goes out: a route for a path, on the event loop's.
"""

import logging

from penstock.contract.model import CONTRACT_TOPIC, Route, decode_agreement
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import Table

logger = logging.getLogger("penstock.receiver")


class Routes:
    """The routes of all resources, by path."""

    def __init__(self, connection: KafkaConnection) -> None:
        self.by_path: dict[bytes, Route] = {}  # replaced whole, never changed: readers need no lock
        self._by_key: dict[str, tuple[Route, ...]] = {}
        self._table = Table(connection, CONTRACT_TOPIC, self._changed)

    def start(self) -> None:
        self._table.start()

    def stop(self) -> None:
        self._table.stop()

    @property
    def all(self) -> list[Route]:
        return list(self.by_path.values())

    @property
    def are_current(self) -> bool:
        return self._table.is_current

    def _changed(self, key: str, value: bytes | None) -> None:
        before = self._by_key.pop(key, ())
        if value is not None:
            routes = decode_agreement(value).routes
            if routes:
                self._by_key[key] = routes
        if self._by_key.get(key, ()) != before:
            self.by_path = {route.path.encode(): route for routes in self._by_key.values() for route in routes}
            logger.info("%d addresses are known after a change of %s", len(self.by_path), key)
