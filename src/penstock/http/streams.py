"""Answers that are sent in parts, for as long as the client reads them."""

from collections.abc import AsyncGenerator
from typing import Any

from anyio import CancelScope
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class ClosedStream(StreamingResponse):
    """Closes its generator when the client disconnects, and does not wait for Python's garbage collector."""

    def __init__(self, content: AsyncGenerator[bytes, None], **others: Any) -> None:
        super().__init__(content, **others)
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await self._content.aclose()
