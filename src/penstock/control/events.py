"""Events in topics, for people who look for them.

    POST /api/penstock/search                                  {"of", "id", "source", "type", "subject", "since", …}
    GET  /api/penstock/event?place=…&partition=…&offset=…      one event with all that its record has

A search is the dispatcher's (``POST /search``): its lines are passed on as they come, and whoever goes away ends it.
"""

import base64
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.contract.model import ADDRESSEE, Cluster, place_of
from penstock.contract.moments import iso, received_us
from penstock.contract.questions import MOST_ROWS, Search
from penstock.contract.telemetry import RECEIVED
from penstock.control import dispatcher, times
from penstock.control.answers import JSONResponse, json_object
from penstock.control.controller import Controller
from penstock.control.ingress import topic_of
from penstock.control.json_content import as_bytes, parsed
from penstock.control.kinds import INGRESS, key_of
from penstock.control.world import World
from penstock.errors import PenstockError, Rejected
from penstock.event.kafka import decode_record
from penstock.event.model import Event
from penstock.kafka import topics
from penstock.kafka.latest import Found
from penstock.kafka.records import read_one

LINES = "application/x-ndjson"
TEXTS = ("id", "source", "type", "subject", "text")
_COUNT = re.compile("[0-9]{1,4}")
RECORD = ("topic", "place", "partition", "offset", "received", "addressee")
ROW = (*RECORD, "id", "source", "type", "subject", "time", "datacontenttype", "size")

Line = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """A topic, and the resource by which people know it."""

    of: str  # its key
    topic: str
    cluster: Cluster

    @property
    def place(self) -> str:
        return place_of(self.topic, self.cluster)


def places(world: World) -> dict[str, Place]:
    """All topics that hold events, each by its place."""
    found: dict[str, Place] = {}
    for kind in INGRESS:
        for resource in world.store.list(kind.name):
            topic = topic_of(resource)
            if topic is not None:
                place = Place(key_of(resource), topic.name, topic.cluster)
                found.setdefault(place.place, place)
    for key in world.contract.keys():  # noqa: SIM118 - it is no mapping
        for each in world.contract.subscriptions(key):
            found.setdefault(each.place, Place(key, each.topic, each.cluster))
    return found


def places_of(world: World, of: str, namespace: str = "") -> list[Place]:
    """Those that a key means: of a broker its own, of a trigger or a source those that it reads; without, all."""
    known = places(world)
    if not of:
        return [each for each in known.values() if not namespace or each.of.split("/")[1] == namespace]
    own = [each for each in known.values() if each.of == of]
    found = own or [known[each.place] for each in world.contract.subscriptions(of) if each.place in known]
    if not found:
        hint = "the key of a broker, channel or sink that is ready, such as Broker/default/orders"
        raise Rejected(f"{of} has no events", hint=hint)
    return found


def question(world: World, asked: Mapping[str, Any]) -> Search:
    """From a body or a query."""
    texts = {name: asked.get(name) or "" for name in TEXTS}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise Rejected(f"{name} must be text")
    latest = asked.get("latest") or 50
    if isinstance(latest, bool) or not _COUNT.fullmatch(str(latest)) or not 1 <= int(latest) <= MOST_ROWS:
        raise Rejected(f"latest is {str(latest)[:40]}; it is a number from 1 to {MOST_ROWS}")
    searched = places_of(world, str(asked.get("of") or ""), str(asked.get("namespace") or ""))
    return Search(
        topics=tuple(each.place for each in searched),
        since=_time(asked, "since"),
        until=_time(asked, "until"),
        latest=int(latest),
        whole=bool(texts["id"]) if asked.get("whole") is None else bool(asked["whole"]),
        **texts,
    )


def _time(asked: Mapping[str, Any], name: str) -> float:
    value = asked.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return times.epoch_of(str(value) if value else None)
    except ValueError as error:
        raise Rejected(f"{name} is {value!r}: {error}", hint="a time such as 2026-11-15T18:00:00Z") from None


async def found_lines(world: World, asked: Search) -> AsyncGenerator[Line, None]:
    """The lines of a search, with the names that people know."""
    if not asked.topics:
        yield {"done": {"scanned": 0, "matched": 0, "seconds": 0.0, "oldest": None, "more": False, "problems": []}}
        return
    known = places(world)
    async with aclosing(dispatcher.search(world, asked)) as lines:
        async for line in lines:
            if "event" in line:
                row = line["event"]
                at = known.get(row["place"])
                yield {"event": {name: row.get(name) for name in ROW} | {"of": at.of if at else None}}
            else:
                yield line


