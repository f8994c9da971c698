"""What all connections of a process share: settings, the path, and their common limits. Made by ``serve.py``."""

from collections import Counter, deque
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING

from penstock.receiver import answers
from penstock.receiver.accept import Ingress
from penstock.receiver.answers import Answer
from penstock.receiver.inflight import Held, Inflight
from penstock.receiver.settings import ReceiverSettings

if TYPE_CHECKING:
    from penstock.receiver.connection import Connection
    from penstock.receiver.sending import Sender

AT_A_LOOK = 64  # candidates for closing that one pass over all connections collects


@dataclass
class Site:
    settings: ReceiverSettings
    ingress: Ingress
    inflight: Inflight
    connections: "set[Connection]" = field(default_factory=set)
    is_draining: bool = False
    unfinished: "Held[Connection]" = field(init=False)
    backlog: "Held[Sender]" = field(init=False)  # answers that are not read, and the requests behind them
    _may_give_way: "deque[tuple[float, Connection]]" = field(default_factory=deque)  # the oldest first
    _by_address: Counter[str] = field(default_factory=Counter)  # connections; counted only if there is a limit

    def __post_init__(self) -> None:
        self.unfinished = Held(self.settings.unfinished_bytes, lambda connection: connection.give_way())
        self.backlog = Held(self.settings.unread_bytes, lambda sender: sender.abort())

    def enter(self, connection: "Connection", address: str) -> Answer | None:
        """Notes a new connection from this address (empty: unknown). Returns the refusal if it is one too many."""
        settings = self.settings
        self.connections.add(connection)
        if settings.connections_per_address:
            self._by_address[address] += 1
            if address and self._by_address[address] > settings.connections_per_address:
                if len(self.connections) > settings.connection_limit:
                    connection.abort()  # there is not even room for it until its answer is read
                return answers.TOO_MANY_OF_ADDRESS
        if len(self.connections) <= settings.connection_limit or self._make_room(connection):
            return None
        return answers.TOO_MANY_CONNECTIONS

    def _make_room(self, newest: "Connection") -> bool:
        """Closes the connection that has waited longest for its sender, so that idle ones never keep others out."""
        for _ in range(2):
            while self._may_give_way:
                since, each = self._may_give_way.popleft()
                if each in self.connections and each.waits_since == since:
                    self.connections.discard(each)
                    each.abort()
                    return True
            waiting = ((at, id(each), each) for each in self.connections if (at := each.waits_since) is not None)
            oldest = nsmallest(AT_A_LOOK, (item for item in waiting if item[2] is not newest))
            self._may_give_way.extend((since, each) for since, _, each in oldest)
        return False

    def leave(self, connection: "Connection", address: str) -> None:
        self.connections.discard(connection)
        if self._by_address:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
