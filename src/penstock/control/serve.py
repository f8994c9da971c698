"""The controller process: the API on the admin port, the controller behind it, a clean end on SIGTERM.

Called by ``penstock controller``.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

from starlette.applications import Starlette

from penstock.control.api import application
from penstock.control.controller import Controller
from penstock.control.guard.policy import access_of
from penstock.control.settings import ControllerSettings
from penstock.control.watch import Watchers
from penstock.http.limits import Limits
from penstock.http.server import Server, listen

logger = logging.getLogger("penstock.control")


class AdminServer(Server):
    """Ends the watchers' streams when it is asked to stop: they would hold it up for ever."""

    def __init__(self, app: Starlette, limits: Limits, watchers: Watchers) -> None:
        super().__init__(app, limits)
        self._watchers = watchers

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM is how we are meant to end: with 0, where uvicorn would raise the signal once more."""
        if sig == signal.SIGTERM:
            self.should_exit = True
        else:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._watchers.close()
        await super().shutdown(sockets)


def run(settings: ControllerSettings, flags: dict[str, Any] | None = None) -> None:
    """Serves until SIGTERM or SIGINT. Misconfigured when the port cannot be had."""
    access = access_of(settings, settings.admin_port)
    hint = "--admin-port chooses another port; is another controller running?"
    listener = listen(settings.host, settings.admin_port, "the admin API", hint=hint)
    watchers = Watchers()
    controller = Controller(settings, watchers.on_change)
    app = application(controller, watchers, flags or {}, access)
    app.router.lifespan_context = _lifespan(controller, watchers)
    with listener:
        AdminServer(app, settings.limits, watchers).run(sockets=[listener])


def _lifespan(controller: Controller, watchers: Watchers) -> Any:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        watchers.attach(asyncio.get_running_loop())
        controller.start()
        yield
        await asyncio.to_thread(controller.stop)
        logger.info("controller stopped")

    return lifespan
