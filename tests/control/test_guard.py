"""Sessions, codes and seats over time, with the clock passed in."""

import asyncio
from collections.abc import MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from penstock.control.guard import sessions
from penstock.control.guard.middleware import Guard, stream_of
from penstock.control.guard.policy import Access, Asked, Caller, judge
from penstock.control.guard.seats import FEED, SEARCH, TAIL, TRIAL, WATCH, Limit, Seats, TooMany
from penstock.control.guard.sessions import CODE_SECONDS, MOST_CODES, MOST_SESSIONS, SESSION_SECONDS, Sessions
from penstock.errors import Unavailable


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def signed_in(kept: Sessions) -> str:
    secret = kept.redeem(kept.new_code())
    assert secret is not None
    return secret


@pytest.mark.parametrize(("seconds", "works"), [(CODE_SECONDS - 1, True), (CODE_SECONDS, False), (1e9, False)])
def test_a_code_works_for_two_minutes(seconds: float, works: bool) -> None:
    clock = Clock()
    kept = Sessions(clock)
    code = kept.new_code()
    clock.now += seconds
    assert (kept.redeem(code) is not None) is works


def test_a_code_works_once_and_a_guess_never() -> None:
    kept = Sessions(Clock())
    code = kept.new_code()
    assert kept.redeem(code[:-1]) is None
    assert kept.redeem("") is None
    assert kept.redeem(code) is not None
    assert kept.redeem(code) is None


@pytest.mark.parametrize(("seconds", "lasts"), [(SESSION_SECONDS - 1, True), (SESSION_SECONDS, False)])
def test_a_session_ends_after_twelve_hours_however_much_it_is_used(seconds: float, lasts: bool) -> None:
    clock = Clock()
    kept = Sessions(clock)
    secret = signed_in(kept)
    for _ in range(10):
        clock.now += seconds / 10
        kept.find(secret)
    assert (kept.find(secret) is not None) is lasts


def test_a_code_is_no_session_and_a_session_no_code() -> None:
    kept = Sessions(Clock())
    code = kept.new_code()
    secret = signed_in(kept)
    assert kept.find(code) is None
    assert kept.redeem(secret) is None


def test_codes_and_sessions_are_bounded_and_the_oldest_goes_first() -> None:
    kept = Sessions(Clock())
    codes = [kept.new_code() for _ in range(MOST_CODES + 1)]
    assert kept.redeem(codes[0]) is None
    assert kept.redeem(codes[1]) is not None
    secrets = [signed_in(kept) for _ in range(MOST_SESSIONS)]
    assert kept.find(secrets[0]) is not None
    newest = signed_in(kept)
    assert kept.find(secrets[0]) is None
    assert kept.find(newest) is not None


def test_secrets_are_not_kept_as_they_are() -> None:
    kept = Sessions(Clock())
    code, secret = kept.new_code(), signed_in(kept)
    assert code not in repr(vars(kept))
    assert secret not in repr(vars(kept))


@pytest.mark.parametrize(
    ("path", "limit"),
    [("/api/penstock/tail", TAIL), ("/api/penstock/search", SEARCH), ("/api/penstock/trial", TRIAL)],
)
def test_what_takes_a_thread_for_long_takes_a_seat(path: str, limit: Limit) -> None:
    """Kept promise: one caller's searches and trials leave threads for everybody else's requests."""
    assert stream_of({"path": path, "query_string": b""}) == limit


@pytest.mark.parametrize("limit", [TAIL, SEARCH, TRIAL, FEED, WATCH], ids=lambda each: each.name)
def test_one_caller_never_has_all_seats(limit: Limit) -> None:
    seats = Seats()
    with ExitStack() as held:
        for _ in range(limit.per_caller):
            held.enter_context(seats.taken(limit, "greedy"))
        with pytest.raises(TooMany, match=limit.name), seats.taken(limit, "greedy"):
            pass
        with seats.taken(limit, "other"):
            pass
        for n in range(limit.in_all - limit.per_caller):
            held.enter_context(seats.taken(limit, f"caller {n}"))
        with pytest.raises(Unavailable, match="all callers"), seats.taken(limit, "one more"):
            pass
    with seats.taken(limit, "greedy"):
        pass


def test_a_stream_ends_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: a page that stays open sees nothing any more when its session is over."""
    monkeypatch.setattr(sessions, "SESSION_SECONDS", 10.0)
    access = Access("token", needs_token=True)
    secret = signed_in(access.sessions)
    ended = asyncio.Event()

    async def endless(_scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await asyncio.Event().wait()
        finally:
            ended.set()

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/penstock/live",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"cookie", f"penstock={secret}".encode())],
    }
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    async def look() -> None:
        await asyncio.wait_for(Guard(endless, access)(scope, receive, send), 60)
        await Guard(endless, access)(scope, receive, send)

    asyncio.run(look())
    assert ended.is_set()
    assert [each.get("status") for each in sent[:1]] == [200]
    assert sent[1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert sent[2]["status"] == 401


def test_holders_of_the_token_at_different_addresses_are_different_callers() -> None:
    """Kept promise: the tails of one colleague do not take the seats of another, who has the same token."""
    access = Access("token", needs_token=True)
    headers = Headers({"host": "10.0.0.9:8090", "authorization": "Bearer token"})
    callers = [
        judge(access, Asked("GET", "/api/penstock/tail", headers, peer, "10.0.0.9"))
        for peer in ("10.0.0.1", "10.0.0.2", "127.0.0.1", "127.0.0.2")
    ]
    keys = [each.key for each in callers if isinstance(each, Caller)]
    assert len(keys) == 4
    assert len(set(keys)) == 3, "all of loopback is one address"
