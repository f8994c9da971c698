"""A request as it is read: the head first, the body behind it. Used by the connection and by the path."""

from httptools import HttpParserError, parse_url

from penstock.contract.model import Route

HEAD_END = b"\r\n\r\n"
SHORT_HEAD_BYTES = 64  # of a head are skipped when its end is looked for: a slice may hold several short heads
SLICE_BYTES = 2048  # of a body whose length is not known


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


def slice_end(data: bytes, begin: int, request: Request | None, body_bytes: int) -> int:
    """Where to cut a read that holds many requests, so that the slice from ``begin`` completes only a few of them.

    ``request`` is the one whose body is being read; None: a head is being read. The result may lie beyond the end of
    the data. Slices are needed since the parser cannot be stopped in its input, and reports no positions.
    """
    if request is None:
        found = data.find(HEAD_END, begin + SHORT_HEAD_BYTES)
        return len(data) if found < 0 else found + len(HEAD_END)
    left = int(request.by_name.get(b"content-length", b"0")) - body_bytes
    return begin + (left if left > 0 else SLICE_BYTES)


def framing_again(request: Request, *, closes: bool) -> bytes:
    """A head with the framing of the request's body, for a new parser that goes on with the body."""
    lines = [b"POST / HTTP/1.1", b"Connection: close" if closes else b"Connection: keep-alive"]
    for name in (b"content-length", b"transfer-encoding"):
        if name in request.by_name:
            lines.append(name + b": " + request.by_name[name])
    return b"\r\n".join(lines) + HEAD_END
