"""Which network addresses Penstock may connect to on behalf of a resource.

Two rules. Addresses of link-local networks and of clouds' metadata services are always refused: a user who can write
a resource must not be able to read a machine's credentials. Everything else that is not public (loopback, private
networks) is refused only if the operator sets it so (``PENSTOCK_PRIVATE_ADDRESSES=refuse``). An IPv4 address inside
an IPv6 one is checked too, since gateways forward to it.

Called where a connection begins: by the delivery client for every socket, by ``kafka/connection.py`` for every
client of another cluster; and when a resource is applied, for addresses that are written as numbers.
"""

import ipaddress
import re
import socket
import threading
import time
from dataclasses import dataclass
from ipaddress import IPv4Address as IPv4
from ipaddress import IPv6Address as IPv6
from typing import Literal

from penstock.errors import Misconfigured, Unavailable
from penstock.settings import setting

Address = IPv4 | IPv6
PrivateAddresses = Literal["allow", "refuse"]

PRIVATE_ADDRESSES_SETTING: PrivateAddresses = setting(
    "allow",
    "whether subscribers and other Kafka clusters may be in private networks or on this host; "
    "link-local addresses and metadata services are always refused",
)

RESOLVE_SECONDS = 0.3  # how long a caller waits for a name; the look-up goes on without it
RESOLVED_SECONDS = 30.0  # how long the result of a look-up is used
MOST_NAMES = 1000  # kept at a time

_NEVER = tuple(
    ipaddress.ip_network(each)
    for each in (
        "169.254.0.0/16", "fe80::/10",  # link-local; most clouds' metadata services
        "168.63.129.16/32",  # Azure's
        "100.100.100.200/32",  # Alibaba's
        "192.0.0.192/32",  # Oracle's
        "fd00:ec2::/32", "fd20:ce::254/128",  # Amazon's and Google's in IPv6
        "fd00:42::42/128", "fd00:c1::a9fe:a9fe/128",  # Scaleway's and Oracle's
    )
)  # fmt: skip
_SPECIAL_V4 = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
        "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",
        "240.0.0.0/4",
    )
)  # fmt: skip
_GLOBAL_V6 = ipaddress.ip_network("2000::/3")
_SPECIAL_V6 = tuple(
    ipaddress.ip_network(each)
    for each in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)  # fmt: skip
_MAPPED = ipaddress.ip_network("::ffff:0:0/96")  # the IPv4 address itself
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # a gateway to the IPv4 address
_LOCAL_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")  # a gateway of the local network
_ENDS_IN_V4 = (
    ipaddress.ip_network("::/96"),  # IPv4-compatible
    ipaddress.ip_network("::ffff:0:0:0/96"),  # IPv4-translated
    _LOCAL_NAT64,
    _MAPPED,
    _NAT64,
)
_SIX_TO_FOUR = ipaddress.ip_network("2002::/16")
_TEREDO = ipaddress.ip_network("2001::/32")
_ISATAP = (0x00005EFE, 0x02005EFE)  # bits 64 to 95

LONGEST_NAME = 253
_NAME = re.compile(r"[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?(\.[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?)*\.?")
_ZONED = re.compile(r"[0-9a-fA-F:.]+(%[a-zA-Z0-9._~-]+)?")  # an IP address, with a zone or without
_SHORT = re.compile(r"[0-9][0-9a-fA-FxX.]*")  # forms like 127.1 and 0x7f000001
_LEADING_ZERO = re.compile(r"(.*\.)?0[0-9].*")  # octal for the resolver, decimal for Java's Kafka client
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_SERVER = re.compile(r"(.*):[0-9]{1,5}")


@dataclass(frozen=True)
class AddressPolicy:
    """What the operator allows. Workers get it too."""

    private: PrivateAddresses = "allow"

    def refusal(self, text: str) -> str:
        """Why this numeric address must not be connected to; empty: it may be."""
        address = _parsed(text)
        if any(_is_in(each, _NEVER) for each in (address, *_embedded(address))):
            return "is link-local or a cloud's metadata service, which is never connected to"
        if self.private == "refuse" and not _is_public(address):
            return "is not public, and PENSTOCK_PRIVATE_ADDRESSES is refuse"
        return ""

    def check_host(self, host: str, what: str) -> None:
        """Raises Misconfigured when the host is, or resolves to, an address that must not be connected to.

        Unavailable while the name is still being looked up. A name that does not resolve passes: the client that
        connects reports that. The name may resolve to another address later; only the delivery client checks the very
        address that it connects to.
        """
        literal = literal_address(host)
        if not literal and not is_host(host):
            raise Misconfigured(f"{what} {host!a} is not a host", hint="name a DNS name or an IP address")
        for each in (literal,) if literal else _resolved(host):
            if why := self.refusal(each):
                shown = f"{host} ({each})" if each != host else host
                raise Misconfigured(f"{what} {shown} {why}", hint="name another address")

    def check_servers(self, servers: str, what: str) -> None:
        """The same for ``host:port,host:port``."""
        for each in servers.split(","):
            server = each.strip()
            named = _SERVER.fullmatch(server)
            host = named[1] if named else server  # Kafka's clients add the port
            if host:
                self.check_host(host[1:-1] if host[0] == "[" and host[-1] == "]" else host, what)


