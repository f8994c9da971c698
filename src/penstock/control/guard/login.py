"""From a token to a browser's session, by a link that works once.

POST /api/penstock/login-link     with the token: {"path": "/login?code=…", "seconds": 120}
GET  /login?code=…                a cookie, and on to the dashboard
GET  /api/penstock/session        whether the caller has a token, a session or neither; 401 if it needs one
"""

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from penstock.control.answers import error_response
from penstock.control.guard.middleware import CALLER
from penstock.control.guard.policy import LOGIN, Access, Caller, session_of
from penstock.control.guard.sessions import CODE_SECONDS, SESSION_SECONDS
from penstock.dashboard.files import HEADERS, USED_LINK, load

NOT_KEPT = {"Cache-Control": "no-store"}


def routes(access: Access) -> list[Route]:
    used_link = load()[USED_LINK]

    async def link(request: Request) -> Response:
        caller: Caller = request.scope[CALLER]
        if caller.kind == "session":  # otherwise a session could renew itself for ever
            return error_response(403, "a session cannot make login links for other sessions", "`penstock dashboard`")
        answer = {"path": f"{LOGIN}?code={access.sessions.new_code()}", "seconds": CODE_SECONDS}
        return JSONResponse(answer, 201, headers=NOT_KEPT)

    async def login(request: Request) -> Response:
        if request.method == "HEAD":  # a preview of the link must not use it up
            return Response(headers=NOT_KEPT)
        secret = access.sessions.redeem(request.query_params.get("code", ""))
        if secret is None and session_of(access, request.headers) is None:
            headers = {**HEADERS, **NOT_KEPT}
            return Response(used_link.content, 403, headers=headers, media_type=used_link.content_type)
        response = RedirectResponse("/", 303, headers={**HEADERS, **NOT_KEPT})
        if secret is not None:
            response.set_cookie(access.cookie, secret, max_age=int(SESSION_SECONDS), httponly=True, samesite="strict")
        return response

    async def session(request: Request) -> Response:
        caller: Caller = request.scope[CALLER]
        return JSONResponse({"caller": caller.kind, "token_required": access.needs_token}, headers=NOT_KEPT)

    return [
        Route("/api/penstock/login-link", link, methods=["POST"]),
        Route(LOGIN, login),
        Route("/api/penstock/session", session),
    ]
