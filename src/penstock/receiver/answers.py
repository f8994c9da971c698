"""The answers of the receiver, as values that know their bytes. Every one but 202 and 200 says why in JSON.

Made by the path (``accept.py``) and, for what is no proper HTTP, by the connection itself.
"""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from penstock.errors import PenstockError
from penstock.telemetry.exposition import CONTENT_TYPE

RETRY_AFTER_SECONDS = 1
ALLOW_EVENTS = ("Allow", "POST, OPTIONS")
ALLOW_HEALTH = ("Allow", "GET, HEAD")
# Words of telemetry.metrics.REJECTIONS; any other refusal is a bad request.
REASONS = {404: "unknown address", 405: "wrong method", 413: "too large", 401: "not allowed", 403: "not allowed"}


class Answer:
    """Status, headers and body, encoded once: most answers are sent many times."""

    __slots__ = ("_body", "_head", "closing", "open", "reason", "status")

    def __init__(
        self, status: int, body: bytes = b"", headers: tuple[tuple[str, str], ...] = (), reason: str = ""
    ) -> None:
        self.status = status
        self.reason = reason  # why nothing was accepted, as the metrics count it; empty: it was, or nothing was sent
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers)]
        if body and not any(name == "Content-Type" for name, _ in headers):
            lines.append("Content-Type: application/json")
        lines.append(f"Content-Length: {len(body)}\r\n")
        self._head = "\r\n".join(lines).encode("latin-1")
        self._body = body
        self.open = self.encoded(close=False)  # on a connection that stays
        self.closing = self.encoded(close=True)

    def encoded(self, *, close: bool, without_body: bool = False) -> bytes:
        """The bytes to send; the answer to HEAD is one without its body."""
        end = b"Connection: close\r\n\r\n" if close else b"\r\n"
        return self._head + end + (b"" if without_body else self._body)


def refusal(
    status: int,
    error: str,
    hint: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    reason: str | None = None,
) -> Answer:
    """An answer that says what was wrong and, where it is known, what to do."""
    said = {"error": error} if hint is None else {"error": error, "hint": hint}
    return Answer(status, msgspec.json.encode(said), headers, reason or REASONS.get(status, "bad request"))


def unavailable(error: str, hint: str | None = None, reason: str = "kafka") -> Answer:
    """503: nothing is wrong with the request, it may be sent again."""
    return refusal(503, error, hint, (("Retry-After", str(RETRY_AFTER_SECONDS)),), reason)


def rejected(error: PenstockError) -> Answer:
    return refusal(400, error.message, error.hint, reason="bad event")


def head_too_large(headers: Sequence[tuple[bytes, bytes]], header_limit: int, head_limit_bytes: int) -> Answer:
    if len(headers) > header_limit:
        return refusal(431, f"the request has more than {header_limit} headers")
    name, value = max(headers, key=lambda header: len(header[1]), default=(b"", b""))
    hint = f"the header {name.decode('latin-1')} is the largest" if 2 * len(value) > head_limit_bytes else None
    return refusal(431, f"the head of the request is larger than {head_limit_bytes} bytes", hint)


def metrics(text: bytes) -> Answer:
    return Answer(200, text, (("Content-Type", CONTENT_TYPE),))


def _no_http2() -> Answer:
    """For a sender that begins with HTTP/2: empty SETTINGS, and GOAWAY with HTTP_1_1_REQUIRED (RFC 9113)."""
    said = b"this port speaks HTTP/1.1"
    goaway = bytes(4) + (0xD).to_bytes(4, "big") + said
    answer = refusal(505, said.decode())
    answer.closing = _frame(4, b"") + _frame(7, goaway)
    return answer


def _frame(kind: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, 0)) + bytes(4) + payload


ACCEPTED = Answer(202)
OK = Answer(200)
OPTIONS = Answer(200, headers=(ALLOW_EVENTS,))
NOT_READY = unavailable(
    "the receiver has not read the contract yet", "is Kafka running, and the controller?", reason="not ready"
)
DRAINING = unavailable("the receiver is ending", reason="not ready")
MISCONFIGURED = unavailable("the Kafka of this address cannot be used as it is set up; the receiver's log says why")
OVERLOADED = unavailable("the receiver holds as many events as it may", reason="overloaded")
TOO_SLOW = unavailable(
    "the receiver holds too many bytes of incomplete requests, and this one was the oldest", reason="overloaded"
)
TOO_MANY_OF_ADDRESS = unavailable("the receiver has too many connections from this address", reason="overloaded")
TOO_MANY_CONNECTIONS = unavailable("the receiver has as many connections as it may", reason="overloaded")
WRONG_METHOD = refusal(405, "events come with POST", headers=(ALLOW_EVENTS,))
WRONG_HEALTH_METHOD = refusal(405, "health is asked for with GET", headers=(ALLOW_HEALTH,))
TOO_MANY_EMPTY_LINES = refusal(400, "there are too many empty lines before the request")
MALFORMED = refusal(400, "this is not well-formed HTTP/1.1")
NO_HTTP_2 = _no_http2()
TIMED_OUT = refusal(408, "the request was not complete in time")
FAILED = refusal(500, "the receiver failed on this request; its log says why", reason="failed")
