"""A request as it is read: the head first, the body behind it."""

from penstock.contract.model import Route


class Request:
    """Filled by the connection, read by the path. Header names are in lower case."""

    __slots__ = ("_by_name", "body", "headers", "method", "path", "received", "route")

    def __init__(self, method: bytes, path: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = b""
        self.received = 0.0  # when its end was there, seconds since the epoch
        self.route: Route | None = None
        self._by_name = dict(headers)

    def header(self, name: bytes, default: bytes = b"") -> bytes:
        """The value of a header that may stand only once."""
        return self._by_name.get(name, default)

    @property
    def head_bytes(self) -> int:
        return len(self.path) + sum(len(name) + len(value) + 4 for name, value in self.headers)
