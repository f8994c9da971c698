"""Asks the receiver, as a sender would, whether it is there and knows an address.

Called by the reconciling of brokers and by the status page. Answers are values; nothing here raises.
"""

import hashlib
import http.client
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 2.0
LARGEST_ANSWER = 64 * 1024  # the body is not used
FRESH_SECONDS = 0.5  # many brokers are reconciled at once; the receiver is asked for all of them together


@dataclass(frozen=True)
class Answer:
    ok: bool
    reason: str = ""
    message: str = ""


class Receiver:
    """The receiver at an address, seen from outside."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._last: tuple[float, Answer] | None = None

    def ready(self) -> Answer:
        if self._last is not None and time.monotonic() - self._last[0] < FRESH_SECONDS:
            return self._last[1]
        answer = self._ask_ready()
        self._last = (time.monotonic(), answer)
        return answer

    def knows(self, path: str) -> Answer:
        """Whether the address leads somewhere: the receiver answers a probe with 200 and its hash."""
        expected = hashlib.sha256(path.encode()).hexdigest()[:16]
        try:
            status, headers = self._get(path, {"K-Network-Probe": "probe", "K-Network-Hash": expected})
        except OSError as error:
            return Answer(False, "ReceiverUnreachable", f"the receiver at {self.url} does not answer: {error}")
        if status == http.client.NOT_FOUND:
            return Answer(False, "RouteUnknown", f"the receiver at {self.url} does not know {path} yet")
        if status != http.client.OK:
            return Answer(False, "ProbeFailed", f"the receiver answered the probe of {path} with {status}")
        if headers.get("k-network-hash") != expected:
            return Answer(False, "ProbeFailed", f"something else than a receiver answers at {self.url}")
        return Answer(True)

    def _ask_ready(self) -> Answer:
        try:
            status, _ = self._get("/readyz", {})
        except OSError as error:
            return Answer(False, "ReceiverUnreachable", f"the receiver at {self.url} does not answer: {error}")
        if status != http.client.OK:
            return Answer(False, "ReceiverNotReady", f"the receiver at {self.url} is not ready ({status})")
        return Answer(True)

    def _get(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            response.read(LARGEST_ANSWER)
            return response.status, {name.lower(): value for name, value in response.getheaders()}
        except http.client.HTTPException as error:
            raise OSError(f"not an HTTP answer ({error!r})") from error
        finally:
            connection.close()
