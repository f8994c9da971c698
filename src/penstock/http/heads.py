"""Refuses heads of requests that two servers could understand in different ways.

In: version and headers, names in lower case. Out: nothing, or Refused is raised. Called for every head.
"""

from collections import Counter
from collections.abc import Sequence

from penstock.http.limits import Limits

VERSIONS = ("1.0", "1.1")
# A second one of these is refused: a proxy could read one of them, and this server the other.
SINGLE = (
    b"host",
    b"content-length",
    b"transfer-encoding",
    b"content-type",
    b"authorization",
    b"origin",
    b"sec-fetch-site",
    b"expect",
)

MOST_BLANK_BYTES = 16  # empty lines before a request; RFC 9112 asks to skip at least one

Headers = Sequence[tuple[bytes, bytes]]


class Refused(Exception):
    """A request that is answered by the connection itself. Nothing after it is read."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def body_length(version: str, headers: Headers, limits: Limits) -> int | None:
    """How long the body is; None: it comes in chunks. Raises Refused when the request is malformed or too large."""
    if version not in VERSIONS:
        raise Refused(400, f"HTTP/{version} is not supported; use HTTP/1.1")
    counts = Counter(name for name, _ in headers)
    for name in SINGLE:
        if counts[name] > 1:
            raise Refused(400, f"there are {counts[name]} headers {name.decode()}")
    found = dict(headers)
    if version == "1.1" and not found.get(b"host"):
        raise Refused(400, "the Host header is missing")
    length, coding = found.get(b"content-length"), found.get(b"transfer-encoding")
    if coding is not None:
        if version == "1.0":
            raise Refused(400, "HTTP/1.0 has no Transfer-Encoding")
        if length is not None:
            raise Refused(400, "a request must not have both Content-Length and Transfer-Encoding")
        if coding.strip().lower() != b"chunked":
            raise Refused(400, "the only supported Transfer-Encoding is chunked")
        return None
    if length is None:
        return 0
    if not length.isdigit():
        raise Refused(400, "Content-Length is not a number")
    if len(length) > 18 or int(length) > limits.body_bytes:
        raise too_large(limits)
    return int(length)


def blank_bytes(data: bytes | memoryview) -> int:
    """The bytes of empty lines that ``data`` begins with; beyond ``MOST_BLANK_BYTES`` they are not counted on."""
    begin = bytes(data[: MOST_BLANK_BYTES + 1])
    return len(begin) - len(begin.lstrip(b"\r\n"))


def too_large(limits: Limits) -> Refused:
    return Refused(413, f"the body is larger than {limits.body_bytes} bytes")


def head_too_large(limits: Limits) -> Refused:
    return Refused(
        431, f"the head is larger than {limits.head_bytes} bytes or has more than {limits.headers} headers"
    )
