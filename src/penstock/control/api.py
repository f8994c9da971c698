"""The API on the admin port, in the shape of Kubernetes' own.

    GET    /apis/eventing.knative.dev/v1[/namespaces/NS]/brokers           list (``?watch=1``: changes as JSON lines)
    POST   /apis/eventing.knative.dev/v1/namespaces/NS/brokers             create or change (``?dryRun=All``)
    GET, PUT, DELETE  …/brokers/NAME
    GET    /api/penstock/status, /api/penstock/lag/NS/NAME[?kind=trigger], /api/penstock/settings
    GET    /api/penstock/dependents/NS/NAME?kind=broker                    who loses something when it goes
    POST   /api/penstock/triggers/NS/NAME/reset                            {"to": "earliest", "dryRun": true}
    POST   /api/penstock/triggers/NS/NAME/pause, …/resume                  see ``pausing``
    GET    /api/penstock/deadletters[?namespace=…&kind=…&name=…&ids=…&type=…&code=…&redriven=1&event=1]
    POST   /api/penstock/deadletters/redrive                               the same as a JSON object
    GET    /api/penstock/deadletters/groups                                those that failed in the same way
    POST   /api/penstock/jobs                                              {"kind": "redrive", "group": …}; dryRun
    GET    /api/penstock/jobs, /api/penstock/jobs/ID                       POST …/ID/cancel
    GET    /api/penstock/live, /api/penstock/history, /api/penstock/topics see ``live``
    POST   /api/penstock/trial                                             {"filters": […], "of": "Broker/default/x"}
    GET    /healthz, /readyz, /metrics; / and /static/… are the dashboard; /login and sessions, see ``guard``

Errors are ``{"error", "problems": [{"field", "message"}], "hint"}``. Thin handlers over ``store``, ``parts`` and
``lag``; what blocks runs in a thread.
"""

import gzip
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.control import (
    dead_letter_routes,
    events,
    explain,
    live,
    metrics,
    pages,
    parts,
    pausing,
    positions,
    tail,
    trials,
)
from penstock.control.answers import JSONResponse, TooLarge, error_response, json_body, json_object
from penstock.control.controller import Controller
from penstock.control.dependents import losses
from penstock.control.guard import login
from penstock.control.guard.middleware import Guard
from penstock.control.guard.policy import Access
from penstock.control.kinds import KINDS, Kind, collection_path, kind_of_word, nearest
from penstock.control.limits import LimitReached
from penstock.control.settings import ControllerSettings
from penstock.control.store import Conflict, Invalid, Malformed
from penstock.control.watch import Watchers
from penstock.errors import PenstockError, Rejected, Unavailable
from penstock.settings import in_force

Handler = Callable[[Request], Awaitable[Response]]


async def on_error(_request: Request, error: Exception) -> Response:
    match error:
        case Malformed():
            return error_response(400, f"{error.what} cannot be stored", error.hint, error.problems)
        case Invalid():
            return error_response(422, f"{error.what} is invalid", error.hint, error.problems)
        case Conflict():
            return error_response(409, error.message, error.hint)
        case TooLarge():
            return error_response(413, error.message, error.hint)
        case LimitReached():
            return error_response(403, error.message, error.hint)
        case Rejected():
            return error_response(400, error.message, error.hint)
        case Unavailable():
            return error_response(503, error.message, error.hint)
        case PenstockError():
            return error_response(500, error.message, error.hint)
    raise error


def application(controller: Controller, watchers: Watchers, flags: dict[str, Any], access: Access) -> Starlette:
    """The whole API. ``flags`` are the settings that came from the command line, to show where values came from."""
    routes = [
        *pages.routes(),
        *login.routes(access),
        *pausing.routes(controller),
        Route("/healthz", _healthz),
        Route("/readyz", _readyz(controller)),
        Route("/metrics", _metrics(controller)),
        Route("/api/penstock/status", _status(controller, access)),
        Route("/api/penstock/settings", _settings(flags)),
        Route("/api/penstock/lag/{namespace}/{name}", _lag(controller)),
        Route("/api/penstock/dependents/{namespace}/{name}", _dependents(controller)),
        Route("/api/penstock/triggers/{namespace}/{name}/reset", _reset(controller), methods=["POST"]),
        *dead_letter_routes.routes(controller),
        *live.routes(controller, watchers),
        *trials.routes(controller),
        *events.routes(controller),
        *explain.routes(controller),
        *tail.routes(controller),
    ]
    for kind in KINDS:
        routes += _kind_routes(kind, controller, watchers)
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={PenstockError: on_error, 404: _not_found, 405: _wrong_method},
    )


async def _not_found(request: Request, _error: Exception) -> Response:
    return error_response(404, f"there is nothing at {request.url.path}", "GET / shows what there is")


async def _wrong_method(request: Request, error: Exception) -> Response:
    response = error_response(405, f"{request.url.path} does not answer to {request.method}")
    allowed = (getattr(error, "headers", None) or {}).get("Allow")
    if allowed:
        response.headers["Allow"] = allowed
    return response


