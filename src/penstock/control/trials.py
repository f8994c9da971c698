"""A filter tried on events before anybody applies it: what the playground of the dashboard asks.

In: filters, and events or the broker whose last ones are meant. Out: a verdict for each, with the part of the filter
that said no. The verdicts are the dispatcher's (``POST /verdicts``), so the evaluator is the one that delivers.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.contract.model import place_of
from penstock.contract.moments import iso
from penstock.contract.questions import Verdicts
from penstock.control import dispatcher
from penstock.control.answers import JSONResponse, json_object, shown_problems
from penstock.control.controller import Controller
from penstock.control.events import received
from penstock.control.ingress import Topic, topic_of
from penstock.control.store import Invalid
from penstock.control.world import World
from penstock.errors import Rejected
from penstock.event.json_form import decode_event, encode_event
from penstock.event.kafka import decode_record
from penstock.event.model import Event
from penstock.filter.check import problems
from penstock.kafka.latest import Found, latest

MOST = 20
MOST_GIVEN = 100
LARGEST_BYTES = 5 * 1024 * 1024  # of events in a question to the dispatcher, before they become JSON
FRESH_SECONDS = 2.0  # somebody who types asks often; the events are read anew no more often than this


class Tried(NamedTuple):
    event: Event
    row: dict[str, Any]  # as searches show it


class Trials:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = ("", 0)
        self._read_at = 0.0
        self._latest: list[Tried] = []

    def run(self, world: World, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        filters = [{"cesql": asked["cesql"]}] if "cesql" in asked else asked.get("filters")
        wrong = problems(filters, "filters")
        if wrong:
            raise Invalid("the filter", wrong)
        given = asked.get("events")
        tried = _given(given) if given is not None else self._of_broker(world, asked)
        verdicts = _verdicts(world, filters, tried) if tried else []
        return [
            {"id": each.event.attributes["id"], **verdict, "event": each.row}
            for each, verdict in zip(tried, verdicts, strict=True)
        ]

    def _of_broker(self, world: World, asked: Mapping[str, Any]) -> list[Tried]:
        of, most = str(asked.get("of") or ""), asked.get("latest", MOST)
        if isinstance(most, bool) or not isinstance(most, int) or not 0 < most <= MOST_GIVEN:
            raise Rejected(f"latest is {most!r}; 1 to {MOST_GIVEN} is expected")
        with self._lock:
            if (of, most) != self._asked or time.monotonic() > self._read_at + FRESH_SECONDS:
                self._latest = newest_of(world, of, most)
                self._asked, self._read_at = (of, most), time.monotonic()
            return self._latest


def routes(controller: Controller) -> list[Route]:
    trials = Trials()

    async def trial(request: Request) -> Response:
        """``?problems=1``: who tries while he types expects a wrong filter, and no error for it."""
        asked = await json_object(request)
        try:
            return JSONResponse(await run_in_threadpool(trials.run, controller.world, asked))
        except Invalid as error:
            if not request.query_params.get("problems"):
                raise
            return JSONResponse({"problems": shown_problems(error.problems)})

    return [Route("/api/penstock/trial", trial, methods=["POST"])]


def _given(events: Any) -> list[Tried]:
    if not isinstance(events, list) or len(events) > MOST_GIVEN:
        raise Rejected(f"events must be a list of at most {MOST_GIVEN} events in CloudEvents' JSON form")
    decoded = [decode_event(msgspec.json.encode(each)) for each in events]
    return [Tried(each, _row(each)) for each in decoded]


def newest_of(world: World, of: str, most: int) -> list[Tried]:
    """The last events of a broker or a channel; records that are no events are passed over."""
    kind, _, rest = of.partition("/")
    namespace, _, name = rest.partition("/")
    topic = topic_of(world.store.get(kind, namespace, name)) if name else None
    if topic is None:
        hint = "the key of a broker, channel or sink that is ready, such as Broker/default/orders"
        raise Rejected(f"of is {of!r}, which has no events", hint=hint)
    world.clusters.require(topic.cluster)
    found = latest(world.clusters.connection(topic.cluster), topic.name, topic.partitions, most)
    tried, room = [], LARGEST_BYTES
    for each in sorted(found, key=received, reverse=True):
        room -= len(each.value or b"")
        if room < 0:
            break
        try:
            event = decode_record(each.value, each.headers)
        except Rejected:
            continue
        tried.append(Tried(event, {**_row(event), **_where(of, topic, each)}))
    return tried[:most]


def _row(event: Event) -> dict[str, Any]:
    known = {name: event.attributes.get(name) for name in ("id", "source", "type", "subject", "time")}
    return {**known, "datacontenttype": event.content_type, "size": len(event.data or b"")}


def _where(of: str, topic: Topic, found: Found) -> dict[str, Any]:
    return {
        "of": of,
        "topic": topic.name,
        "place": place_of(topic.name, topic.cluster),
        "partition": found.partition,
        "offset": found.offset,
        "received": iso(received(found)),
    }


def _verdicts(world: World, filters: Any, tried: list[Tried]) -> list[dict[str, Any]]:
    events = tuple(msgspec.Raw(encode_event(each.event)) for each in tried)
    found = dispatcher.verdicts(world, Verdicts(filters=(tuple(filters),), events=events))
    return [verdict for (verdict,) in found]
