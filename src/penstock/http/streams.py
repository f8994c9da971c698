"""Answers that come bit by bit, for as long as somebody reads them."""

from collections.abc import AsyncGenerator
from typing import Any

from anyio import CancelScope
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class ClosedStream(StreamingResponse):
    """Closes its generator when the reader has gone, instead of when Python finds out that nobody needs it."""

    def __init__(self, content: AsyncGenerator[bytes, None], **others: Any) -> None:
        super().__init__(content, **others)
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await self._content.aclose()
