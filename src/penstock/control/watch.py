"""Watching: every change of a resource to everybody who asked for its kind, as JSON lines.

The store reports a change on the thread that made it. Each watcher has a queue of lines on the server's event loop;
watchers of the same kind share the lines. A watcher that does not read is cut off, so that no queue grows for ever.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from penstock.control.json_content import as_bytes
from penstock.control.kinds import Resource, namespace_of
from penstock.control.store import Store

LONGEST_QUEUE = 10_000
QUEUE_BYTES = 16 * 1024 * 1024

Change = tuple[str, Resource]


@dataclass(eq=False)
class Watcher:
    """What it asked for, and the lines that wait for it. Lives on the event loop."""

    kind: str
    namespace: str | None
    _lines: deque[bytes] = field(default_factory=deque)
    _bytes: int = 0
    _is_ended: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def wants(self, resource: Resource) -> bool:
        return resource["kind"] == self.kind and self.namespace in (None, namespace_of(resource))

    def put(self, line: bytes) -> None:
        """Ends the watcher if it is too slow."""
        if self._is_ended:
            return
        self._lines.append(line)
        self._bytes += len(line)
        if len(self._lines) > LONGEST_QUEUE or self._bytes > QUEUE_BYTES:
            self.end()
        self._news.set()

    def end(self) -> None:
        self._lines.clear()
        self._is_ended = True
        self._news.set()

    async def take(self) -> bytes | None:
        """The next line; None at the end."""
        while not self._lines and not self._is_ended:
            self._news.clear()
            await self._news.wait()
        if self._is_ended:
            return None
        line = self._lines.popleft()
        self._bytes -= len(line)
        return line


class Watchers:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watchers: set[Watcher] = set()
        self._others: list[Callable[[], None]] = []
        self._wakes: list[Callable[[], None]] = []

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        """Ends all streams, so that the server can stop."""
        for watcher in self._watchers:
            watcher.end()
        for close in self._others:
            close()

    def on_close(self, close: Callable[[], None]) -> None:
        """For streams of others, which end at the same time; called on the event loop."""
        self._others.append(close)

    def on_any_change(self, wake: Callable[[], None]) -> None:
        """For who looks for itself what has changed; called on the event loop."""
        self._wakes.append(wake)

    def on_change(self, event: str, resource: Resource) -> None:
        """From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._spread, (event, resource))

    def _spread(self, change: Change) -> None:
        for wake in self._wakes:
            wake()
        wanting = [watcher for watcher in self._watchers if watcher.wants(change[1])]
        if wanting:
            line = _line(change)
            for watcher in wanting:
                watcher.put(line)

    async def stream(self, kind: str, namespace: str | None, store: Store) -> AsyncIterator[bytes]:
        """First what there is, as ADDED, then every change. What happens in between may come twice, never not."""
        watcher = Watcher(kind, namespace)
        self._watchers.add(watcher)
        try:
            for each in store.list(kind, namespace):
                yield _line(("ADDED", each))
            while (line := await watcher.take()) is not None:
                yield line
        finally:
            self._watchers.discard(watcher)


def _line(change: Change) -> bytes:
    return as_bytes({"type": change[0], "object": change[1]}) + b"\n"
