"""How to prove to a Kafka cluster who we are, and see that it is the right one: from a Secret to clients' settings.

Comes in: the data of a Secret in Knative's form. Goes out: one frozen ``Security``, from which the settings of
librdkafka, kafka-python and Java are made. Checked here, so that a mistake is a sentence and not a timeout.

| key | |
|---|---|
| ``protocol`` | PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL |
| ``sasl.mechanism`` | PLAIN (when there is none), SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER |
| ``user``, ``password`` | of PLAIN and SCRAM |
| ``ca.crt`` | who may sign the brokers' certificates; none: whom the system trusts |
| ``user.crt``, ``user.key`` | our own certificate, with SSL or SASL_SSL |
| ``user.skip`` | "true": none of our own, although SSL |
| ``sasl.oauthbearer.token.endpoint.url`` or ``tokenUrl`` | of OAUTHBEARER: where tokens are (client credentials) |
| ``sasl.oauthbearer.client.id``, ``clientId`` or ``user`` | who asks for them, |
| ``sasl.oauthbearer.client.secret``, ``clientSecret`` or ``password`` | with which secret, |
| ``sasl.oauthbearer.scope`` or ``scope`` | and for which scope, if any |

Knative itself has no keys for token endpoints (it only knows Amazon's ``tokenProvider``, refused here). These are
librdkafka's and Kafka's own names, and the short ones that Kafka's login module has for the same things.

The older Secret of the distributed channel has ``username`` or ``user``, ``password``, ``sasltype`` or ``saslType``,
``tls.enabled`` and ``ca.crt``, but no ``protocol``, which follows; its ``brokers`` and ``namespace`` are for others.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn, cast, get_args
from urllib.parse import urlsplit

from penstock.access.addresses import is_plain_authority
from penstock.errors import Misconfigured
from penstock.kafka import certificates
from penstock.kafka.tokens import TokenEndpoint, Tokens

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

TRUE_WORDS = ("1", "t", "true")
FALSE_WORDS = ("0", "f", "false", "")
TOKEN_URL = ("sasl.oauthbearer.token.endpoint.url", "tokenUrl")
CLIENT_ID = ("sasl.oauthbearer.client.id", "clientId", "user")
CLIENT_SECRET = ("sasl.oauthbearer.client.secret", "clientSecret", "password")
SCOPE = ("sasl.oauthbearer.scope", "scope")


@dataclass(frozen=True)
class Security:
    """Never shown, and never pickled: who needs it elsewhere reads the Secret there."""

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = "PLAIN"
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    ca: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    tokens: TokenEndpoint | None = field(default=None, repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("credentials do not travel: hand over the name of the Secret, and read it there")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    def librdkafka(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"security.protocol": self.protocol}
        if self.has_tls:
            settings |= {"ssl.ca.pem": self.ca} if self.ca else {}
            settings |= {"ssl.certificate.pem": self.certificate, "ssl.key.pem": self.key} if self.key else {}
        if self.has_sasl:
            settings["sasl.mechanism"] = self.mechanism
            if self.tokens is not None:
                settings |= {
                    "sasl.oauthbearer.method": "oidc",
                    "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
                    "sasl.oauthbearer.client.id": self.tokens.client_id,
                    "sasl.oauthbearer.client.secret": self.tokens.client_secret,
                }
                settings |= {"sasl.oauthbearer.scope": self.tokens.scope} if self.tokens.scope else {}
            else:
                settings |= {"sasl.username": self.user, "sasl.password": self.password}
        return settings

    def kafka_python(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.has_tls:
            settings["ssl_context"] = self.context()
        if self.has_sasl:
            settings["sasl_mechanism"] = self.mechanism
            if self.tokens is not None:
                settings["sasl_oauth_token_provider"] = Tokens(self.tokens)
            else:
                settings |= {"sasl_plain_username": self.user, "sasl_plain_password": self.password}
        return settings

    def jaas(self) -> str:
        """What Java's login takes, secrets and all: for a file that only its owner reads."""
        package = "org.apache.kafka.common.security"
        if self.tokens is not None:
            given = {"clientId": self.tokens.client_id, "clientSecret": self.tokens.client_secret}
            given |= {"scope": self.tokens.scope} if self.tokens.scope else {}
            module = f"{package}.oauthbearer.OAuthBearerLoginModule"
        else:
            given = {"username": self.user, "password": self.password}
            module = f"{package}.{'plain.Plain' if self.mechanism == 'PLAIN' else 'scram.Scram'}LoginModule"
        return f"{module} required {' '.join(f'{name}={_quoted(value)}' for name, value in given.items())};"

    def context(self) -> ssl.SSLContext:
        """For Python's own sockets."""
        context = ssl.create_default_context(cadata=self.ca or None)
        if self.key:
            certificates.load_pair(context, self.certificate, self.key)
        return context


