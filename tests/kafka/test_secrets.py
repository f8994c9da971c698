"""Promises of Secrets: kept on disk for nobody else's eyes, understood in Knative's forms, and never in an error."""

import json
import pickle
import stat
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.certificates import Authority, needs_openssl

from penstock.contract.model import HOME
from penstock.errors import Misconfigured
from penstock.kafka import java_files, login, secret_files, security
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection, home
from penstock.kafka.security import Security

HIDDEN = "hunter2-is-never-shown"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def parsed(data: Mapping[str, str], now: datetime | None = None) -> Security:
    return security.parse("shop/kafka", {key: value.encode() for key, value in data.items()}, now)


def test_what_was_written_is_read_and_only_its_owner_may(tmp_path: Path) -> None:
    """Kept promise: a Secret comes back as it was, from a file and folders that are private."""
    folder = tmp_path / "secrets"
    data = {"user": b"ann", "password": bytes(range(256))}
    secret_files.write(folder, "shop/kafka", data)
    assert secret_files.read(folder, "shop/kafka") == data
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    assert modes == {"secrets": 0o700, "shop": 0o700, "kafka.json": 0o600}
    secret_files.remove(folder, "shop/kafka")
    secret_files.remove(folder, "shop/kafka")
    with pytest.raises(Misconfigured, match="Secret shop/kafka does not exist"):
        secret_files.read(folder, "shop/kafka")


@pytest.mark.parametrize("content", [HIDDEN, json.dumps([HIDDEN]), json.dumps({"password": HIDDEN}), "{}x"])
def test_rubbish_in_the_place_of_a_secret_is_not_quoted(tmp_path: Path, content: str) -> None:
    """Kept promise: the error names the Secret, and nothing of what is in the file."""
    path = tmp_path / "shop" / "kafka.json"
    path.parent.mkdir()
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(Misconfigured, match="Secret shop/kafka") as failure:
        secret_files.read(tmp_path, "shop/kafka")
    assert HIDDEN not in f"{failure.value!r} {failure.value.__cause__!r} {failure.value.hint}"


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """Kept promise: what may have been seen already is not used."""
    secret_files.write(tmp_path, "shop/kafka", {})
    (tmp_path / "shop" / "kafka.json").chmod(0o640)
    with pytest.raises(Misconfigured, match="others may read"):
        secret_files.read(tmp_path, "shop/kafka")


@pytest.mark.parametrize("name", ["kafka", "../etc/kafka", "shop/../kafka", "shop/a/b", ".kafka/x", "Shop/kafka", ""])
def test_a_name_never_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """Kept promise: only NAMESPACE/NAME becomes a path."""
    with pytest.raises(Misconfigured, match="is no name of a Secret"):
        secret_files.path_of(tmp_path, name)


def test_a_version_tells_contents_apart_and_nothing_else(tmp_path: Path) -> None:
    """Kept promise: the same content has the same version, another content another, and elsewhere it is another."""
    here, there = tmp_path / "here", tmp_path / "there"
    version = secret_files.version_of(here, {"a": b"1", "b": b"2"})
    assert version == secret_files.version_of(here, {"b": b"2", "a": b"1"})
    assert len(version) == 16
    others = [{"a": b"1"}, {"a": b"1b", "": b"2"}, {"a": b"2", "b": b"1"}]
    assert version not in [secret_files.version_of(here, each) for each in others]
    assert version != secret_files.version_of(there, {"a": b"1", "b": b"2"})


def test_credentials_are_neither_shown_nor_pickled() -> None:
    """Kept promise: whatever is logged or handed to Spark, no password is in it."""
    found = parsed({"protocol": "SASL_PLAINTEXT", "user": "ann", "password": HIDDEN})
    connection = KafkaConnection("there:9092", security=found)
    assert HIDDEN not in f"{found!r} {connection!r} {found}"
    with pytest.raises(TypeError, match="do not travel"):
        pickle.dumps(connection)


def test_older_secrets_are_understood() -> None:
    """Kept promise: the Secret of the distributed channel works as it is; its protocol follows."""
    found = parsed(
        {"username": "ann", "password": "p", "sasltype": "SCRAM-SHA-512", "brokers": "b:9", "namespace": "n"}
    )
    assert (found.protocol, found.mechanism, found.user) == ("SASL_PLAINTEXT", "SCRAM-SHA-512", "ann")
    assert parsed({"username": "ann", "password": "p", "tls.enabled": "true"}).protocol == "SASL_SSL"
    assert parsed({"brokers": "b:9"}).protocol == "PLAINTEXT"


