"""Limits what all connections of a port hold together, and closes connections beyond the limits.

A connection is *idle* (no byte of a request has come), *unfinished* (a request is incomplete) or *busy* (a request
is being answered). Only the first two are closed to make room: a busy one has a caller that waits for an answer.
Everything happens on the event loop of the server, which calls ``sweep`` several times a second.
"""

from collections import Counter
from typing import Protocol

from penstock.http.heads import Refused
from penstock.http.limits import Limits


class Connection(Protocol):
    """What the guard needs of ``protocol.GuardedConnection``."""

    address: str

    def abort(self) -> None: ...

    def sweep(self, now: float) -> None: ...

    def unread_bytes(self) -> int: ...


class Guard:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._connections: set[Connection] = set()
        self._addresses: Counter[str] = Counter()
        # Both in the order of time: the first one has waited longest.
        self._idle: dict[Connection, float] = {}
        self._unfinished: dict[Connection, float] = {}
        self._held: dict[Connection, int] = {}
        self._held_bytes = 0

    # -- connections

    def opened(self, connection: Connection, now: float) -> None:
        """Raises Refused when there is no room for it and nothing that may be closed instead."""
        self._connections.add(connection)
        self._addresses[connection.address] += 1
        most = self.limits.connections_per_address
        if most and self._addresses[connection.address] > most:
            raise Refused(503, f"there are {most} connections from this address")
        while len(self._connections) > self.limits.connections:
            oldest = self._oldest()
            if oldest is None:
                raise Refused(503, f"there are {self.limits.connections} connections")
            self._drop(oldest)
        self._idle[connection] = now

    def closed(self, connection: Connection) -> None:
        self.whole(connection)
        self._idle.pop(connection, None)
        if connection in self._connections:
            self._connections.discard(connection)
            self._addresses[connection.address] -= 1
            if not self._addresses[connection.address]:
                del self._addresses[connection.address]

    # -- requests

    def began(self, connection: Connection, now: float) -> None:
        """The first byte of a request has come."""
        self._idle.pop(connection, None)
        self._unfinished.setdefault(connection, now)
        self._held.setdefault(connection, 0)

    def grew(self, connection: Connection, count: int) -> None:
        """More of a request has come."""
        self._held[connection] += count
        self._held_bytes += count
        while self._held_bytes > self.limits.unfinished_bytes and len(self._unfinished) > 1:
            self._drop(next(iter(self._unfinished)))

    def whole(self, connection: Connection) -> None:
        """The request is complete, or will never be."""
        self._unfinished.pop(connection, None)
        self._held_bytes -= self._held.pop(connection, 0)

    def idle(self, connection: Connection, now: float) -> None:
        """Everything is answered."""
        if connection in self._connections:
            self._idle[connection] = now

    # -- time

    def sweep(self, now: float) -> None:
        for connection in list(self._connections):
            connection.sweep(now)
        unread = {each: count for each in self._connections if (count := each.unread_bytes())}
        total = sum(unread.values())
        while total > self.limits.unread_bytes:
            largest = max(unread, key=unread.__getitem__)
            total -= unread.pop(largest)
            self._drop(largest)

    def _oldest(self) -> Connection | None:
        """The one that has waited longest for its caller."""
        first = [next(iter(each.items())) for each in (self._idle, self._unfinished) if each]
        return min(first, key=lambda item: item[1])[0] if first else None

    def _drop(self, connection: Connection) -> None:
        self.closed(connection)
        connection.abort()
