"""Secrets on disk: what a resource calls ``namespace/name`` is ``NAMESPACE/NAME.json`` in the secrets directory.

A JSON object of key to base64 text, as Kubernetes writes a Secret's data, which only its owner may read. Beside them
lie signing secrets, plain files without an ending (``delivery/sign.py``), and in folders that begin with a dot what
is made from Secrets (``java_files``). Written by the controller, read by whoever makes a Kafka client. No word of the
content is ever in an error.
"""

import base64
import binascii
import contextlib
import errno
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from penstock.access.private_files import make_private_folder, others_may_read, write_private
from penstock.errors import Misconfigured

Data = dict[str, bytes]

SUFFIX = ".json"
FINGERPRINT_KEY = ".fingerprint-key"
KEY_BYTES = 32
PART = re.compile(
    r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z"
)  # as Kubernetes names things; nothing else becomes a path


def folder(data_dir: str, secrets_dir: str) -> Path:
    """The secrets directory of a process with these settings."""
    return Path(secrets_dir or Path(data_dir, "secrets")).expanduser().absolute()


def write(secrets_dir: Path, name: str, data: Mapping[str, bytes]) -> None:
    """Whole or not at all, also when the machine fails meanwhile."""
    path = path_of(secrets_dir, name)
    try:
        make_private_folder(secrets_dir)
        write_file(path, data)
    except OSError as error:
        raise Misconfigured(f"Secret {name} cannot be written in {path.parent}: {error.strerror}") from None


def write_file(path: Path, data: Mapping[str, bytes]) -> None:
    text = json.dumps({key: base64.b64encode(value).decode() for key, value in sorted(data.items())})
    make_private_folder(path.parent)
    write_private(path, text.encode())


def read(secrets_dir: Path, name: str) -> Data:
    """Raises Misconfigured when it is missing, when others may read it, or when it is no Secret."""
    where = name.partition("/")[0]
    return read_file(path_of(secrets_dir, name), name, f"apply it in namespace {where}")


def read_file(path: Path, name: str, remedy: str) -> Data:
    """The Secret in this file; ``name`` and ``remedy``, for one that is missing, are for messages."""
    try:
        is_open = others_may_read(path)
        raw = path.read_bytes()
    except FileNotFoundError:
        raise Misconfigured(f"Secret {name} does not exist: {remedy}") from None
    except OSError as error:
        raise Misconfigured(f"Secret {name} cannot be read: {error.strerror}") from None
    if is_open:
        raise Misconfigured(f"others may read Secret {name}", hint=f"chmod 600 {path}")
    try:
        found = json.loads(raw)
        return {str(key): base64.b64decode(value, validate=True) for key, value in found.items()}
    except (ValueError, TypeError, AttributeError, binascii.Error):  # their words would quote what is there
        raise Misconfigured(
            f"Secret {name} is not a JSON object of keys with base64 text", hint="apply it again"
        ) from None


def names(secrets_dir: Path) -> list[str]:
    """All Secrets, as ``namespace/name``."""
    found = secrets_dir.glob(f"*/*{SUFFIX}")
    return [f"{each.parent.name}/{each.name.removesuffix(SUFFIX)}" for each in found if PART.match(each.parent.name)]


def remove(secrets_dir: Path, name: str) -> None:
    """One that is gone already is fine."""
    path = path_of(secrets_dir, name)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # no file has such a name
            raise
    with contextlib.suppress(OSError):  # others are in there
        path.parent.rmdir()


def version_of(secrets_dir: Path, data: Mapping[str, bytes]) -> str:
    """Which content this is, in 16 characters that tell nobody anything else: their key stays here."""
    digest = hmac.new(_fingerprint_key(secrets_dir), digestmod=hashlib.sha256)
    for key, value in sorted(data.items()):
        for part in (key.encode(), value):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()[:16]


def path_of(secrets_dir: Path, name: str) -> Path:
    namespace, _, own = name.partition("/")
    if not PART.match(namespace) or not PART.match(own) or ".." in name:
        raise Misconfigured(f"{name!r} is no name of a Secret", hint="it is written NAMESPACE/NAME")
    return secrets_dir / namespace / f"{own}{SUFFIX}"


def _fingerprint_key(secrets_dir: Path) -> bytes:
    """Made once. Whoever comes second takes what the first has made."""
    path = secrets_dir / FINGERPRINT_KEY
    try:
        make_private_folder(secrets_dir)
        if not path.exists():
            draft = secrets_dir / f"{FINGERPRINT_KEY}.{secrets.token_hex(4)}"
            write_private(draft, secrets.token_bytes(KEY_BYTES))
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
            draft.unlink()
        return path.read_bytes()
    except OSError as error:
        raise Misconfigured(f"{path} cannot be made or read: {error.strerror}") from None