TOKENS = {"protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "user": "id", "password": "p"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "protocol is missing; valid are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"protocol": HIDDEN}, "protocol is unknown; valid are"),
        ({"protocol": "SASL_SSL", "sasl.mechanism": HIDDEN}, "sasl.mechanism is unknown; valid are PLAIN, SCRAM"),
        ({"protocol": "SASL_SSL", "password": HIDDEN}, "user is missing"),
        ({"protocol": "SASL_SSL", "user": HIDDEN}, "password is missing"),
        ({"protocol": "SSL"}, "user.crt is missing; user.skip"),
        ({"protocol": "SSL", "user.skip": HIDDEN}, "user.skip is neither true nor false"),
        ({"protocol": "SSL", "user.skip": "true", "ca.crt": HIDDEN}, "ca.crt holds no certificate"),
        ({"protocol": "SSL", "user.crt": HIDDEN, "user.key": HIDDEN}, "user.crt holds no certificate"),
        (TOKENS, "sasl.oauthbearer.token.endpoint.url is missing"),
        ({**TOKENS, "tokenUrl": HIDDEN}, "sasl.oauthbearer.token.endpoint.url is not an http or https URL"),
        ({**TOKENS, "tokenProvider": HIDDEN}, "tokenProvider is not supported"),
    ],
)
def test_a_mistake_is_named_by_its_key_and_not_quoted(data: dict[str, str], said: str) -> None:
    """Kept promise: the message names Secret and key, and what would be valid, and never the value."""
    with pytest.raises(Misconfigured) as failure:
        parsed(data)
    assert failure.value.message.startswith(f"Secret shop/kafka: {said}")
    assert HIDDEN not in failure.value.message


@needs_openssl
def test_certificates_and_keys_are_checked_before_anybody_connects(authority: Authority) -> None:
    """Kept promise: what is over, broken, or does not fit together is said, with the date."""
    own, other, over = authority.issue("own"), authority.issue("other"), authority.issue("over", expired=True)
    base = {"protocol": "SSL", "ca.crt": authority.certificate}
    assert parsed({**base, "user.crt": own.certificate, "user.key": own.key}).key == own.key
    broken = "".join(own.certificate.splitlines(keepends=True)[:1] + own.certificate.splitlines(keepends=True)[2:])
    traditional = subprocess.run(
        ["openssl", "ec"], input=own.key, text=True, capture_output=True, check=True
    ).stdout  # BEGIN EC PRIVATE KEY
    mistakes = [
        (over.certificate, over.key, "user.crt holds a certificate that expired on 2020-02-01 00:00 UTC"),
        (own.certificate, other.key, "user.key does not belong to the certificate"),
        (broken, own.key, "user.crt holds a certificate that cannot be read"),
        (own.certificate, "nothing", "user.key holds no private key"),
        (own.certificate, traditional, "user.key is not in the form PKCS #8"),
    ]
    for certificate, key, said in mistakes:
        with pytest.raises(Misconfigured, match=said.replace("#", ".")):
            parsed({**base, "user.crt": certificate, "user.key": key})
    with pytest.raises(Misconfigured, match=r"ca\.crt holds a certificate that expired on"):
        parsed({**base, "user.skip": "true"}, datetime.now(UTC) + timedelta(days=3))


@needs_openssl
def test_settings_for_java_hold_only_where_credentials_are(authority: Authority, tmp_path: Path) -> None:
    """Kept promise: no option of a Spark query has a secret in it; the files are private, and old ones go."""
    own = authority.issue("java")
    data = {"protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "user": "ann", "password": HIDDEN + '"\\ü\n'}
    found = parsed({**data, "ca.crt": authority.certificate, "user.crt": own.certificate, "user.key": own.key})
    secret_files.write(tmp_path, "shop/kafka", {"password": HIDDEN.encode()})
    settings = java_files.java_settings(found, tmp_path, "shop/kafka", "v0")
    assert not [value for value in settings.values() if HIDDEN in value or "PRIVATE KEY" in value or "ann" in value]
    for number in range(1, 8):
        java_files.java_settings(found, tmp_path, "shop/kafka", f"v{number}")
    folder = tmp_path / ".kafka" / "shop.kafka"
    assert sorted(path.name for path in folder.iterdir()) == [f"v{number}" for number in range(3, 8)]
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    login = (folder / "v7" / "login.properties").read_text()
    assert HIDDEN + '\\\\"\\\\\\\\\\u00fc\\\\n";\n' in login


def test_the_login_of_the_home_cluster_stays_where_it_is(tmp_path: Path) -> None:
    """Kept promise: pickled for a worker, it is a path; its files for Java stay when others are removed."""
    made = login.new()
    login.write(tmp_path, made)
    file = str(login.secret_file(tmp_path))
    connection = home("here:9092", "tests", file)
    travelling = pickle.dumps(connection)
    assert made.password.encode() not in travelling
    assert pickle.loads(travelling) == connection
    settings = Clusters(connection, tmp_path / "secrets").java_settings(HOME)
    assert made.password not in str(settings)
    java_files.forget_orphans(tmp_path / "secrets")
    properties = settings["sasl.jaas.config"].partition("file:")[2].partition(":")[0]
    assert made.password in Path(properties).read_text()


def test_a_login_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """Kept promise: a password that others can read is not used, and the message names the file."""
    login.write(tmp_path, login.new())
    login.secret_file(tmp_path).chmod(0o640)
    with pytest.raises(Misconfigured, match="others may read"):
        home("here:9092", "tests", str(login.secret_file(tmp_path)))
