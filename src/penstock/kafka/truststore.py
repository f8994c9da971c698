"""The certificate authorities that this machine trusts, in the form that Java reads.

A Java runtime from PyPI knows only the authorities it was built with, not those an organisation added to the
machine, which is what Python trusts. Called by ``ivy`` before it downloads.
"""

import hashlib
import ssl
import struct
import time
from collections.abc import Sequence
from pathlib import Path

PASSWORD = "changeit"  # Java's customary one: a trust store holds nothing secret, only a check of its content

# The JKS format: a head, an entry per certificate, and a SHA-1 digest over the password, a fixed phrase and both.
MAGIC = 0xFEEDFEED
VERSION = 2
TRUSTED_CERTIFICATE = 2
DIGEST_PHRASE = b"Mighty Aphrodite"


def java_options(folder: Path) -> list[str]:
    """Options that make Java trust what Python trusts; none where Python's list is empty or unknown."""
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        return []
    store = folder / "authorities.jks"
    store.write_bytes(jks(certificates))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
    ]


def jks(certificates: Sequence[bytes]) -> bytes:
    """A trust store of these certificates (each in DER form)."""
    now_ms = int(time.time() * 1000)
    content = struct.pack(">III", MAGIC, VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        content += struct.pack(">I", TRUSTED_CERTIFICATE) + _text(f"authority-{number}") + struct.pack(">q", now_ms)
        content += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    return content + hashlib.sha1(PASSWORD.encode("utf-16-be") + DIGEST_PHRASE + content).digest()


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")
