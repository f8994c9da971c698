"""A Kafka of an attacker: it records every byte, offers SASL/PLAIN in clear, and accepts every password."""

import asyncio
import struct
from collections.abc import Callable

from tests.serving import Serving

HANDSHAKE, VERSIONS, AUTHENTICATE = 17, 18, 36
OFFERED = ((HANDSHAKE, 0, 1), (VERSIONS, 0, 2), (AUTHENTICATE, 0, 1))
UNSUPPORTED_VERSION = 35
LARGEST_FRAME = 1024 * 1024


class Stranger(Serving):
    """Answers like a Kafka up to and including the login, and not afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.came = b""  # on all connections
        self.connections = 0

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def listen(self) -> asyncio.Server:
        return await self._loop.create_server(lambda: _Conversation(self), "127.0.0.1", 0)


class _Conversation(asyncio.Protocol):
    def __init__(self, stranger: Stranger) -> None:
        self._stranger = stranger
        self._buffer = b""
        stranger.connections += 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._stranger.came += data
        self._buffer += data
        while len(self._buffer) >= 4:
            (size,) = struct.unpack(">I", self._buffer[:4])
            if size > LARGEST_FRAME:  # not Kafka's protocol in plain text: the start of TLS
                self._transport.close()
                return
            if len(self._buffer) < 4 + size:
                return
            frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
            self._answer(frame)

    def _answer(self, frame: bytes) -> None:
        asked, version, correlation = struct.unpack(">hhi", frame[:8])
        answers: dict[int, Callable[[int], bytes]] = {
            VERSIONS: _versions,
            HANDSHAKE: _handshake,
            AUTHENTICATE: _authenticated,
        }
        if asked in answers:
            body = struct.pack(">i", correlation) + answers[asked](version)
            self._transport.write(struct.pack(">I", len(body)) + body)


def _versions(version: int) -> bytes:
    known = version <= 2
    listed = struct.pack(">hi", 0 if known else UNSUPPORTED_VERSION, len(OFFERED))
    listed += b"".join(struct.pack(">hhh", *each) for each in OFFERED)
    return listed + (struct.pack(">i", 0) if version in (1, 2) else b"")


def _handshake(_: int) -> bytes:
    return struct.pack(">hi", 0, 1) + struct.pack(">h", len("PLAIN")) + b"PLAIN"


def _authenticated(version: int) -> bytes:
    return struct.pack(">hhi", 0, -1, 0) + (struct.pack(">q", 0) if version == 1 else b"")
