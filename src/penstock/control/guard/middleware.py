"""Runs before every handler of the admin port: checks requests, limits long streams, and ends them with the session.

Made by ``api.application``. The caller is left in ``scope["penstock.caller"]`` for ``login``.
"""

import asyncio
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.control.answers import error_response
from penstock.control.guard.bodies import Bodies
from penstock.control.guard.policy import Access, Asked, Caller, Refusal, judge
from penstock.control.guard.seats import FEED, SEARCH, TAIL, TRIAL, WATCH, Limit, Seats, TooMany
from penstock.errors import Unavailable

CALLER = "penstock.caller"
STREAMS = {
    "/api/penstock/tail": TAIL,
    "/api/penstock/search": SEARCH,
    "/api/penstock/explain": SEARCH,
    "/api/penstock/trial": TRIAL,
}
TRUE = ("1", "true")


class Guard:
    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._seats = Seats()
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller = judge(self._access, asked_of(scope))
        if isinstance(caller, Refusal):
            await _refused(caller)(scope, receive, send)
            return
        scope[CALLER] = caller
        limit = stream_of(scope)
        if limit is None:
            await self._bodies.held(self._app, scope, receive, send)
            return
        try:
            with self._seats.taken(limit, caller.key):
                await self._for_as_long(caller, scope, receive, send)
        except TooMany as error:
            await error_response(429, error.message, error.hint)(scope, receive, send)
        except Unavailable as error:
            await error_response(503, error.message, error.hint)(scope, receive, send)

    async def _for_as_long(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """For as long as the session lasts: a stream ends with it."""
        if caller.session is None:
            await self._bodies.held(self._app, scope, receive, send)
            return
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            async with asyncio.timeout(self._access.sessions.seconds_left(caller.session)) as deadline:
                await self._bodies.held(self._app, scope, receive, noting)
        except TimeoutError:
            if not deadline.expired():
                raise
            if has_begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await error_response(401, "the session has ended", "`penstock dashboard`")(scope, receive, send)


def asked_of(scope: Scope) -> Asked:
    peer: Any = scope.get("client") or ("", 0)
    own: Any = scope.get("server") or ("", 0)
    return Asked(scope["method"], scope["path"], Headers(scope=scope), str(peer[0]), str(own[0]))


def stream_of(scope: Scope) -> Limit | None:
    """Which kind of long stream a request asks for."""
    path: str = scope["path"]
    query = QueryParams(scope.get("query_string", b""))
    if path == "/api/penstock/live":
        return None if query.get("once", "0").lower() in TRUE else FEED
    if path.startswith(("/api/v1/", "/apis/")) and query.get("watch", "0").lower() in TRUE:
        return WATCH
    return STREAMS.get(path)


def _refused(refusal: Refusal) -> Response:
    response = error_response(refusal.status, refusal.message, refusal.hint)
    response.headers["Cache-Control"] = "no-store"
    if refusal.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="penstock"'
    return response
