"""Pausing and resuming what has events delivered: annotations that are set in one step.

    POST /api/penstock/triggers/NS/NAME/pause     {"reason": "tea", "until": "2026-12-24T18:00:00Z"}, both optional
    POST /api/penstock/triggers/NS/NAME/resume

Also for subscriptions and kafkasources. Called by the dashboard and the command line.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.control import names
from penstock.control.answers import JSONResponse, json_object
from penstock.control.controller import Controller
from penstock.control.kinds import EGRESS, Kind
from penstock.errors import Rejected

BY_HAND = "paused by hand"

Notes = dict[str, str | None]


def routes(controller: Controller) -> list[Route]:
    return [
        Route(
            f"/api/penstock/{kind.plural}/{{namespace}}/{{name}}/{verb}",
            _noting(controller, kind, notes),
            methods=["POST"],
        )
        for kind in EGRESS
        for verb, notes in (("pause", pause_notes), ("resume", resume_notes))
    ]


def pause_notes(asked: dict[str, Any]) -> Notes:
    for field in ("reason", "until"):
        if not isinstance(asked.get(field) or "", str):
            raise Rejected(f"{field} must be a text")
    return {names.PAUSED: asked.get("reason") or BY_HAND, names.PAUSED_UNTIL: asked.get("until") or None}


def resume_notes(_asked: dict[str, Any]) -> Notes:
    """``RESUMED`` also calls back a subscriber that was gone (410)."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {names.PAUSED: None, names.PAUSED_UNTIL: None, names.RESUMED: now}


def _noting(
    controller: Controller, kind: Kind, notes: Callable[[dict[str, Any]], Notes]
) -> Callable[[Request], Awaitable[Response]]:
    async def note(request: Request) -> Response:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        wanted = notes(await json_object(request, if_empty={}))
        resource = await run_in_threadpool(controller.store.annotate, kind.name, namespace, name, wanted)
        if resource is None:
            raise Rejected(
                f'{kind.name.lower()} "{name}" does not exist in namespace {namespace}',
                hint=f"`penstock get {kind.plural} -n {namespace}` lists them",
            )
        return JSONResponse(resource)

    return note
