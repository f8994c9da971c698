"""Which requests may pass to the admin API, and as which caller. Pure, except that it looks up sessions.

    probes ─▶ Host ─▶ Origin, Sec-Fetch-Site ─▶ Content-Type ─▶ pages ─▶ token or session

In: a request's head. Out: a Caller, or a Refusal with the reason and a hint. Called by ``middleware``.
"""

import ipaddress
import logging
import secrets
from dataclasses import dataclass, field
from typing import Literal

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from penstock.access.hosts import address_of, allowed_names, is_allowed
from penstock.access.tokens import is_authorized, keep_token
from penstock.control.guard.sessions import Session, Sessions
from penstock.control.settings import ControllerSettings
from penstock.errors import Misconfigured

logger = logging.getLogger("penstock.control")

PROBES = frozenset({"/healthz", "/readyz"})
METRICS = "/metrics"
LOGIN = "/login"
READING = frozenset({"GET", "HEAD"})
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
OWN_SITE = frozenset({"same-origin", "none"})  # none: typed, or opened from a bookmark
THIS_MACHINE = "this machine"


@dataclass(frozen=True)
class Asked:
    """The head of a request."""

    method: str
    path: str
    headers: Headers
    peer: str = ""  # the caller's address
    reached_at: str = ""  # our own address that the connection came to

    @property
    def is_reading(self) -> bool:
        return self.method in READING

    @property
    def is_page(self) -> bool:
        """The files of the dashboard and the login: nothing in them is confidential."""
        return self.is_reading and (self.path in ("/", LOGIN) or self.path.startswith("/static/"))


@dataclass(frozen=True)
class Caller:
    kind: Literal["token", "session", "anonymous"]
    key: str  # the same for all requests of one caller
    session: Session | None = None


@dataclass(frozen=True)
class Refusal:
    status: int
    message: str
    hint: str


@dataclass(frozen=True)
class Access:
    """The access rules of one admin port."""

    token: str = field(repr=False)
    needs_token: bool = False
    names: frozenset[str] = frozenset()  # further host names
    metrics: Literal["auto", "on", "off"] = "auto"
    cookie: str = "penstock"
    sessions: Sessions = field(default_factory=Sessions)

    @property
    def metrics_are_open(self) -> bool:
        return self.metrics == "on" or (self.metrics == "auto" and not self.needs_token)


def access_of(settings: ControllerSettings, port: int) -> Access:
    """Keeps the token in its file. Raises Misconfigured when one is required and the file cannot be used."""
    try:
        token = keep_token(settings.admin_token_path)
    except Misconfigured as error:
        if settings.needs_token:
            raise
        logger.warning("the admin API runs without a token: %s", error.message)
        token = secrets.token_urlsafe()  # a token that no caller knows
    return Access(
        token=token,
        needs_token=settings.needs_token,
        names=allowed_names(settings.allowed_hosts),
        metrics=settings.metrics_open,
        cookie=f"penstock-{port}",  # browsers keep one set of cookies for all ports of a host
    )


def judge(access: Access, asked: Asked) -> Caller | Refusal:
    if asked.is_reading and (asked.path in PROBES or (asked.path == METRICS and access.metrics == "on")):
        return _anonymous(asked)
    refusal = _wrong_host(access, asked) or _foreign_page(asked) or _wrong_body(asked)
    if refusal is not None:
        return refusal
    if asked.is_page or (asked.is_reading and asked.path == METRICS and access.metrics_are_open):
        return _anonymous(asked)
    return _caller(access, asked)


def session_of(access: Access, headers: Headers) -> Session | None:
    """The session behind the request's cookie."""
    secret = cookie_parser("; ".join(headers.getlist("cookie"))).get(access.cookie)
    return access.sessions.find(secret) if secret else None


def _wrong_host(access: Access, asked: Asked) -> Refusal | None:
    hosts = asked.headers.getlist("host")
    if len(hosts) == 1 and is_allowed(hosts[0], asked.reached_at, access.names):
        return None
    shown = repr(hosts[0][:100]) if hosts else "none"
    return Refusal(
        421,
        f"the request is for the host {shown}, which is not a name of this server",
        "if this name is yours, start the server with --allowed-host NAME (PENSTOCK_ALLOWED_HOSTS)",
    )


def _foreign_page(asked: Asked) -> Refusal | None:
    """Requests that a page of another origin makes a browser send."""
    origins, sites = asked.headers.getlist("origin"), asked.headers.getlist("sec-fetch-site")
    if origins and (len(origins) > 1 or not _is_own_origin(origins[0], asked.headers.get("host", ""))):
        return Refusal(
            403,
            f"a page of {origins[0][:100]!r} may not use this API",
            "open the dashboard at this server's own address; a proxy in front must not change Host",
        )
    goes_to_page = asked.headers.get("sec-fetch-mode") == "navigate" and asked.is_page
    if sites and not goes_to_page and not (len(sites) == 1 and sites[0].lower() in OWN_SITE):
        return Refusal(
            403,
            f"a page of another site may not use this API (Sec-Fetch-Site: {sites[0][:100]})",
            "open the dashboard at this server's own address",
        )
    return None


def _is_own_origin(origin: str, host: str) -> bool:
    """The scheme may differ: a proxy in front may speak TLS."""
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _wrong_body(asked: Asked) -> Refusal | None:
    """Only JSON: a page can make a browser send text and forms to any server, without a preflight request."""
    types = asked.headers.getlist("content-type")
    has_body = asked.headers.get("content-length", "0") != "0" or "transfer-encoding" in asked.headers
    if asked.method not in WITH_BODY or (not types and not has_body):
        return None
    if len(types) == 1 and types[0].partition(";")[0].strip().lower() == "application/json":
        return None
    shown = repr(types[0][:100]) if types else "missing"
    return Refusal(415, f"the Content-Type is {shown}; it must be application/json", "Content-Type: application/json")


def _caller(access: Access, asked: Asked) -> Caller | Refusal:
    given = asked.headers.getlist("authorization")
    if len(given) == 1 and is_authorized(given[0], access.token):
        return Caller("token", f"token at {_neighbourhood(asked.peer)}")
    session = session_of(access, asked.headers)
    if session is not None:
        if asked.is_reading or _is_proven_own(asked):
            return Caller("session", f"session {session.id}", session)
        return Refusal(
            403,
            "a change with a session must show that it comes from the dashboard (Origin or Sec-Fetch-Site)",
            "use the token instead: Authorization: Bearer …",
        )
    if not access.needs_token:
        return _anonymous(asked)
    return Refusal(
        401,
        "the token is wrong" if given else "a token is required, or a session of the dashboard",
        "in a browser: the link that `penstock dashboard` prints; on the command line: --token-file FILE",
    )


def _is_proven_own(asked: Asked) -> bool:
    """Values of other origins have been refused before; here one must be present."""
    return "origin" in asked.headers or asked.headers.get("sec-fetch-site", "").lower() == "same-origin"


def _anonymous(asked: Asked) -> Caller:
    return Caller("anonymous", f"at {_neighbourhood(asked.peer)}")


def _neighbourhood(peer: str) -> str:
    """Addresses that one caller can choose freely count as one: all of loopback, and a /64 of IPv6."""
    address = address_of(peer.partition("%")[0])
    if address is None or address.is_loopback:
        return THIS_MACHINE
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
