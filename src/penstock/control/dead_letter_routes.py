"""Dead letters and jobs over HTTP: thin handlers over ``dead_letters``, ``redrive`` and ``jobs``."""

from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.control import dead_letters, redrive
from penstock.control.answers import JSONResponse, error_response, json_object
from penstock.control.controller import Controller
from penstock.control.dead_letters import Wanted, wanted_of
from penstock.errors import Rejected

LONGEST_DELAY_SECONDS = 60.0
SELECTING = ("ids", "keys", "group", "of", "since", "namespace", "type", "code")


def routes(controller: Controller) -> list[Route]:
    async def listing(request: Request) -> Response:
        wanted = wanted_of(_query(request))
        with_events = bool(request.query_params.get("event"))
        found = await run_in_threadpool(dead_letters.listing, controller.world, wanted, with_events=with_events)
        return JSONResponse(found)

    async def groups(request: Request) -> Response:
        return JSONResponse(
            await run_in_threadpool(dead_letters.groups, controller.world, wanted_of(_query(request)))
        )

    async def redrive_now(request: Request) -> Response:
        wanted = wanted_of(await json_object(request))
        redriver = controller.jobs.redriver
        return JSONResponse(await run_in_threadpool(redrive.redrive_now, controller.world, redriver, wanted))

    return [
        Route("/api/penstock/deadletters", listing),
        Route("/api/penstock/deadletters/groups", groups),
        Route("/api/penstock/deadletters/redrive", redrive_now, methods=["POST"]),
        *_job_routes(controller),
    ]


def _job_routes(controller: Controller) -> list[Route]:
    async def jobs(request: Request) -> Response:
        if request.method == "POST":
            return JSONResponse(await run_in_threadpool(_start, controller, await json_object(request)))
        return JSONResponse(controller.jobs.list())

    async def job(request: Request) -> Response:
        found = controller.jobs.get(request.path_params["id"])
        return JSONResponse(found) if found is not None else _unknown(request)

    async def cancel(request: Request) -> Response:
        found = controller.jobs.cancel(request.path_params["id"])
        return JSONResponse(found) if found is not None else _unknown(request)

    return [
        Route("/api/penstock/jobs", jobs, methods=["GET", "POST"]),
        Route("/api/penstock/jobs/{id}", job),
        Route("/api/penstock/jobs/{id}/cancel", cancel, methods=["POST"]),
    ]


def _start(controller: Controller, asked: Mapping[str, Any]) -> dict[str, Any]:
    if asked.get("kind") != "redrive":
        raise Rejected(f"there are no jobs of kind {asked.get('kind')!r}", hint='{"kind": "redrive", "group": "…"}')
    wanted, rate = _selected(asked), redrive.rate_of(asked.get("rate"))
    if asked.get("dryRun"):
        planned = redrive.plan(controller.world, wanted, rate)
        return {
            "id": None,
            "kind": "redrive",
            "state": "planned",
            "plan": planned.shown,
            "problems": planned.problems,
        }
    return controller.jobs.start(wanted, rate, _delay(asked.get("delaySeconds", 0)))


def _selected(asked: Mapping[str, Any]) -> Wanted:
    """``kind`` is the job's here, so a subscription goes by its key: ``"of": "Trigger/default/billing"``."""
    chosen = {name: asked[name] for name in SELECTING if asked.get(name) not in (None, [], "")}
    if not chosen and not asked.get("all"):
        raise Rejected("nothing is selected", hint=f'one of {", ".join(SELECTING)}, or "all": true')
    if "of" in chosen:
        kind, namespace, name = (*str(chosen.pop("of")).split("/", 2), "", "")[:3]
        chosen |= {"kind": kind, "namespace": namespace, "name": name}
    return wanted_of(chosen)


def _delay(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_DELAY_SECONDS:
        raise Rejected(f"delaySeconds is {value!r}; 0 to {LONGEST_DELAY_SECONDS:g} is expected")
    return float(value)


def _unknown(request: Request) -> Response:
    hint = "`penstock jobs` lists them; a restart of the controller ends jobs, and what was sent stays marked"
    return error_response(404, f"there is no job {request.path_params['id']}", hint)


def _query(request: Request) -> dict[str, Any]:
    lists = {name: request.query_params.getlist(name) for name in ("ids", "keys")}
    return {**request.query_params, **lists}
