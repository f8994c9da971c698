"""A request as it is read: the head first, the body behind it."""

from penstock.contract.model import Route


class Request:
    """Filled by the connection, read by the path. Header names are in lower case."""

    __slots__ = ("body", "headers", "method", "path", "route")

    def __init__(self, method: bytes, path: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = b""
        self.route: Route | None = None

    def header(self, name: bytes, default: bytes = b"") -> bytes:
        for each, value in self.headers:
            if each == name:
                return value
        return default
