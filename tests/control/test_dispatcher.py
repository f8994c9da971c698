"""Promises of the controller's questions: the token of the run, whole lines, clear refusals."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.access.tokens import is_authorized, make_token
from penstock.contract.questions import Search, Verdicts, token_path
from penstock.control import dispatcher
from penstock.control.settings import ControllerSettings
from penstock.control.world import World
from penstock.errors import Rejected, Unavailable
from penstock.http.limits import Limits
from penstock.http.server import ServerThread, listen
from penstock.http.streams import ClosedStream

LINES = [{"progress": {"scanned": 1}}, {"event": {"text": "é\n" * 5000}}, {"done": {"matched": 1}}]


class Dispatcher:
    """Answers as a dispatcher does; what it sends is cut into pieces of a few bytes."""

    def __init__(self, folder: Path, piece: int) -> None:
        self._folder = folder
        self._piece = piece
        self.restart()
        routes = [
            Route("/search", self._search, methods=["POST"]),
            Route("/verdicts", self._verdicts, methods=["POST"]),
        ]
        self._server = ServerThread(Starlette(routes=routes), Limits(), listen("127.0.0.1", 0, "a test")).start()
        self.url = f"http://127.0.0.1:{self._server.port}"

    def restart(self) -> None:
        self.token = make_token(token_path(str(self._folder), ""))

    def stop(self) -> None:
        self._server.stop()

    def _refusal(self, request: Request) -> Response | None:
        if is_authorized(request.headers.get("authorization"), self.token):
            return None
        return JSONResponse({"error": "who are you", "hint": None}, 401)

    async def _search(self, request: Request) -> Response:
        topics = (await request.json())["topics"]
        refusal = self._refusal(request)
        if topics == ["nowhere"]:
            refusal = JSONResponse({"error": "no such topic", "hint": "look"}, 400)
        return refusal or ClosedStream(self._pieces())

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        whole = b"".join(json.dumps(line).encode() + b"\n" for line in LINES)
        for start in range(0, len(whole), self._piece):
            yield whole[start : start + self._piece]

    async def _verdicts(self, request: Request) -> Response:
        return self._refusal(request) or JSONResponse({"verdicts": [[{"matched": True, "because": ""}]]})


@pytest.fixture(params=[7, 4096, 1_000_000])
def asked(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Dispatcher]:
    running = Dispatcher(tmp_path, request.param)
    yield running
    running.stop()


def world(of: Dispatcher, folder: Path) -> World:
    reports = SimpleNamespace(dispatcher_url=lambda: of.url)
    return cast(World, SimpleNamespace(reports=reports, settings=ControllerSettings(data_dir=str(folder))))


def lines(of: World, *topics: str) -> list[dict[str, Any]]:
    async def read() -> list[dict[str, Any]]:
        async with aclosing(dispatcher.search(of, Search(topics=topics))) as found:
            return [line async for line in found]

    return asyncio.run(read())


def test_lines_are_whole_however_they_come(asked: Dispatcher, tmp_path: Path) -> None:
    """Kept promise: a line may come in many chunks, and a chunk may hold many lines."""
    assert lines(world(asked, tmp_path), "orders") == LINES


def test_a_dispatcher_that_was_started_again(asked: Dispatcher, tmp_path: Path) -> None:
    """Kept promise: its new token is used without a restart of the controller."""
    here = world(asked, tmp_path)
    asked.restart()
    assert lines(here, "orders") == LINES
    assert dispatcher.verdicts(here, Verdicts(filters=(), events=())) == [[{"matched": True, "because": ""}]]


def test_refusals_are_clear(asked: Dispatcher, tmp_path: Path) -> None:
    """Kept promise: a wrong token, none, and a wrong question are three errors, and none shows a token."""
    here = world(asked, tmp_path)
    with pytest.raises(Rejected, match="no such topic"):
        lines(here, "nowhere")
    asked.token = "another"
    for ask in (lambda: lines(here, "orders"), lambda: dispatcher.verdicts(here, Verdicts(filters=(), events=()))):
        with pytest.raises(Unavailable, match="does not know the token") as refused:
            ask()
        assert "dispatcher_token_file" in str(refused.value.hint)
    token_path(str(tmp_path), "").unlink()
    with pytest.raises(Unavailable, match="token file"):
        lines(here, "orders")
