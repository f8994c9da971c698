"""What the dispatcher answers over HTTP, on a port of its own: its metrics, and questions that need Spark.

    GET  /healthz, /readyz           open
    GET  /metrics                    open on loopback, unless a setting changes that
    POST /search, /verdicts          asked by the controller (contract/questions.py), which has the token of this run

Slow work runs in a thread. Searches use the session of the queries, in jobs of their own.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyio import CancelScope
from pyspark.sql import SparkSession
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.access.hosts import is_allowed
from penstock.access.tokens import is_authorized
from penstock.contract.questions import decode_search, decode_verdicts
from penstock.errors import Misused, PenstockError, Rejected, Unavailable
from penstock.event.json_form import decode_event
from penstock.filter.check import require_valid
from penstock.http.limits import MEGABYTE, Limits
from penstock.http.streams import ClosedStream
from penstock.pipeline.search import Searches
from penstock.pipeline.trial import Verdict, try_many
from penstock.pipeline.vitals import Vitals
from penstock.telemetry.exposition import CONTENT_TYPE

logger = logging.getLogger("penstock.dispatcher")

MOST_EVENTS = 2000  # in a question for verdicts
LINES = "application/x-ndjson"
LIMITS = Limits(connections=256, body_bytes=8 * MEGABYTE, unfinished_bytes=32 * MEGABYTE)  # filters and events
OPEN = frozenset({"/healthz", "/readyz"})


class Trials:
    """Filters tried on events, one question after the other, since large ones take memory."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._turn = asyncio.Lock()

    async def answer(self, body: bytes) -> dict[str, Any]:
        async with self._turn:
            return await run_in_threadpool(self._answer, body)

    def _answer(self, body: bytes) -> dict[str, Any]:
        asked = decode_verdicts(body)
        if len(asked.events) > MOST_EVENTS:
            raise Rejected(f"these are {len(asked.events)} events; at most {MOST_EVENTS} are tried at once")
        events = [decode_event(bytes(each)) for each in asked.events]
        invalid = {place: problem for place, each in enumerate(asked.filters) if (problem := _problem(each))}
        valid = [each for place, each in enumerate(asked.filters) if place not in invalid]
        rows = []
        for row in try_many(self._session, valid, events, reasons=asked.reasons):
            verdicts = iter(row)
            places = range(len(asked.filters))
            rows.append([Verdict(False, invalid[at]) if at in invalid else next(verdicts) for at in places])
        return {"verdicts": [[verdict._asdict() for verdict in row] for row in rows]}


def _problem(filters: Sequence[Mapping[str, Any]]) -> str:
    """Why these filters are not tried; empty: they are tried. One invalid filter does not stop the others."""
    try:
        require_valid(filters)
    except Rejected as error:
        return f"the filter is invalid: {error.message}"
    return ""


@dataclass(frozen=True)
class Answers:
    """The handlers of the questions."""

    searches: Searches
    trials: Trials
    vitals: Vitals


def application(answers: Answers, token: str, *, open_metrics: bool) -> Starlette:
    async def ok(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def metrics(_request: Request) -> Response:
        return Response(await run_in_threadpool(answers.vitals.text), media_type=CONTENT_TYPE)

    async def search(request: Request) -> Response:
        lines = answers.searches.search(decode_search(await request.body()))
        return ClosedStream(_encoded(lines), media_type=LINES)

    async def verdicts(request: Request) -> Response:
        return JSONResponse(await answers.trials.answer(await request.body()))

    return Starlette(
        routes=[
            Route("/healthz", ok),
            Route("/readyz", ok),
            Route("/metrics", metrics),
            Route("/search", search, methods=["POST"]),
            Route("/verdicts", verdicts, methods=["POST"]),
        ],
        middleware=[Middleware(RequireToken, token=token, open_metrics=open_metrics)],
        exception_handlers={PenstockError: _failed, ClientDisconnect: _gone, Exception: _failed, 404: _not_found},
    )


class RequireToken:
    """Refuses callers without the token of this run, before it reads the body.

    Open metrics answer requests for an IP address: a web page that points its own DNS name here does not get them.
    """

    def __init__(self, app: ASGIApp, token: str, *, open_metrics: bool) -> None:
        self._app = app
        self._token = token
        self._has_open_metrics = open_metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope) or self._is_authorized(scope):
            await self._app(scope, receive, send)
            return
        hint = "it is in the dispatcher's token file, which only its owner can read"
        refusal = _error(401, "a request needs the token of this run", hint)
        refusal.headers["WWW-Authenticate"] = "Bearer"
        await refusal(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        if scope["path"] == "/metrics" and self._has_open_metrics:
            return is_allowed(Headers(scope=scope).get("host", ""), scope["server"][0], ())
        return scope["path"] in OPEN

    def _is_authorized(self, scope: Scope) -> bool:
        return is_authorized(Headers(scope=scope).get("authorization"), self._token)


async def _encoded(lines: Generator[dict[str, Any], None, None]) -> AsyncGenerator[bytes, None]:
    """Each line as it comes. If the client disconnects, the generator is closed and the work ends."""
    try:
        while (line := await run_in_threadpool(next, lines, None)) is not None:
            yield json.dumps(line).encode() + b"\n"
    except (PenstockError, RuntimeError) as error:  # too late for a status
        if not isinstance(error, PenstockError):
            logger.error("a search failed", exc_info=error)
        yield json.dumps(_described(error)).encode() + b"\n"
    finally:
        with CancelScope(shield=True):
            await run_in_threadpool(lines.close)


async def _failed(_request: Request, error: Exception) -> Response:
    """For errors of Penstock itself; the server also logs them."""
    status = 400 if isinstance(error, Rejected | Misused) else 503 if isinstance(error, Unavailable) else 500
    described = _described(error)
    return _error(status, described["error"], described["hint"])


async def _gone(_request: Request, _error_: Exception) -> Response:
    return Response()  # the client has disconnected


async def _not_found(request: Request, _error_: Exception) -> Response:
    return _error(404, f"there is nothing at {request.method} {request.url.path}", None)


def _described(error: Exception) -> dict[str, Any]:
    if isinstance(error, PenstockError):
        return {"error": error.message, "hint": error.hint}
    return {"error": f"{type(error).__name__}: {error}", "hint": None}


def _error(status: int, message: str, hint: str | None) -> JSONResponse:
    return JSONResponse({"error": message, "hint": hint}, status)
