"""Listens on a port and serves a Starlette application there, guarded: in the main thread, or in one of its own.

Called by ``control/serve.py`` for the admin port and by ``pipeline/dispatch.py`` for the dispatcher's.
"""

import asyncio
import functools
import logging
import socket
import threading
from dataclasses import replace
from typing import Any, cast

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from penstock.errors import Misconfigured
from penstock.http.guard import Guard
from penstock.http.limits import Limits
from penstock.http.protocol import GuardedConnection
from penstock.open_files import connections_that_fit

logger = logging.getLogger("penstock.http")

TICK_SECONDS = 0.2
GRACE_SECONDS = 3  # for answers that are still being made when the server ends
STOP_SECONDS = 10.0
BACKLOG = 256
# A stream may be silent for long. The kernel checks whether the client's machine still answers, and closes it if not.
KEEPALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 20, socket.TCP_KEEPCNT: 3}


class Server(uvicorn.Server):
    """Takes neither forwarded addresses nor other protocols: callers connect directly."""

    def __init__(self, app: Starlette, limits: Limits) -> None:
        self.guard = Guard(replace(limits, connections=connections_that_fit(limits.connections)))
        super().__init__(
            uvicorn.Config(
                functools.partial(_quietly, app),
                http=cast(type[asyncio.Protocol], functools.partial(GuardedConnection, self.guard)),
                ws="none",
                lifespan="on",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=int(limits.idle_seconds) + 1,  # the guard is exact
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )

    async def main_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            self.guard.sweep(loop.time())
            await asyncio.sleep(TICK_SECONDS)


class ServerThread:
    """A server in its own thread; the main thread does something else."""

    def __init__(self, app: Starlette, limits: Limits, listener: socket.socket) -> None:
        self._server = Server(app, limits)
        self._listener = listener
        self.port = int(listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> "ServerThread":
        """Returns at once: the kernel keeps connections until the server accepts them."""
        self._listener.listen(BACKLOG)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._server.serve([self._listener]))
        except Exception:
            logger.exception("the port is not served any more")
        finally:
            self._listener.close()


def listen(host: str, port: int, what: str, *, hint: str | None = None, may_move: bool = False) -> socket.socket:
    """Raises Misconfigured, with the system's reason. With ``may_move`` any other port will do."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for name, value in KEEPALIVE.items():  # connections inherit it
        listener.setsockopt(socket.IPPROTO_TCP, name, value)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if may_move:
            return listen(host, 0, what, hint=hint)
        raise Misconfigured(f"{what} cannot listen on {host}:{port}: {error.strerror}", hint=hint) from error
    return listener


async def _quietly(app: Starlette, scope: Scope, receive: Receive, send: Send) -> Any:
    """A caller that disconnects in the middle of its request is not an error here."""
    try:
        await app(scope, receive, send)
    except ClientDisconnect:
        logger.debug("a caller disconnected")
