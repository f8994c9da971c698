"""A request as it is read: the head first, the body behind it."""

from httptools import HttpParserError, parse_url

from penstock.contract.model import Route


class Request:
    """Filled by the connection, read by the path. Header names are in lower case."""

    __slots__ = ("body", "by_name", "headers", "method", "path", "received", "route", "size_bytes")

    def __init__(self, method: bytes, path: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = b""
        self.received = 0.0  # when its end was there, seconds since the epoch
        self.size_bytes = 0  # of head and body; it may be more when several requests came together, never less
        self.route: Route | None = None
        self.by_name = dict(headers)

    def header(self, name: bytes, default: bytes = b"") -> bytes:
        """The value of a header that may stand only once."""
        return self.by_name.get(name, default)

    @property
    def head_bytes(self) -> int:
        return len(self.path) + sum(len(name) + len(value) + 4 for name, value in self.headers)


def path_of(url: bytes) -> bytes:
    """The path of a request's target, which proxies may send as a whole URL."""
    if not url.startswith(b"/"):
        try:
            return bytes(parse_url(url).path or b"/")
        except HttpParserError:
            return url
    return url.partition(b"?")[0] if b"?" in url else url
