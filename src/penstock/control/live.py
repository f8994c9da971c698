"""The live feed and the history, for the pages and ``penstock top``.

    GET /api/penstock/live[?once=1]                      a snapshot, then what has changed, once a second
    GET /api/penstock/history?of=total|KEY&minutes=15    the last hour at most, in steps
    GET /api/penstock/topics                             partitions, sizes, groups and their positions

A snapshot is made once a second for all who listen, and sooner when a resource changes; only while somebody does.
Who does not read fast enough gets a new snapshot instead of an ever longer queue. The feed also runs while Kafka is
away: its parts say so.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.contract.model import Agreement
from penstock.control.answers import JSONResponse
from penstock.control.attention import attention, parts_only
from penstock.control.controller import Controller
from penstock.control.ingress import path_of
from penstock.control.json_content import as_bytes
from penstock.control.kafka_state import TopicState
from penstock.control.kinds import EGRESS, INGRESS, key_of, uid_of
from penstock.control.lag import Lags
from penstock.control.live_rows import Row, document, view_of, without_rows
from penstock.control.telemetry import ALL
from penstock.control.watch import Watchers
from penstock.errors import Rejected, Unavailable

EVERY_SECONDS = 1.0
SOONEST_SECONDS = 0.2  # after the last one, however much changes
LONGEST_QUEUE = 5
LONGEST_MINUTES = 60.0
ROWS = ("ingresses", "subscriptions")

Handler = Callable[[Request], Awaitable[Response]]


def snapshot(controller: Controller) -> Row:
    """Everything that is known now."""
    now, sight = time.time(), controller.observer.sight
    if not controller.is_ready:
        found = without_rows(sight, now)
        return {**found, "attention": parts_only(found)}
    view = view_of(controller.world, sight, now)
    found = document(view)
    return {**found, "attention": attention(view, found)}


def changes(before: Row, after: Row) -> Row:
    """The same shape, with the rows only that differ, and the keys of those that are gone."""
    found: Row = {**after, "gone": []}
    for name in ROWS:
        old = {row["key"]: row for row in before[name]}
        found[name] = [row for row in after[name] if row != old.pop(row["key"], None)]
        found["gone"] += old.keys() - {row["key"] for row in after[name]}
    return found


class Feed:
    """Server-sent events to everybody who listens. Lives on the server's event loop."""

    def __init__(self, make: Callable[[], Row]) -> None:
        self._make = make
        self._last: Row | None = None
        self._queues: set[asyncio.Queue[bytes | None]] = set()
        self._ticker: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """A resource has changed: nobody waits a second to see that something was paused."""
        self._woken.set()

    def close(self) -> None:
        """Ends all streams, so that the server can stop."""
        for queue in self._queues:
            _refill(queue, None)
        if self._ticker is not None:
            self._ticker.cancel()

    async def stream(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        if self._last is None or not self._queues:
            self._last = await run_in_threadpool(self._make)
        queue.put_nowait(_message("snapshot", self._last))
        self._queues.add(queue)
        if self._ticker is None or self._ticker.done():
            self._ticker = asyncio.create_task(self._tick())
        try:
            while True:
                try:
                    message = await asyncio.wait_for(queue.get(), EVERY_SECONDS)
                except TimeoutError:
                    message = b": still here\n\n"
                if message is None:
                    return
                yield message
        finally:
            self._queues.discard(queue)

    async def _tick(self) -> None:
        while self._queues:
            await asyncio.sleep(SOONEST_SECONDS)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), EVERY_SECONDS - SOONEST_SECONDS)
            self._woken.clear()
            after, change = await run_in_threadpool(self._next, self._last)
            self._last = after
            for queue in self._queues:
                if queue.qsize() >= LONGEST_QUEUE:
                    _refill(queue, _message("snapshot", after))
                else:
                    queue.put_nowait(change)

    def _next(self, before: Row | None) -> tuple[Row, bytes]:
        after = self._make()
        return after, _message("change", changes(before, after)) if before else _message("snapshot", after)


def _refill(queue: "asyncio.Queue[bytes | None]", message: bytes | None) -> None:
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(message)


def _message(event: str, value: Row) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), as_bytes(value))


def routes(controller: Controller, watchers: Watchers) -> list[Route]:
    feed = Feed(lambda: snapshot(controller))
    watchers.on_close(feed.close)
    watchers.on_any_change(feed.wake)
    return [
        Route("/api/penstock/live", _live(controller, feed)),
        Route("/api/penstock/history", _history(controller)),
        Route("/api/penstock/topics", _topics(controller)),
    ]


def _live(controller: Controller, feed: Feed) -> Handler:
    async def live(request: Request) -> Response:
        if request.query_params.get("once", "0").lower() in ("1", "true"):
            await run_in_threadpool(controller.observer.fresh)
            return JSONResponse(await run_in_threadpool(snapshot, controller))
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(feed.stream(), media_type="text/event-stream", headers=headers)

    return live


def _history(controller: Controller) -> Handler:
    async def history(request: Request) -> Response:
        name = _name_of(controller, request.query_params.get("of", "total"))
        minutes = _minutes(request.query_params.get("minutes", "15"))
        found = await run_in_threadpool(controller.world.counts.history, name, time.time(), minutes)
        return JSONResponse(found)

    return history


def _name_of(controller: Controller, of: str) -> str:
    """Under which the history of a resource is kept."""
    if of == "total":
        return ALL
    kind, _, rest = of.partition("/")
    namespace, _, name = rest.partition("/")
    found = controller.store.get(kind, namespace, name)
    if found is not None and kind in {each.name for each in EGRESS}:
        return uid_of(found)
    if found is not None and kind in {each.name for each in INGRESS}:
        return path_of(found)
    raise Rejected(f"there is no history of {of!r}", hint="total, or a key such as Trigger/default/billing")


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes <= LONGEST_MINUTES:
        raise Rejected(f"minutes is {text!r}; it must be a number up to {LONGEST_MINUTES:g}", hint="minutes=15")
    return minutes


def _topics(controller: Controller) -> Handler:
    async def topics(_request: Request) -> Response:
        world = controller.world
        sight = await run_in_threadpool(controller.observer.fresh)
        if sight.kafka.problem:
            raise Unavailable(sight.kafka.problem, hint="is Kafka running? `penstock status` shows all parts")
        agreements = await run_in_threadpool(world.contract.agreements)
        keys = {key_of(each) for each in world.store.list()}
        known = {key: agreed for key, agreed in agreements.items() if key in keys}
        return JSONResponse([_topic(state, known, sight.lags) for state in sight.kafka.topics])

    return topics


def _topic(state: TopicState, agreements: dict[str, Agreement], lags: Lags) -> dict[str, Any]:
    groups = [
        {
            "group": each.group,
            "subscription": key,
            "positions": [
                {"partition": lane.partition, "position": lane.position, "end": lane.end, "lag": lane.lag}
                for lane in lags.get(key, [])
                if lane.place == state.place
            ],
        }
        for key, agreed in sorted(agreements.items())
        for each in agreed.subscriptions
        if each.place == state.place
    ]
    partitions = [
        {
            "partition": each.partition,
            "begin": state.offsets.get(each.partition, (None, None))[0],
            "end": state.offsets.get(each.partition, (None, None))[1],
            "leader": each.leader if each.leader >= 0 else None,
            "replicas": list(each.replicas),
            "in_sync": list(each.in_sync),
        }
        for each in state.partitions
    ]
    return {
        "topic": state.topic,
        "place": state.place,
        "partitions": partitions,
        "retention_ms": state.retention_ms,
        "bytes": state.bytes,
        "groups": groups,
    }