def _kind_routes(kind: Kind, controller: Controller, watchers: Watchers) -> list[Route]:
    async def listing(request: Request) -> Response:
        namespace = request.path_params.get("namespace")
        store = controller.store
        if request.query_params.get("watch", "0").lower() in ("1", "true"):
            stream = watchers.stream(kind.name, namespace, store)
            return StreamingResponse(stream, media_type="application/json;stream=watch")
        items = store.list(kind.name, namespace)
        return JSONResponse(
            {"apiVersion": kind.api_version, "kind": f"{kind.name}List", "metadata": {}, "items": items}
        )

    async def apply(request: Request) -> Response:
        applied = await json_body(request)
        _agree_with_path(applied, kind, request)
        dry_run = request.query_params.get("dryRun", "").lower() in ("1", "true", "all")
        how = {"dry_run": dry_run, "replaces": request.method == "PUT"}
        resource, verdict = await run_in_threadpool(controller.store.apply, applied, **how)
        return JSONResponse(resource, 201 if verdict == "created" else 200, headers={"Penstock-Verdict": verdict})

    async def one(request: Request) -> Response:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        found = controller.store.get(kind.name, namespace, name)
        return JSONResponse(found) if found is not None else _missing(controller, kind, namespace, name)

    async def delete(request: Request) -> Response:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        gone = await run_in_threadpool(controller.store.delete, kind.name, namespace, name)
        return JSONResponse(gone) if gone is not None else _missing(controller, kind, namespace, name)

    routes = []
    for version in kind.api_versions:
        everywhere = f"{collection_path(version)}/{kind.plural}"
        collection = f"{collection_path(version)}/namespaces/{{namespace}}/{kind.plural}"
        routes += [
            Route(everywhere, listing, methods=["GET"]),
            Route(collection, _by_method({"GET": listing, "POST": apply}), methods=["GET", "POST"]),
            Route(
                collection + "/{name}",
                _by_method({"GET": one, "PUT": apply, "DELETE": delete}),
                methods=["GET", "PUT", "DELETE"],
            ),
        ]
    return routes


def _by_method(handlers: dict[str, Handler]) -> Handler:
    async def handle(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return handle


def _missing(controller: Controller, kind: Kind, namespace: str, name: str) -> Response:
    why = controller.store.unreadable().get(f"{kind.name}/{namespace}/{name}")
    if why is not None:
        message = f'{kind.name.lower()} "{name}" in namespace {namespace} cannot be read: {why}'
        return error_response(404, message, "apply it again, which makes a new one, or delete it")
    known = [each["metadata"]["name"] for each in controller.store.list(kind.name, namespace)]
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else f"`penstock get {kind.plural} -n {namespace}` lists them"
    return error_response(404, f'{kind.name.lower()} "{name}" does not exist in namespace {namespace}', hint)


def _agree_with_path(applied: Any, kind: Kind, request: Request) -> None:
    """Kind, namespace and name stand in path and body; a body without a namespace takes the path's."""
    if not isinstance(applied, dict) or not isinstance(applied.get("metadata"), dict):
        return  # validation says what is missing
    metadata = applied["metadata"]
    if metadata.get("namespace") is None:
        metadata["namespace"] = request.path_params["namespace"]
    stated = {"kind": applied.get("kind"), **{f: metadata.get(f) for f in ("namespace", "name")}}
    asked = {"kind": kind.name, "name": stated["name"], **request.path_params}
    for field, value in asked.items():
        if stated[field] != value:
            raise Rejected(f"the body's {field} is {stated[field]!r}, but the path's is {value!r}")


async def _healthz(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


def _readyz(controller: Controller) -> Handler:
    async def readyz(_request: Request) -> Response:
        if controller.is_ready:
            return PlainTextResponse("ok\n")
        return PlainTextResponse(f"not ready: {controller.waiting_for}\n", 503)

    return readyz


def _status(controller: Controller, access: Access) -> Handler:
    async def status(_request: Request) -> Response:
        system = await run_in_threadpool(parts.look, controller.world, controller.lag)
        return JSONResponse({**system.as_json(), "token_required": access.needs_token})

    return status


def _settings(flags: dict[str, Any]) -> Handler:
    async def settings(_request: Request) -> Response:
        return JSONResponse([asdict(row) for row in in_force(ControllerSettings, flags)])

    return settings


def _lag(controller: Controller) -> Handler:
    async def lag(request: Request) -> Response:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        kind = kind_of_word(request.query_params.get("kind", "trigger"))
        lags = await run_in_threadpool(controller.lag.read)
        lanes = lags.get(f"{kind.name}/{namespace}/{name}")
        rows = [{**asdict(lane), "lag": lane.lag} for lane in lanes or []]
        total = sum(lane.lag for lane in lanes) if lanes is not None else None
        return JSONResponse({"lag": total, "partitions": rows})

    return lag


def _dependents(controller: Controller) -> Handler:
    async def dependents(request: Request) -> Response:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        kind = kind_of_word(request.query_params.get("kind", ""))
        found = controller.store.get(kind.name, namespace, name)
        if found is None:
            return _missing(controller, kind, namespace, name)
        return JSONResponse({"dependents": [asdict(each) for each in losses(controller.store.list(), found)]})

    return dependents


def _reset(controller: Controller) -> Handler:
    async def reset(request: Request) -> Response:
        asked = await json_object(request)
        to = asked.get("to")
        if not isinstance(to, str):
            raise Rejected('the body must be an object such as {"to": "earliest"}')
        where = request.path_params["namespace"], request.path_params["name"]
        dry_run = bool(asked.get("dryRun"))
        moves = await run_in_threadpool(
            positions.reset, controller.world, controller.lag, *where, to, dry_run=dry_run
        )
        return JSONResponse({"partitions": moves})

    return reset


def _metrics(controller: Controller) -> Handler:
    async def show(request: Request) -> Response:
        sight = await run_in_threadpool(controller.observer.fresh)
        if controller.is_ready:
            text = await run_in_threadpool(metrics.text, controller.world, sight, time.time())
        else:
            text = metrics.text_of_parts(sight)
        headers = {"Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):  # Prometheus asks for it; most of it is names
            text = await run_in_threadpool(gzip.compress, text, 1)
            headers["Content-Encoding"] = "gzip"
        return Response(text, media_type=metrics.CONTENT_TYPE, headers=headers)

    return show
