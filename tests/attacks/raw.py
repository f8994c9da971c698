"""Bytes over a socket, as an attacker writes them, and what comes back."""

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DEADLINE_SECONDS = 20.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS)
        self._stream = self._socket.makefile("rb")

    def send(self, data: bytes) -> "Wire":
        self._socket.sendall(data)
        return self

    def try_to_send(self, data: bytes) -> "Wire":
        """The other side may have closed already."""
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)
        return self

    def answer(self) -> Answer:
        """The next one: its body by length, in chunks, or up to the end."""
        first = self._stream.readline()
        if not first:
            raise EOFError("closed without an answer")
        headers = {}
        while line := self._stream.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = b""
        if "content-length" in headers:
            body = self._stream.read(int(headers["content-length"]))
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(self._stream.readline(), 16):
                body += self._stream.read(size)
                self._stream.readline()
            self._stream.readline()
        return Answer(int(first.split()[1]), headers, body)

    def head(self) -> int:
        """The status and headers only, of an answer that does not end."""
        status = int(self._stream.readline().split()[1])
        while self._stream.readline().strip():
            pass
        return status

    def line(self) -> bytes:
        return self._stream.readline()

    def is_closed(self) -> bool:
        """Waits until the other side has closed; fails when it sends something instead, or nothing for long."""
        try:
            return self._stream.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@contextlib.contextmanager
def wire(port: int) -> Iterator[Wire]:
    opened = Wire(port)
    try:
        yield opened
    finally:
        opened.close()


def ask(port: int, data: bytes) -> Answer:
    with wire(port) as opened:
        return opened.send(data).answer()
