"""Host names by which a port may be reached.

A web page of an attacker can make its own DNS name point to this machine (DNS rebinding). The browser then sends the
page's requests here, with the attacker's name as Host. So a server accepts only names that an attacker cannot own.
"""

import ipaddress
import re
from collections.abc import Iterable

from penstock.errors import Misconfigured

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def name_of(authority: str) -> str | None:
    """The name in ``name``, ``name:8090``, ``127.0.0.1:8090`` or ``[::1]:8090``; None for any other form."""
    text = authority.lower()
    if text.startswith("["):
        name, closed, rest = text[1:].partition("]")
        if not closed or not isinstance(address_of(name), ipaddress.IPv6Address):
            return None
    else:
        name, colon, rest = text.partition(":")
        rest = colon + rest
        if not _NAME.fullmatch(name):
            return None
    if rest and not (rest[0] == ":" and rest[1:].isascii() and rest[1:].isdigit() and len(rest) <= len(":65535")):
        return None
    return name


def address_of(name: str) -> Address | None:
    """The parsed address; None for a name. An IPv4 address inside an IPv6 one is the IPv4 address."""
    try:
        found = ipaddress.ip_address(name)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def is_loopback(name: str) -> bool:
    """Whether only this machine answers there. Browsers never ask DNS for ``localhost`` or ``*.localhost``."""
    address = address_of(name)
    if address is not None:
        return address.is_loopback
    return name == "localhost" or name.endswith(".localhost")


def allowed_names(text: str) -> frozenset[str]:
    """The names in a list with commas. Raises Misconfigured for anything that is not a host name."""
    return frozenset(_allowed_name(each.strip()) for each in text.split(",") if each.strip())


def _allowed_name(text: str) -> str:
    name = name_of(f"[{text}]" if isinstance(address_of(text), ipaddress.IPv6Address) else text)
    if name is None:
        raise Misconfigured(f"the allowed host {text!r} is not a host name", hint="--allowed-host penstock.example")
    return name


def is_allowed(authority: str, reached_at: str, names: Iterable[str]) -> bool:
    """Whether a request with this Host, which came to the local address ``reached_at``, is meant for us."""
    name = name_of(authority)
    if name is None:
        return False
    address = address_of(name)
    return is_loopback(name) or name in names or (address is not None and address == address_of(reached_at))
