"""Ports: which are free, and who has the one that is not. Called before anything is started."""

import contextlib
import errno
import os
import random
import socket
import threading
from contextlib import closing
from pathlib import Path

from penstock.errors import Misconfigured

FREE_PORTS = range(15_000, 32_000)
MOST_TRIES = 1_000
_dice = random.SystemRandom()  # processes that seed ``random`` with the same number still choose different ports
_chosen: set[int] = set()
_choosing = threading.Lock()

LISTENING = "0A"  # the kernel's word for a socket that accepts connections


def free_port(host: str = "127.0.0.1") -> int:
    """A port that is free now, and below those that the kernel gives to outgoing connections."""
    with _choosing:
        for _ in range(MOST_TRIES):
            port = _dice.choice([each for each in FREE_PORTS if each not in _chosen])
            with closing(socket.socket(_family(host))) as probe, contextlib.suppress(OSError):
                probe.bind((host, port))
                _chosen.add(port)  # a second call may come before the first port is used
                return port
    raise Misconfigured(f"no free port was found on {host} from {FREE_PORTS[0]} to {FREE_PORTS[-1]}")


def require_free(host: str, port: int, flag: str) -> None:
    """Raises Misconfigured, naming the port, the flag that changes it and, where it can be seen, who has it."""
    with closing(socket.socket(_family(host))) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            return
        except OSError as error:
            code, reason = error.errno, error.strerror
    if code == errno.EADDRINUSE:
        owner = owner_of(port)
        raise Misconfigured(
            f"port {port} on {host} is taken" + (f" by {owner}" if owner else ""),
            hint=f"{flag} {free_port(host)} is free, or stop what has it",
        )
    raise Misconfigured(f"cannot listen on {host}:{port}: {reason}", hint=f"see --host and {flag}")


def answers(host: str, port: int, timeout_seconds: float = 0.5) -> bool:
    """Whether somebody accepts connections there."""
    try:
        with closing(socket.create_connection((host, port), timeout_seconds)):
            return True
    except OSError:
        return False


def reachable_host(host: str) -> str:
    """Where a client on this machine finds a server that listens on ``host``."""
    if host in ("0.0.0.0", ""):
        return "127.0.0.1"
    return "::1" if host == "::" else host


def bracketed(host: str) -> str:
    """As it is written before a port."""
    return f"[{host}]" if ":" in host else host


def http_url(host: str, port: int) -> str:
    """Where a client on this machine finds an HTTP server that listens on ``host``."""
    return f"http://{bracketed(reachable_host(host))}:{port}"


def owner_of(port: int) -> str | None:
    """The process that listens on this port, as "NAME (pid N)", where the system lets us see it."""
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            links = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")}
            if links & inodes:
                return f"{Path(f'/proc/{pid}/comm').read_text().strip()} (pid {pid})"
        except OSError:
            continue
    return None


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            if columns[3] == LISTENING and int(columns[1].rsplit(":", 1)[1], 16) == port:
                inodes.add(f"socket:[{columns[9]}]")
    return inodes


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
