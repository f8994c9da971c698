"""Credentials as files for Java's Kafka client: its settings hold only where they are.

Spark shows the options of a source in plans, logs and errors, so nothing secret is among them: certificates and keys
are PEM files, and the login is a reference into a file of properties, which the client looks up itself (Kafka's
FileConfigProvider, in its own library since 2.0; the client that Spark has, 3.9, allows it unless the JVM's property
``org.apache.kafka.automatic.config.providers`` says otherwise). The files lie in the secrets directory, a folder for
each version of a Secret; tasks on the same host read them. Called by ``clusters``.
"""

import shutil
from pathlib import Path

from penstock.access.private_files import make_private_folder, write_private
from penstock.errors import Misconfigured
from penstock.kafka import secret_files
from penstock.kafka.security import Security

FOLDER = ".kafka"
HOME_FOLDER = ".home"  # no namespace begins with a dot, so no resource can name a file in it
KEPT_VERSIONS = 5
PROPERTIES, CA, CLIENT = "login.properties", "ca.pem", "client.pem"
LOGIN = "sasl.jaas.config"
NEVER_IN_PATHS = ":}$\\"  # they end a reference
PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
TOKEN_LOGIN = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"


def java_settings(security: Security, secrets_dir: Path, secret: str, version: str) -> dict[str, str]:
    """Writes what is missing of this version, and returns the settings that refer to it."""
    settings = _settings_in(secrets_dir.absolute() / FOLDER / _folder_name(secret) / version, security)
    if not secret_files.path_of(
        secrets_dir, secret
    ).exists():  # deleted meanwhile: no file made from it stays on the disk
        forget(secrets_dir, secret)
        raise Misconfigured(f"Secret {secret} does not exist")
    return settings


def home_settings(security: Security, secrets_dir: Path, version: str) -> dict[str, str]:
    """The same for the home cluster. Its login is not a resource, so it stays when Secrets are deleted."""
    return _settings_in(secrets_dir.absolute() / HOME_FOLDER / "java" / version, security)


def _settings_in(folder: Path, security: Security) -> dict[str, str]:
    if any(character in str(folder) for character in NEVER_IN_PATHS):
        raise Misconfigured(
            f"the secrets directory, with {folder}, has one of the characters {NEVER_IN_PATHS} in its path",
            hint="Kafka's client cannot refer to files there: set PENSTOCK_SECRETS_DIR to another one",
        )
    settings: dict[str, str] = {"security.protocol": security.protocol}
    files: dict[str, str] = {}
    if security.has_tls:
        if security.ca:
            files[CA] = security.ca
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / CA)}
        if security.key:
            files[CLIENT] = f"{security.key.strip()}\n{security.certificate.strip()}\n"
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / CLIENT)}
    if security.has_sasl:
        files[PROPERTIES] = f"{LOGIN}={_escaped(security.jaas())}\n"
        settings |= {
            "sasl.mechanism": security.mechanism,
            "config.providers": "file",
            "config.providers.file.class": PROVIDER,
            "config.providers.file.param.allowed.paths": str(folder),
            LOGIN: f"${{file:{folder / PROPERTIES}:{LOGIN}}}",
        }
        if security.tokens is not None:
            settings |= {
                "sasl.login.callback.handler.class": TOKEN_LOGIN,
                "sasl.oauthbearer.token.endpoint.url": security.tokens.url,
            }
    _write(folder, files)
    return settings


def _write(folder: Path, files: dict[str, str]) -> None:
    try:
        for each in (folder.parent.parent.parent, folder.parent.parent, folder.parent, folder):
            make_private_folder(each)
        for name, text in files.items():
            if not (folder / name).exists():
                write_private(folder / name, text.encode())
        folder.touch()  # the one in use is never the oldest
    except OSError as error:
        raise Misconfigured(f"credentials for Spark cannot be written to {folder}: {error.strerror}") from None
    versions = sorted(folder.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
    for outdated in versions[KEPT_VERSIONS:]:
        shutil.rmtree(outdated, ignore_errors=True)


def forget(secrets_dir: Path, secret: str) -> None:
    """Of a Secret that is gone."""
    shutil.rmtree(secrets_dir / FOLDER / _folder_name(secret), ignore_errors=True)


def forget_orphans(secrets_dir: Path) -> None:
    """Removes files of Secrets that were deleted while this process did not run."""
    kept = {_folder_name(name) for name in secret_files.names(secrets_dir)}
    for each in (secrets_dir / FOLDER).glob("*"):
        if each.name not in kept:
            shutil.rmtree(each, ignore_errors=True)


def _folder_name(secret: str) -> str:
    return secret.replace("/", ".")


def _escaped(value: str) -> str:
    """As a value of a properties file: ASCII, on one line."""
    text = value.replace("\\", "\\\\")
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)
