"""Events as they come: a stream of rows for people, at most so many a second, with all others counted.

    GET /api/penstock/tail?of=KEY[&type=order.*][&source=S][&filter=CESQL]     server-sent events

``begun`` once it follows the topic, then ``event`` (a row with attributes and the first of its data) and ``skipped``
with the number of events that fit and are not shown: rows and skips add up. A filter is the dispatcher's to judge, so
there is no second evaluator; events that it had no time for are counted as skipped too.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.contract.questions import Verdicts
from penstock.control import dispatcher
from penstock.control.controller import Controller
from penstock.control.events import Line, Place, Stored, json_value, places_of
from penstock.control.json_content import as_bytes
from penstock.control.store import Invalid
from penstock.control.world import World
from penstock.errors import PenstockError, Rejected, Unavailable
from penstock.event.globs import Glob
from penstock.event.json_form import encode_event
from penstock.event.kafka import decode_record
from penstock.filter.check import problems
from penstock.kafka import topics
from penstock.kafka.latest import Found
from penstock.kafka.records import Following

logger = logging.getLogger("penstock.control")

ROWS_PER_SECOND = 50
MOST_JUDGED = 1000  # a second
JUDGED_BYTES = 4 * 1024 * 1024  # of events in a question to the dispatcher, before they become JSON
LONGEST_DATA = 2048
LONGEST_VALUE = 1024  # of an attribute, in characters
MOST_ATTRIBUTES = 50
QUEUE_BYTES = 1024 * 1024  # that wait for one reader
WAIT_SECONDS = 0.2
STILL_HERE = b": still here\n\n"


@dataclass(frozen=True)
class Wanted:
    type: Glob | None = None
    source: str = ""
    filters: tuple[dict[str, Any], ...] = ()

    def __call__(self, event: Stored) -> bool:
        attributes = event.event.attributes
        if self.type is not None and not self.type.fits(attributes["type"]):
            return False
        return not self.source or attributes["source"] == self.source


def wanted_of(query: Mapping[str, str]) -> Wanted:
    pattern = query.get("type") or ""
    filters = ({"cesql": query["filter"]},) if query.get("filter") else ()
    wrong = problems(filters, "filter") if filters else ()
    if wrong:
        raise Invalid("the filter", wrong)
    return Wanted(Glob(pattern) if pattern else None, query.get("source") or "", filters)


@dataclass
class Second:
    """What may still be shown in this second, and what was not."""

    began: float = field(default_factory=time.monotonic)
    shown: int = 0
    judged: int = 0
    skipped: int = 0


class Tail:
    """A thread that follows a topic for one reader. ``tell`` gets messages; it must not wait."""

    def __init__(self, world: World, place: Place, wanted: Wanted, tell: Callable[[str, Line], bool]) -> None:
        self._world = world
        self._place = place
        self._wanted = wanted
        self._tell = tell
        self._stopping = threading.Event()
        self._second = Second()

    def start(self) -> "Tail":
        """Follows from this moment on. Raises when the topic cannot be read."""
        self._world.clusters.require(self._place.cluster)
        state = topics.describe(self._world.admin_of(self._place.cluster), [self._place.topic])
        if self._place.topic not in state:
            raise Unavailable(f"topic {self._place.topic} does not exist", hint="`penstock get brokers` tells more")
        connection = self._world.clusters.connection(self._place.cluster)
        self._following = Following(connection, self._place.topic, state[self._place.topic].partitions)
        threading.Thread(target=self._run, name="tail", daemon=True).start()
        return self

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._take(self._following.take(WAIT_SECONDS))
                if time.monotonic() - self._second.began >= 1.0:
                    self._next_second()
        except PenstockError as error:
            self._tell("problem", {"error": error.message, "hint": error.hint})
        except Exception as error:
            logger.exception("a tail of %s ended", self._place.place)
            self._tell(
                "problem",
                {"error": f"the tail ended: {error}", "hint": "`penstock logs controller` shows the reason"},
            )
        finally:
            self._following.close()

    def _take(self, found: Sequence[Found]) -> None:
        events = []
        for each in found:
            try:
                event = Stored(self._place, each, decode_record(each.value, each.headers))
            except Rejected:
                continue
            if self._wanted(event):
                events.append(event)
        if self._wanted.filters and events:
            events = self._judged(events)
        for event in events:
            is_room = self._second.shown < ROWS_PER_SECOND
            if is_room and self._tell("event", _shown(event)):
                self._second.shown += 1
            else:
                self._second.skipped += 1

    def _judged(self, events: list[Stored]) -> list[Stored]:
        room = min(max(0, MOST_JUDGED - self._second.judged), _fitting(events, JUDGED_BYTES))
        judged, others = events[:room], events[room:]
        self._second.judged += len(judged)
        self._second.skipped += len(others)
        if not judged:
            return []
        asked = Verdicts(
            filters=(self._wanted.filters,),
            events=tuple(msgspec.Raw(encode_event(each.event)) for each in judged),
            reasons=False,
        )
        verdicts = dispatcher.verdicts(self._world, asked)
        return [each for each, (verdict,) in zip(judged, verdicts, strict=True) if verdict["matched"]]

    def _next_second(self) -> None:
        if self._second.skipped and not self._tell("skipped", {"count": self._second.skipped}):
            self._second = Second(skipped=self._second.skipped)  # said as soon as there is room
            return
        self._second = Second()


def _fitting(events: list[Stored], most_bytes: int) -> int:
    """How many of them have room together, from the first one on."""
    sizes = accumulate(len(each.found.value or b"") for each in events)
    return sum(size <= most_bytes for size in sizes)


def _shown(event: Stored) -> Line:
    """A row with data and attributes, cut short. Only data that is shown whole is read as JSON."""
    data, attributes = event.event.data or b"", event.event.attributes
    is_short = len(data) <= LONGEST_DATA
    value = json_value(data) if is_short else None
    return {
        **_cut(event.row()),
        "place": event.place.place,
        "attributes": _cut(dict(islice(attributes.items(), MOST_ATTRIBUTES))),
        "data": data[:LONGEST_DATA].decode("utf-8", "replace") if value is None else value,
        "is_cut": not is_short,
    }


def _cut(values: Mapping[str, Any]) -> Line:
    """Shortens names and texts: those of a sender may be as long as a record."""
    return {
        name[:LONGEST_VALUE]: _short(value) if isinstance(value, str) else value for name, value in values.items()
    }


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


class Waiting:
    """Messages for one reader: the thread of its tail puts them, the event loop takes them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._lock = threading.Lock()
        self._bytes = 0

    def put(self, name: str, value: Line) -> bool:
        """False: the reader is slow, and there is no room. A problem, which comes last, always has room."""
        message = _message(name, value)
        with self._lock:
            is_full = self._queue.qsize() > 4 * ROWS_PER_SECOND or self._bytes + len(message) > QUEUE_BYTES
            if is_full and name != "problem":
                return False
            self._bytes += len(message)
        self._loop.call_soon_threadsafe(self._queue.put_nowait, message)
        return True

    async def take(self) -> bytes:
        message = await self._queue.get()
        with self._lock:
            self._bytes -= len(message)
        return message