def parse(name: str, data: Mapping[str, bytes], now: datetime | None = None) -> Security:
    """The data of a Secret of that name. Raises Misconfigured with the key that is wrong, and no value."""
    secret = _Secret(name, _of_today(data))
    protocol = cast(Protocol, secret.one_of("protocol", get_args(Protocol)))
    made: dict[str, Any] = {"protocol": protocol}
    if protocol.startswith("SASL"):
        mechanism = secret.one_of("sasl.mechanism", get_args(Mechanism), default="PLAIN")
        made |= {"mechanism": mechanism, **(_tokens(secret) if mechanism == "OAUTHBEARER" else _user(secret))}
    if protocol.endswith("SSL"):
        made |= _tls(secret, protocol, now or datetime.now(UTC))
    return Security(**made)


def _of_today(data: Mapping[str, bytes]) -> dict[str, bytes]:
    """The older Secret in the words of the present one."""
    if data.get("protocol"):
        return dict(data)
    has_tls = bool(data.get("ca.crt")) or data.get("tls.enabled", b"").strip().lower().decode("latin-1") in TRUE_WORDS
    user = data.get("user") or data.get("username")
    has_sasl = "password" in data and user is not None
    if not has_tls and not has_sasl and "brokers" not in data:
        return dict(data)  # neither form: the key that is missing is said
    protocol = ("SASL_" if has_sasl else "") + ("SSL" if has_tls else "PLAINTEXT")
    mechanism = data.get("saslType") or data.get("sasltype") or data.get("sasl.mechanism") or b"PLAIN"
    older = {**data, "protocol": protocol.encode(), "sasl.mechanism": mechanism, "user": user or b""}
    return older if data.get("user.crt") else {**older, "user.skip": b"true"}


def _user(secret: "_Secret") -> dict[str, str]:
    return {"user": secret.required("user"), "password": secret.required("password")}


def _tokens(secret: "_Secret") -> dict[str, TokenEndpoint]:
    if secret.text("tokenProvider"):
        secret.refuse("tokenProvider", f"is not supported; a token endpoint is: {TOKEN_URL[0]}")
    url = secret.required(*TOKEN_URL)
    if not is_plain_url(url):
        secret.refuse(TOKEN_URL[0], "is not an http or https URL with a host and without user and password")
    client, own = secret.required(*CLIENT_ID), secret.required(*CLIENT_SECRET)
    return {"tokens": TokenEndpoint(url, client, own, secret.first(*SCOPE), secret.text("ca.crt"))}


def _tls(secret: "_Secret", protocol: str, now: datetime) -> dict[str, str]:
    made = {"ca": secret.text("ca.crt"), "certificate": secret.text("user.crt"), "key": secret.text("user.key")}
    if made["ca"]:
        secret.checked("ca.crt", certificates.check_certificates, made["ca"], now)
    skip = secret.text("user.skip").strip().lower()
    if skip not in (*TRUE_WORDS, *FALSE_WORDS):
        secret.refuse("user.skip", "is neither true nor false")
    if skip in TRUE_WORDS:
        return made | {"certificate": "", "key": ""}
    if protocol == "SSL" or made["certificate"] or made["key"]:
        for key, name in (("certificate", "user.crt"), ("key", "user.key")):
            if not made[key]:
                secret.refuse(name, 'is missing; user.skip: "true" goes without a certificate of our own')
        secret.checked("user.crt", certificates.check_certificates, made["certificate"], now)
        secret.checked("user.key", certificates.check_key, made["key"])
        secret.checked("user.key", certificates.check_pair, made["certificate"], made["key"])
    return made


@dataclass(frozen=True)
class _Secret:
    """The data, and how to complain about it."""

    name: str
    data: Mapping[str, bytes] = field(repr=False)

    def text(self, key: str) -> str:
        try:
            return self.data.get(key, b"").decode()
        except UnicodeDecodeError:
            self.refuse(key, "is not text in UTF-8")

    def first(self, *keys: str) -> str:
        return next((found for key in keys if (found := self.text(key))), "")

    def required(self, *keys: str) -> str:
        found = self.first(*keys)
        if not found:
            self.refuse(keys[0], "is missing" + "".join(f" (or {key})" for key in keys[1:]))
        return found

    def one_of(self, key: str, known: tuple[str, ...], default: str = "") -> str:
        found = self.text(key).strip() or default
        if found not in known:
            self.refuse(key, f"{'is missing' if not found else 'is unknown'}; valid are {', '.join(known)}")
        return found

    def checked(self, key: str, check: Any, *arguments: Any) -> None:
        try:
            check(*arguments)
        except certificates.Unusable as error:
            self.refuse(key, str(error))

    def refuse(self, key: str, why: str) -> NoReturn:
        raise Misconfigured(f"Secret {self.name}: {key} {why}") from None


def is_plain_url(url: str) -> bool:
    """An http or https URL with a host and without credentials, in printable ASCII."""
    try:
        parts = urlsplit(url)
        is_placed = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    is_printable = all(0x20 < ord(character) < 0x7F for character in url)
    is_placed = is_placed and is_plain_authority(parts.netloc) and "@" not in parts.netloc
    return is_placed and is_printable and parts.scheme in ("http", "https")


def _quoted(value: str) -> str:
    """As a string of Java's login configuration."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