ALWAYS = AddressPolicy()  # the rule that no setting turns off


def literal_address(host: str) -> str:
    """The address that a host is in itself, also in the short forms that the resolver takes (127.1, 0x7f000001).

    Empty: the host is a name, or a number that not all clients read in the same way.
    """
    if _ZONED.fullmatch(host):
        try:
            return str(_parsed(host))
        except ValueError:
            pass
    if _SHORT.fullmatch(host) and not _LEADING_ZERO.fullmatch(host):
        try:
            return socket.inet_ntoa(socket.inet_aton(host))
        except OSError:
            return ""
    return ""


def is_host(host: str) -> bool:
    """Whether it is a DNS name or an address and nothing else: no port, user, path, brackets or zone.

    A name whose last part is a number is not a host: some resolvers read it as an address.
    """
    if "%" in host:
        return False
    if literal_address(host):
        return True
    return len(host) <= LONGEST_NAME and bool(_NAME.fullmatch(host)) and not _ends_in_number(host)


def is_plain_authority(authority: str) -> bool:
    """Whether all parsers find the same host in this part of a URL: ``host``, with a user and a port or without."""
    user, _, server = authority.rpartition("@")
    named = _SERVER.fullmatch(server)
    host = named[1] if named else server.removesuffix(":")
    if host.startswith("[") and host.endswith("]") and ":" in host:
        host = host[1:-1]
    elif ":" in host:
        return False
    return is_host(host) and not set(user) & set("@\\/?#[]")


def _ends_in_number(name: str) -> bool:
    last = name.removesuffix(".").rpartition(".")[2]
    return bool(_NUMBER.fullmatch(last))


def _is_public(address: Address) -> bool:
    """Reachable from everywhere: not this host, not a private network, not a range with a special purpose."""
    if isinstance(address, IPv4):
        return not _is_in(address, _SPECIAL_V4) and not _is_in(address, _NEVER)
    if _is_in(address, (_MAPPED, _NAT64)):
        return _is_public(_last_v4(address))
    return address in _GLOBAL_V6 and not _is_in(address, _SPECIAL_V6)


def _embedded(address: Address) -> list[IPv4]:
    """IPv4 addresses to which packets for this one may be forwarded."""
    if isinstance(address, IPv4):
        return []
    bits = int(address)
    found = []
    if _is_in(address, _ENDS_IN_V4) or bits >> 32 & 0xFFFFFFFF in _ISATAP:
        found.append(_last_v4(address))
    if address in _LOCAL_NAT64:
        # RFC 6052: only the gateway knows the length of its prefix, so all are tried; bits 64 to 71 are not used.
        found.append(IPv4((bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF))
        found.append(IPv4((bits >> 64 & 0xFF) << 24 | bits >> 32 & 0xFFFFFF))
        found.append(IPv4(bits >> 24 & 0xFFFFFFFF))
    if address in _SIX_TO_FOUR:
        found.append(IPv4(bits >> 80 & 0xFFFFFFFF))
    if address in _TEREDO:
        found += [IPv4(bits >> 64 & 0xFFFFFFFF), IPv4(~bits & 0xFFFFFFFF)]
    return found


def _last_v4(address: IPv6) -> IPv4:
    return IPv4(int(address) & 0xFFFFFFFF)


def _is_in(address: Address, networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]) -> bool:
    return any(address in each for each in networks)  # False if the versions differ


def _parsed(text: str) -> Address:
    return ipaddress.ip_address(text.partition("%")[0])


class _Names:
    """Names that were looked up recently. A slow name server must not block the caller, so a thread asks it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._asking: dict[str, threading.Event] = {}

    def resolved(self, host: str) -> tuple[str, ...]:
        with self._lock:
            until, found = self._found.get(host, (0.0, ()))
            if time.monotonic() < until:
                return found
            done = self._asking.get(host)
            if done is None:
                done = self._asking[host] = threading.Event()
                threading.Thread(target=self._ask, args=(host, done), name="resolve", daemon=True).start()
        if not done.wait(RESOLVE_SECONDS):
            raise Unavailable(f"the name {host} is still being looked up")
        with self._lock:
            return self._found.get(host, (0.0, ()))[1]

    def _ask(self, host: str, done: threading.Event) -> None:
        try:
            answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            found = tuple(sorted({str(each[4][0]) for each in answers}))
        except (OSError, UnicodeError):
            found = ()
        with self._lock:
            if len(self._found) >= MOST_NAMES:
                self._found.clear()
            self._found[host] = (time.monotonic() + RESOLVED_SECONDS, found)
            self._asking.pop(host, None)
        done.set()


_resolved = _Names().resolved