async def as_lines(lines: AsyncGenerator[Line, None]) -> AsyncGenerator[bytes, None]:
    """For the wire; what goes wrong on the way is the last line."""
    try:
        async for line in lines:
            yield as_bytes(line) + b"\n"
    except PenstockError as error:
        yield as_bytes({"error": error.message, "hint": error.hint}) + b"\n"
    finally:
        await lines.aclose()


async def streamed(lines: AsyncGenerator[Line, None]) -> Response:
    """Waits for the first line, so that what goes wrong at once still has a status of its own."""
    first = await anext(lines, None)

    async def all_lines() -> AsyncGenerator[Line, None]:
        try:
            if first is not None:
                yield first
            async for line in lines:
                yield line
        finally:
            await lines.aclose()

    return StreamingResponse(as_lines(all_lines()), media_type=LINES)


# ── one event ─────────────────────────────────────────────────────────────────────────────────────────


def received(found: Found) -> float:
    """Seconds since the epoch: as the receiver noted it, or as Kafka has it."""
    return received_us(dict(found.headers).get(RECEIVED), found.time_ms) / 1e6


@dataclass(frozen=True)
class Stored:
    """An event and its record."""

    place: Place
    found: Found
    event: Event

    @property
    def addressee(self) -> str:
        """The uid of the only subscription that shall have it; empty: all of them."""
        return (dict(self.found.headers).get(ADDRESSEE) or b"").decode(errors="replace")

    @property
    def received(self) -> float:
        """When the receiver had it (seconds since the epoch); else when Kafka had it."""
        return received(self.found)

    def row(self) -> Line:
        known = {name: self.event.attributes.get(name) for name in ("id", "source", "type", "subject", "time")}
        return {
            "of": self.place.of,
            "topic": self.place.topic,
            "place": self.place.place,
            "partition": self.found.partition,
            "offset": self.found.offset,
            "received": iso(self.received),
            "addressee": self.addressee or None,
            **known,
            "datacontenttype": self.event.content_type,
            "size": len(self.event.data or b""),
        }


def stored(world: World, place: str, partition: int, offset: int) -> Stored:
    """Raises Rejected when there is no such event, or not any more."""
    at = places(world).get(place)
    if at is None:
        raise Rejected(f"there is no topic {place!r} that holds events", hint="`penstock get brokers,kafkachannels`")
    world.clusters.require(at.cluster)
    found = read_one(world.clusters.connection(at.cluster), at.topic, partition, offset)
    if found is None:
        state = topics.describe(world.admin_of(at.cluster), [at.topic]).get(at.topic)
        kept = ""
        if state is not None and 0 <= partition < state.partitions:
            first = topics.earliest_offsets(world.admin_of(at.cluster), at.topic, state.partitions)[partition]
            kept = f"; what is kept begins at offset {first}"
        raise Rejected(f"there is no record {offset} in partition {partition} of {place}{kept}")
    return Stored(at, found, decode_record(found.value, found.headers))


def json_value(data: bytes | None) -> Any:
    """None for data that is not JSON, or cannot be written as JSON."""
    try:
        return None if data is None else parsed(data)
    except ValueError:
        return None


def whole_event(found: Stored) -> Line:
    """The row, and everything else. Data without a JSON value is there only in base64."""
    data = found.event.data
    return {
        **found.row(),
        "attributes": found.event.attributes,
        "data": json_value(data),
        "data_base64": None if data is None else base64.b64encode(data).decode(),
        "headers": [[name, (raw or b"").decode("utf-8", "replace")] for name, raw in found.found.headers],
    }


def where(query: Mapping[str, str]) -> tuple[str, int, int]:
    try:
        place, partition, offset = query["place"], int(query["partition"]), int(query["offset"])
    except (KeyError, ValueError):
        partition = offset = -1
    if not (0 <= partition < 2**31 and 0 <= offset < 2**63):
        raise Rejected("place, partition and offset name an event", hint="?place=TOPIC&partition=0&offset=42")
    return place, partition, offset


def routes(controller: Controller) -> list[Route]:
    async def search(request: Request) -> Response:
        asked = await json_object(request)
        return await streamed(found_lines(controller.world, question(controller.world, asked)))

    async def event(request: Request) -> Response:
        found = await run_in_threadpool(stored, controller.world, *where(request.query_params))
        return JSONResponse(whole_event(found))

    return [
        Route("/api/penstock/search", search, methods=["POST"]),
        Route("/api/penstock/event", event),
    ]
