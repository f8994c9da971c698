"""Certificates for tests, made with openssl: an authority, and what it signs."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_openssl = pytest.mark.usefixtures("openssl")

CONFIG = """
[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
serial = {folder}/serial
private_key = {folder}/ca.key
certificate = {folder}/ca.crt
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
"""


@dataclass(frozen=True)
class Pair:
    certificate: str
    key: str


class Authority:
    """Whom brokers and clients of a test trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.cnf").write_text(CONFIG.format(folder=folder))
        (folder / "index.txt").touch()
        (folder / "serial").write_text("1000\n")
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=tests", "-keyout", "ca.key", "-out", "ca.crt",
        )  # fmt: skip
        self.certificate = (folder / "ca.crt").read_text()
        self.path = folder / "ca.crt"

    def issue(self, name: str, *, expired: bool = False) -> Pair:
        """For clients by that name, and for servers on this host."""
        self._openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        dates = ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"] if expired else ["-days", "2"]
        self._openssl(
            "ca", "-batch", "-notext", "-config", "ca.cnf", "-in", f"{name}.csr", "-out", f"{name}.crt", *dates
        )
        return Pair((self._folder / f"{name}.crt").read_text(), (self._folder / f"{name}.key").read_text())

    def keystore(self, name: str, *, expired: bool = False) -> Path:
        """Key and certificate in one file."""
        pair = self.issue(name, expired=expired)
        path = self._folder / f"{name}.pem"
        path.write_text(pair.key + pair.certificate)
        return path

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._folder, check=True, capture_output=True)
