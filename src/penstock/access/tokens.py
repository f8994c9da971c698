"""Bearer tokens in files that only their owner can read: everyone who can read the file may use the port.

The process that serves a port makes the token; its callers read the file. A token is never logged or shown.
"""

import hmac
import secrets
from pathlib import Path

from penstock.access.private_files import make_private_folder, others_may_read, write_private
from penstock.errors import Misconfigured

TOKEN_BYTES = 32
SCHEME = "Bearer "


def make_token(path: Path) -> str:
    """Writes a new token into this file. The old one is no longer valid."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    try:
        make_private_folder(path.parent)
        write_private(path, token.encode() + b"\n")
    except OSError as error:
        raise Misconfigured(f"the token file {path} cannot be written: {error.strerror}") from None
    return token


def read_token(path: Path) -> str:
    """Raises Misconfigured when the file is missing, empty, or readable by others."""
    try:
        if others_may_read(path):
            raise Misconfigured(f"others may read the token file {path}", hint=f"chmod 600 {path}")
        token = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise Misconfigured(
            f"the token file {path} does not exist", hint="is the process that makes it running?"
        ) from None
    except (OSError, ValueError) as error:
        raise Misconfigured(f"the token file {path} cannot be read: {type(error).__name__}") from None
    if not token:
        raise Misconfigured(f"the token file {path} is empty")
    return token


def keep_token(path: Path) -> str:
    """The token in this file; it is made if there is none."""
    return read_token(path) if path.exists() else make_token(path)


def authorization(token: str) -> str:
    """The value of the Authorization header."""
    return SCHEME + token


def is_authorized(header: str | None, token: str) -> bool:
    """Whether this Authorization header carries the token. Takes the same time for every wrong one."""
    scheme, _, given = (header or "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
