"""The login of the embedded Kafka: one user, made once for each data directory and kept in a private file.

The file is a Secret (``secret_files`` describes the form). Only its path goes to other processes; each reads the file
itself (``connection.home``). Called by ``embedded`` and ``penstock up``.
"""

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from penstock.access.private_files import make_private_folder
from penstock.kafka import secret_files
from penstock.kafka.java_files import HOME_FOLDER

USER = "penstock-home"  # must-gather masks it wherever it occurs, so it must not be a common word
MECHANISM = "SCRAM-SHA-512"
ITERATIONS = 8192
PASSWORD_BYTES = 32
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Login:
    """The user of a cluster that asks for a login; its nodes use it among each other too."""

    user: str
    password: str = field(repr=False)  # base64 for URLs, so no other language has to quote it


def secret_file(data_dir: Path) -> Path:
    """Where the login is, once it is made."""
    return data_dir / "secrets" / HOME_FOLDER / "kafka.json"


def new() -> Login:
    return Login(USER, secrets.token_urlsafe(PASSWORD_BYTES))


def write(data_dir: Path, login: Login) -> None:
    path = secret_file(data_dir)
    data = {"protocol": "SASL_PLAINTEXT", "sasl.mechanism": MECHANISM, "user": login.user, "password": login.password}
    make_private_folder(path.parent.parent)
    secret_files.write_file(path, {key: value.encode() for key, value in data.items()})


def read(data_dir: Path) -> Login:
    """Raises Misconfigured when there is none, or when others may read it."""
    path = secret_file(data_dir)
    data = secret_files.read_file(path, str(path), "restore it from a backup")
    return Login(data["user"].decode(), data["password"].decode())


def add_user(admin: AdminClient, login: Login) -> None:
    """To a running cluster."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    wanted = UserScramCredentialUpsertion(login.user, info, login.password.encode())
    for done in admin.alter_user_scram_credentials([wanted], request_timeout=TIMEOUT_SECONDS).values():
        done.result(TIMEOUT_SECONDS)
