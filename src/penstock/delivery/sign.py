"""Signatures of deliveries, as Standard Webhooks has them: who gets an event can tell that it comes from here.

    webhook-id: the event's id          webhook-timestamp: seconds since the epoch
    webhook-signature: v1,BASE64 ...    HMAC-SHA256 of "id.timestamp.body", one for each key

Several keys are for rotation: old and new sign side by side until every receiver knows the new one. Keys are in a
file that only its owner may read, one per line (``whsec_BASE64``); they never travel through Kafka. Pure but for
``read_keys``.
"""

import base64
import hashlib
import hmac
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import Misconfigured

PREFIX = "whsec_"
SHORTEST_KEY_BYTES = 16
UNPRINTABLE = re.compile(rb"[^\x21-\x7e]")


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Raises Misconfigured, without a word of what is in the file."""
    try:
        mode = path.stat().st_mode
        lines = path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Misconfigured(f"the signing secret {path.name} cannot be read: {reason}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Misconfigured(f"others may read the signing secret {path.name}: chmod 600 it")
    try:
        keys = tuple(base64.b64decode(line.removeprefix(PREFIX), validate=True) for line in lines)
    except ValueError:  # not base64, or not even ASCII
        raise Misconfigured(f"the signing secret {path.name} is not whsec_ and base64") from None
    if not keys or any(len(key) < SHORTEST_KEY_BYTES for key in keys):
        raise Misconfigured(f"the signing secret {path.name} has no key, or one that is too short")
    return keys


def signature_lines(keys: Sequence[bytes], lines: Sequence[bytes], body: bytes, now: float) -> list[bytes]:
    """Header lines for a request with these lines and this body; a batch goes by the id of nothing but itself."""
    identity = next((line[6:] for line in lines if line[:6].lower() == b"ce-id:"), b"")
    if not identity or UNPRINTABLE.search(identity):
        identity = b"sha256-" + hashlib.sha256(body).hexdigest()[:32].encode()
    timestamp = b"%d" % now
    signed = b".".join((identity, timestamp, body))
    made = (base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys)
    return [
        b"webhook-id:" + identity,
        b"webhook-timestamp:" + timestamp,
        b"webhook-signature:" + b" ".join(b"v1," + each for each in made),
    ]
