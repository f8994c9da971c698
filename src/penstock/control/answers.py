"""What handlers of the admin API share: errors as JSON, and bodies that are JSON."""

import json
from collections.abc import Iterable
from typing import Any

from starlette import responses
from starlette.requests import Request

from penstock.control import json_content
from penstock.control.store import Malformed
from penstock.errors import Rejected
from penstock.filter.check import Problem

LONGEST_BODY = 900_000  # as a record it must fit into a message of Kafka's default size
DEEPEST_BODY = 100  # nested objects and lists


class JSONResponse(responses.JSONResponse):
    """Never fails for data from others: text that is not Unicode, NaN, any depth."""

    def render(self, content: Any) -> bytes:
        return json_content.as_bytes(content)


def error_response(status: int, message: str, hint: str | None = None, problems: Any = ()) -> JSONResponse:
    shown = shown_problems(problems)
    headers = {"Retry-After": "1"} if status == 503 else None
    return JSONResponse({"error": message, "problems": shown, "hint": hint}, status, headers=headers)


def shown_problems(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    return [{name: each for name, each in problem._asdict().items() if each is not None} for problem in problems]


class TooLarge(Rejected):
    """A body beyond its limit."""


async def json_body(request: Request, *, if_empty: Any = None) -> Any:
    """Every JSON body of the API is read here, up to the limit and no further."""
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > LONGEST_BODY:
            raise TooLarge(f"the body is larger than {LONGEST_BODY} bytes")
    if not raw and if_empty is not None:
        return if_empty
    try:
        found = json.loads(raw)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Rejected(f"the body is not JSON: {error}") from None
    _require_shallow(found)
    return found


async def json_object(request: Request, *, if_empty: Any = None) -> dict[str, Any]:
    found = await json_body(request, if_empty=if_empty)
    if not isinstance(found, dict):
        raise Rejected("the body must be a JSON object")
    malformed = json_content.problems(found)
    if malformed:
        raise Malformed("the request", malformed)
    return found


def _require_shallow(found: Any) -> None:
    """Deeper nesting would exceed the recursion limit later, in this process or in another."""
    level = [found]
    for _ in range(DEEPEST_BODY + 1):
        level = [child for each in level for child in _children(each)]
        if not level:
            return
    raise _too_deep()


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> Rejected:
    return Rejected(f"the body is nested more than {DEEPEST_BODY} levels deep")
