"""Certificates and keys in PEM, checked before a client gets them: what is wrong is said here, by name and date.

Pure but for the clock, which is passed in. Called by ``security``.
"""

import base64
import os
import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s([A-Za-z0-9+/=\s]++)-----END \1-----")
CERTIFICATE = "CERTIFICATE"
PKCS8 = "PRIVATE KEY"  # the only form that Java reads
UTC_TIME, GENERALIZED_TIME, SEQUENCE, VERSION = 0x17, 0x18, 0x30, 0xA0


class Unusable(ValueError):
    """What is wrong with a certificate or key; says nothing of what is in it."""


def check_certificates(pem: str, now: datetime) -> None:
    """At least one, all of them readable, none of them over, or to come."""
    blocks = [body for kind, body in _blocks(pem) if kind == CERTIFICATE]
    if not blocks:
        raise Unusable("holds no certificate in PEM form (BEGIN CERTIFICATE)")
    try:
        for body in blocks:
            ssl.create_default_context(cadata=body)
            begin, end = _validity(body)
            if now >= end:
                raise Unusable(f"holds a certificate that expired on {end:%Y-%m-%d %H:%M} UTC")
            if now < begin:
                raise Unusable(f"holds a certificate that is not valid before {begin:%Y-%m-%d %H:%M} UTC")
    except Unusable:
        raise
    except (ssl.SSLError, IndexError, ValueError):  # our own walk through it has met what is no certificate
        raise Unusable("holds a certificate that cannot be read") from None


def check_key(pem: str) -> None:
    kinds = [kind for kind, _ in _blocks(pem)]
    if PKCS8 in kinds:
        return
    if any("ENCRYPTED" in kind for kind in kinds) or "ENCRYPTED" in pem:
        raise Unusable("is protected by a passphrase; take it off: openssl pkcs8 -topk8 -nocrypt")
    if any(kind.endswith("PRIVATE KEY") for kind in kinds):
        raise Unusable("is not in the form PKCS #8 (BEGIN PRIVATE KEY): openssl pkcs8 -topk8 -nocrypt makes it so")
    raise Unusable("holds no private key in PEM form (BEGIN PRIVATE KEY)")


def check_pair(certificate: str, key: str) -> None:
    """Whether they belong together."""
    try:
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key)
    except ssl.SSLError as error:
        if "MISMATCH" in (error.reason or ""):
            raise Unusable("does not belong to the certificate") from None
        raise Unusable("cannot be used together with the certificate") from None


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Python takes them from a file only; this one is in memory and nowhere else."""
    descriptor = os.memfd_create("client-certificate")
    try:
        os.write(descriptor, f"{key.strip()}\n{certificate.strip()}\n".encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _blocks(pem: str) -> Iterator[tuple[str, bytes]]:
    for found in PEM.finditer(pem):
        try:
            yield found[1], base64.b64decode("".join(found[2].split()), validate=True)
        except ValueError:
            raise Unusable("holds a block that is not base64") from None


def _validity(der: bytes) -> tuple[datetime, datetime]:
    """RFC 5280: the fifth field of what is signed, or the fourth where the version is left out."""
    (_, certificate), *_ = _fields(der)
    (_, signed), *_ = _fields(certificate)
    fields = _fields(signed)
    if fields[0][0] == VERSION:
        fields = fields[1:]
    tag, validity = fields[3]
    if tag != SEQUENCE:
        raise Unusable("holds a certificate that cannot be read")
    (begin, end) = (_time(tag, value) for tag, value in _fields(validity))
    return begin, end


def _fields(der: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents of what stands side by side in DER."""
    found, at = [], 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            length, at = int.from_bytes(der[at : at + size], "big"), at + size
        found.append((tag, der[at : at + length]))
        at += length
    return found


def _time(tag: int, value: bytes) -> datetime:
    text = value.decode("ascii")
    if tag == UTC_TIME:  # two digits of the year: up to 2049
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
