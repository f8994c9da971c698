"""Sessions of browsers: a one-time code in a link becomes a session behind a cookie.

    POST /api/penstock/login-link ──▶ code, for two minutes ──GET /login?code=…──▶ session, for twelve hours

Both are kept in the memory of this process only: when the controller ends, all sessions end. Only a hash of each is
kept, so a look-up takes the same time for every wrong guess. Used by ``policy`` and ``login``, on the event loop.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

CODE_SECONDS = 120.0
SESSION_SECONDS = 12 * 3600.0
MOST_CODES = 100
MOST_SESSIONS = 1000
SECRET_BYTES = 32


@dataclass(frozen=True)
class Session:
    id: str  # useless to an attacker: the cookie holds another secret
    ends: float  # by the clock of ``Sessions``


class Sessions:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._codes: dict[bytes, float] = {}  # until when each may be used, oldest first
        self._sessions: dict[bytes, Session] = {}  # oldest first

    def new_code(self) -> str:
        """For one login. Beyond a hundred open codes the oldest is dropped."""
        self._drop_ended()
        code = secrets.token_urlsafe(SECRET_BYTES)
        self._codes[_hash(code)] = self._clock() + CODE_SECONDS
        _keep_newest(self._codes, MOST_CODES)
        return code

    def redeem(self, code: str) -> str | None:
        """The secret for the cookie of a new session; None for a code that is unknown, used or too old."""
        until = self._codes.pop(_hash(code), None)
        self._drop_ended()
        if until is None or self._clock() >= until:
            return None
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._sessions[_hash(secret)] = Session(secrets.token_hex(8), self._clock() + SESSION_SECONDS)
        _keep_newest(self._sessions, MOST_SESSIONS)
        return secret

    def find(self, secret: str) -> Session | None:
        """The session of this cookie while it lasts."""
        session = self._sessions.get(_hash(secret))
        return session if session is not None and self._clock() < session.ends else None

    def seconds_left(self, session: Session) -> float:
        return session.ends - self._clock()

    def _drop_ended(self) -> None:
        now = self._clock()
        self._codes = {code: until for code, until in self._codes.items() if now < until}
        self._sessions = {secret: each for secret, each in self._sessions.items() if now < each.ends}


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _keep_newest(found: MutableMapping[bytes, Any], most: int) -> None:
    while len(found) > most:
        del found[next(iter(found))]
