"""What all connections of a process share: settings, the path, and their common limits. Made by ``serve.py``."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.receiver import answers
from penstock.receiver.accept import Ingress
from penstock.receiver.answers import Answer
from penstock.receiver.inflight import Inflight
from penstock.receiver.settings import ReceiverSettings
from penstock.receiver.unfinished import Unfinished

if TYPE_CHECKING:
    from penstock.receiver.connection import Connection


@dataclass
class Site:
    settings: ReceiverSettings
    ingress: Ingress
    inflight: Inflight
    connections: "set[Connection]" = field(default_factory=set)
    is_draining: bool = False
    unfinished: Unfinished = field(init=False)
    _by_address: Counter[str] = field(default_factory=Counter)  # connections; counted only if there is a limit

    def __post_init__(self) -> None:
        self.unfinished = Unfinished(self.settings.unfinished_bytes)

    def enter(self, connection: "Connection", address: str) -> Answer | None:
        """Notes a new connection from this address (empty: unknown). Returns the refusal if it is one too many."""
        settings = self.settings
        self.connections.add(connection)
        if settings.connections_per_address:
            self._by_address[address] += 1
            if address and self._by_address[address] > settings.connections_per_address:
                return answers.TOO_MANY_OF_ADDRESS
        return answers.TOO_MANY_CONNECTIONS if len(self.connections) > settings.connection_limit else None

    def leave(self, connection: "Connection", address: str) -> None:
        self.connections.discard(connection)
        if self._by_address:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
