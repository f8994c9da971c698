"""Bodies: how many bytes of all request bodies are held at a time, from their first byte to the end of the answer.

A handler may wait for a thread, and keeps what it has read meanwhile. Used by ``middleware``, on the event loop.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import Unavailable

MOST_BYTES = 24 * 1024 * 1024  # more than all searches that may run at a time can hold


class Bodies:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._held = 0

    async def held(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application and counts the bytes that it reads. Reading raises Unavailable if there is no room."""
        mine = 0

        async def counted() -> Message:
            nonlocal mine
            message = await receive()
            size = len(message.get("body", b""))
            if size and self._held + size > self._most:
                raise Unavailable("the controller is handling too many bytes of request bodies", hint="try again")
            mine += size
            self._held += size
            return message

        try:
            await app(scope, counted, send)
        finally:
            self._held -= mine
