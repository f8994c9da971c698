"""What a resource may take of a Secret, and which servers may get it.

A KafkaSource names single keys of Secrets and any server. Without rules, everyone who may write a source could send
any password of the namespace to a server of their own. So:

- a user and a password come from the keys that are meant for them (``USER_KEYS``, ``PASSWORD_KEYS``), or from keys
  that the Secret itself lists in ``penstock.dev/kafka-keys``;
- they are never sent with less protection than the Secret asks for: without TLS where it names a protocol with TLS,
  or with a mechanism other than its own; a Secret with a ``ca.crt`` is for servers with a certificate of that CA;
- a Secret that names its servers (``penstock.dev/servers``) is for these only, also for brokers, channels and sinks.

Pure. Called by ``sources`` and ``clusters``; every refusal is a condition of the resource.
"""

from collections.abc import Mapping

from penstock.control import names
from penstock.control.kinds import Resource, annotations_of
from penstock.errors import Misconfigured

USER_KEYS = ("user", "username")
PASSWORD_KEYS = ("password",)
PROTOCOL_KEYS = ("protocol",)
MECHANISM_KEYS = ("sasl.mechanism", "saslType", "sasltype")
TRUE_WORDS = ("1", "t", "true")


class Refused(Misconfigured):
    """The Secret is not for this use. What was done with it before is undone."""


def check_key(field: str, key: str, secret: Resource | None, shown: str) -> None:
    """Whether a source may send the value of this key as its user or password."""
    meant = USER_KEYS if field == "user" else PASSWORD_KEYS
    listed = _listed(annotations_of(secret).get(names.SECRET_KAFKA_KEYS, "")) if secret else ()
    if key in meant or key in listed:
        return
    raise Refused(
        f"spec.net.sasl.{field} names key {key!r} of Secret {shown}, which is not meant to be sent to Kafka",
        hint=f"use {' or '.join(meant)}, or list the key in the Secret's annotation {names.SECRET_KAFKA_KEYS}",
    )


def check_protection(data: Mapping[str, bytes], shown: str, *, has_tls: bool, mechanism: str) -> None:
    """Whether user and password of this Secret may be sent in this way."""
    if _wants_tls(data) and not has_tls:
        raise Refused(
            f"Secret {shown} is for a protocol with TLS, but spec.net.tls.enable is not true",
            hint="set spec.net.tls.enable to true",
        )
    own = mechanism_of(data)
    if own and own != mechanism:
        raise Refused(
            f"Secret {shown} is for a mechanism other than {mechanism}",
            hint="in spec.net.sasl.type, name the key of the Secret that holds its mechanism",
        )


def pinned_ca(named: bytes, holders: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """The CA of a source: the one that it names, or that of the Secrets that its user and password come from.

    ``holders`` is the data of these Secrets by name. Brokers, channels and sinks take a Secret as a whole, so they
    cannot name another CA.
    """
    found = named
    for shown, data in holders.items():
        own = data.get("ca.crt", b"")
        if own and found and own != found:
            raise Refused(
                f"Secret {shown} has a ca.crt, and the source has another CA",
                hint="leave out spec.net.tls.caCert, or let it name the ca.crt of that Secret",
            )
        found = found or own
    return found


def check_servers(servers: str, secret: Resource, shown: str) -> None:
    """Whether the Secret may be used with these servers (``host:port,host:port``)."""
    notes = annotations_of(secret)
    meant = _listed(notes.get(names.SECRET_FOR) or notes.get(names.SECRET_SERVERS, ""))
    others = [each for each in _listed(servers) if each.lower() not in {one.lower() for one in meant}]
    if meant and others:
        raise Refused(
            f"Secret {shown} is not for {', '.join(others)}",
            hint=f"its annotation {names.SECRET_FOR} lists the servers that it is for",
        )


def mechanism_of(data: Mapping[str, bytes]) -> str:
    """The mechanism that a Secret names itself; empty: none."""
    return _first(data, MECHANISM_KEYS)


def _wants_tls(data: Mapping[str, bytes]) -> bool:
    protocol = _first(data, PROTOCOL_KEYS)
    if protocol:
        return protocol.upper().endswith("SSL")
    return bool(data.get("ca.crt")) or _first(data, ("tls.enabled",)).lower() in TRUE_WORDS


def _first(data: Mapping[str, bytes], keys: tuple[str, ...]) -> str:
    return next((data[key].decode("latin-1").strip() for key in keys if data.get(key)), "")


def _listed(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())
