"""What handlers of the admin API share: errors as JSON, and bodies that are JSON."""

import json
from collections.abc import Iterable
from typing import Any

from starlette import responses
from starlette.requests import Request

from penstock.control import json_content
from penstock.errors import Rejected
from penstock.filter.check import Problem

LONGEST_BODY = 900_000  # as a record it must fit into a message of Kafka's default size


class JSONResponse(responses.JSONResponse):
    """Never fails for what others have written: text that is no Unicode, NaN, any depth."""

    def render(self, content: Any) -> bytes:
        return json_content.as_bytes(content)


def error_response(status: int, message: str, hint: str | None = None, problems: Any = ()) -> JSONResponse:
    shown = shown_problems(problems)
    headers = {"Retry-After": "1"} if status == 503 else None
    return JSONResponse({"error": message, "problems": shown, "hint": hint}, status, headers=headers)


def shown_problems(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    return [{name: each for name, each in problem._asdict().items() if each is not None} for problem in problems]


async def json_body(request: Request) -> Any:
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > LONGEST_BODY:
            raise Rejected(f"the object is larger than {LONGEST_BODY} bytes")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"the body is not JSON: {error}") from None


async def json_object(request: Request) -> dict[str, Any]:
    found = await json_body(request)
    if not isinstance(found, dict):
        raise Rejected("the body must be a JSON object")
    return found
