"""A bad network between a client and a server: passes bytes on unchanged, but late, slowly, or not at all.

proxy.latency_seconds = 0.1           everything arrives this much later, in both directions
proxy.bytes_per_second = 375_000      of one connection in one direction
proxy.is_silent = True                connections stay open and nothing passes until it is False again
proxy.holds_answers = True            requests arrive, answers wait until it is False again
proxy.cuts_answers = True             requests arrive; the first byte of an answer resets the connection instead
proxy.reset()                         resets all connections that there are now
"""

import asyncio
import socket
import struct

from tests.serving import Serving

CHUNK_BYTES = 16 * 1024
LOOK_SECONDS = 0.01
RESET_AT_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER without waiting


class Proxy(Serving):
    """Listens on a free port of loopback from ``start`` to ``stop``; the server may come later."""

    def __init__(self, server_port: int) -> None:
        super().__init__()
        self.latency_seconds = 0.0
        self.bytes_per_second = 0  # 0: as fast as it goes
        self.is_silent = False
        self.holds_answers = False
        self.cuts_answers = False
        self.answers_cut = 0
        self.connections_reset = 0
        self.server_port = server_port
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def reset(self) -> None:
        self._loop.call_soon_threadsafe(self._reset_all)

    def heal(self) -> None:
        """A good network again; what was underway on a bad one is late, but not forgotten."""
        self.latency_seconds, self.bytes_per_second = 0.0, 0
        self.is_silent = self.holds_answers = self.cuts_answers = False

    async def listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connect, "127.0.0.1", 0, backlog=1024)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            _reset(client)
            return
        self._open |= {client, server}
        self._pass_on(reader, server, client, are_answers=False)
        self._pass_on(answers, client, server, are_answers=True)

    def _pass_on(
        self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, back: asyncio.StreamWriter, are_answers: bool
    ) -> None:
        """One direction of a connection: a task that reads and one that writes when it is time."""
        underway: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
        for task in (
            self._loop.create_task(self._read(reader, underway)),
            self._loop.create_task(self._write(underway, to, back, are_answers)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _read(self, reader: asyncio.StreamReader, underway: asyncio.Queue[tuple[float, bytes]]) -> None:
        data = b"-"
        while data:
            try:
                data = await reader.read(CHUNK_BYTES)
            except OSError:
                data = b""
            await underway.put((self._loop.time() + self.latency_seconds, data))

    async def _write(
        self,
        underway: asyncio.Queue[tuple[float, bytes]],
        to: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        are_answers: bool,
    ) -> None:
        free_at = 0.0  # when the line has sent what was written before
        while True:
            due, data = await underway.get()
            while self.is_silent or (are_answers and self.holds_answers):
                await asyncio.sleep(LOOK_SECONDS)
            if data and are_answers and self.cuts_answers:
                self.answers_cut += 1
                data = b""
            if not data or to.is_closing():
                break
            if self.bytes_per_second:
                free_at = max(free_at, self._loop.time()) + len(data) / self.bytes_per_second
            await asyncio.sleep(max(due, free_at) - self._loop.time())
            to.write(data)
            try:
                await to.drain()
            except OSError:
                break
        for each in (to, back):
            self._open.discard(each)
            _reset(each)

    def _reset_all(self) -> None:
        self.connections_reset += len(self._open) // 2
        for each in self._open:
            _reset(each)
        self._open.clear()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None and not writer.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
    writer.transport.abort()
