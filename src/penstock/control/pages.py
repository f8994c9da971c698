"""The dashboard on the admin port: ``/`` and ``/static/…``.

The page is the same whether the controller is ready or not: it asks for numbers and says itself why none come.
"""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.dashboard.files import HEADERS, INDEX, StaticFile, load


def routes() -> list[Route]:
    found = load()

    async def index(request: Request) -> Response:
        return _answer(request, found[INDEX])

    async def static(request: Request) -> Response:
        path = request.path_params["path"]
        if path not in found:
            raise HTTPException(404)
        return _answer(request, found[path])

    return [Route("/", index), Route("/static/{path:path}", static)]


def _answer(request: Request, file: StaticFile) -> Response:
    """Browsers ask each time and get the content only when it has changed."""
    headers = {**HEADERS, "ETag": file.etag, "Vary": "Accept-Encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.packed, media_type=file.content_type, headers=headers)
    return Response(file.content, media_type=file.content_type, headers=headers)