async def streamed(world: World, place: Place, wanted: Wanted) -> AsyncGenerator[bytes, None]:
    """Begins when it is first asked for something. How many there are is limited by ``guard.seats``."""
    waiting = Waiting()
    tail = Tail(world, place, wanted, waiting.put)
    try:
        await run_in_threadpool(tail.start)
        yield _message("begun", {"of": place.of, "topic": place.topic})
        while True:
            try:
                yield await asyncio.wait_for(waiting.take(), 1.0)
            except TimeoutError:
                yield STILL_HERE
    finally:
        tail.stop()


def _message(name: str, value: Line) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), as_bytes(value))


def routes(controller: Controller) -> list[Route]:
    async def tail(request: Request) -> Response:
        world, query = controller.world, request.query_params
        (place, *others) = places_of(world, query.get("of") or "") if query.get("of") else (None,)
        if place is None:
            raise Rejected("say which topic", hint="?of=Broker/default/orders")
        if others:
            raise Rejected(f"{query['of']} reads {1 + len(others)} topics; tail follows one")
        stream = streamed(world, place, wanted_of(query))
        first = await anext(stream)  # what goes wrong at once has a status of its own

        async def messages() -> AsyncGenerator[bytes, None]:
            try:
                yield first
                async for message in stream:
                    yield message
            finally:
                await stream.aclose()

        headers = {"Cache-Control": "no-cache"}
        return StreamingResponse(messages(), media_type="text/event-stream", headers=headers)

    return [Route("/api/penstock/tail", tail)]
