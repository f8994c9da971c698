"""Watching: every change of a resource to everybody who asked, as JSON lines.

The store tells us of changes on whatever thread made them; each watcher has a queue on the server's event loop. A
watcher that does not read is cut off rather than fed from an ever longer queue.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from penstock.control.json_content import as_bytes
from penstock.control.kinds import Resource, namespace_of
from penstock.control.store import Store

LONGEST_QUEUE = 10_000

Change = tuple[str, Resource]


class Watchers:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: set[asyncio.Queue[Change | None]] = set()
        self._others: list[Callable[[], None]] = []
        self._wakes: list[Callable[[], None]] = []

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        """Ends all streams, so that the server can stop."""
        for queue in list(self._queues):
            _end(queue)
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
        for queue in list(self._queues):
            if queue.qsize() >= LONGEST_QUEUE:
                _end(queue)
            else:
                queue.put_nowait(change)

    async def stream(self, kind: str, namespace: str | None, store: Store) -> AsyncIterator[bytes]:
        """First what there is, as ADDED, then every change. What happens in between may come twice, never not."""
        queue: asyncio.Queue[Change | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            for each in store.list(kind, namespace):
                yield _line(("ADDED", each))
            while (change := await queue.get()) is not None:
                resource = change[1]
                if resource["kind"] == kind and namespace in (None, namespace_of(resource)):
                    yield _line(change)
        finally:
            self._queues.discard(queue)


def _end(queue: "asyncio.Queue[Change | None]") -> None:
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(None)


def _line(change: Change) -> bytes:
    return as_bytes({"type": change[0], "object": change[1]}) + b"\n"
