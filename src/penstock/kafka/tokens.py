"""Access tokens for OAUTHBEARER, for kafka-python, which fetches none itself.

Client credentials, as in RFC 6749, section 4.4; librdkafka and Java do that on their own. Called by ``security``.
"""

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from penstock.errors import Unavailable

TIMEOUT_SECONDS = 5.0
LARGEST_ANSWER = 64 * 1024
EARLY_SECONDS = 30.0  # before its end a token is replaced


@dataclass(frozen=True)
class TokenEndpoint:
    """Where tokens are, and who asks for them."""

    url: str
    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)
    scope: str = ""
    ca: str = field(default="", repr=False)  # besides those whom the system trusts


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """One token for all connections of a client, until it is about to end."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        with self._lock:
            if time.monotonic() >= self._until:
                self._token, seconds = _fetch(self._endpoint)
                self._until = time.monotonic() + max(1.0, seconds - EARLY_SECONDS)
            return self._token


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: client name and secret go only to the address that was checked."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _fetch(endpoint: TokenEndpoint) -> tuple[str, float]:
    """A token and how long it lasts. Raises Unavailable without a word of what was sent or came."""
    asked = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    who = base64.b64encode(f"{endpoint.client_id}:{endpoint.client_secret}".encode()).decode()
    request = urllib.request.Request(
        endpoint.url,
        urllib.parse.urlencode(asked).encode(),
        {"Authorization": f"Basic {who}", "Accept": "application/json"},
    )
    context = ssl.create_default_context()
    if endpoint.ca:
        context.load_verify_locations(cadata=endpoint.ca)
    try:
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirect())
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            found = json.loads(answer.read(LARGEST_ANSWER))
        return str(found["access_token"]), float(found.get("expires_in", 60.0))
    except urllib.error.HTTPError as error:
        raise Unavailable(f"the token endpoint {endpoint.url} answered {error.code}") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unavailable(f"the token endpoint {endpoint.url} gave no token: {type(error).__name__}") from None
