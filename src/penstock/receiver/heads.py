"""Refuses heads that the parser accepts, but that two servers could understand in different ways.

A proxy in front of the receiver and the receiver itself must agree where a request ends and which host it is for. So
a head that RFC 9112 forbids is refused and never repaired. Called by the connection, for the few heads that need it;
``HOST`` is checked for all.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from httptools import HttpParserError, parse_url

SPOKEN = ("1.1", "1.0")

# Headers that may occur only once: those with one value and, like ``ce-*``, those that decide what is stored. Of two,
# a proxy could read the first and the receiver the last. Others, such as Accept or X-Forwarded-For, are lists or are
# not read. They may occur more than once and change nothing in the event.
STAND_ONCE = frozenset(
    (
        b"authorization", b"content-encoding", b"content-language", b"content-length", b"content-location",
        b"content-md5", b"content-range", b"content-type", b"date", b"expect", b"from", b"host", b"max-forwards",
        b"origin", b"proxy-authorization", b"referer", b"te", b"traceparent", b"transfer-encoding", b"user-agent",
        b"k-network-hash", b"k-network-probe", b"webhook-request-callback", b"webhook-request-origin",
        b"webhook-request-rate",
    )
)  # fmt: skip
ATTRIBUTE = b"ce-"
TRACESTATE = b"tracestate"  # a list, and stored: its lines are joined
# One host, with a port or without; [::1] in brackets. Nothing that a proxy could parse in another way.
HOST = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9._~-]*)(?::([0-9]{0,5}))?[ \t]*")
PORTS = {b"http": 80, b"https": 443}


def flaw(
    version: str, by_name: Mapping[bytes, bytes], headers: Sequence[tuple[bytes, bytes]], target: bytes = b"/"
) -> str | None:
    """Why the head is refused, or None. ``by_name`` has the last value of each header."""
    if version not in SPOKEN:
        return f"HTTP/{version} is not supported, only HTTP/1.1 and HTTP/1.0"
    if version == "1.1" and b"host" not in by_name:
        return "the header host is missing"
    host = HOST.fullmatch(by_name.get(b"host", b""))
    if host is None:
        return "the header host must be one host, with or without a port"
    is_whole_url = b"://" in target and not target.startswith(b"/")
    if b"host" in by_name and is_whole_url and not _is_for(target, host):
        return "the header host and the target of the request name different hosts"
    if len(by_name) != len(headers):
        for name, number in Counter(name for name, _ in headers).items():
            if number > 1 and (name in STAND_ONCE or name.startswith(ATTRIBUTE)):
                return f"the header {name.decode('latin-1')} occurs more than once"
    coding = by_name.get(b"transfer-encoding")
    if coding is not None:
        if version == "1.0":
            return "HTTP/1.0 has no Transfer-Encoding"
        if coding.strip(b" \t").lower() != b"chunked":
            return "the only supported transfer encoding is chunked, alone and without Content-Length"
    if b"chunked" in by_name.get(b"te", b"").lower():
        return "the header te must not name chunked"
    return None


def _is_for(target: bytes, host: re.Match[bytes]) -> bool:
    """Whether a target in absolute form (a whole URL) is for this host."""
    try:
        parts = parse_url(target)
    except HttpParserError:
        return False
    default = PORTS.get(parts.schema.lower(), 0)
    is_same = parts.host.lower() == host[1].lower().strip(b"[]")
    return is_same and (parts.port or default) == int(host[2] or default) and parts.userinfo is None
