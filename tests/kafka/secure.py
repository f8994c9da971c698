"""A Kafka with every way in, for tests: certificates, passwords, tokens."""

import base64
import contextlib
import http.server
import json
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.certificates import Authority

from penstock.kafka import security
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.embedded import EmbeddedKafka
from penstock.kafka.server_files import ClusterSpec, Guards, Listener
from penstock.ports import free_port

Way = Literal["TLS", "MUTUAL", "SASL", "SASLTLS"]

USER, PASSWORD = "ann", "ann-has-a-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class SecureKafka:
    """One broker with a listener of each kind, and an authority that has signed its certificate."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "authority")
        self.client = self.authority.issue("client")
        self.ports: dict[Way, int] = {way: free_port() for way in ("TLS", "MUTUAL", "SASL", "SASLTLS")}
        guards = Guards(
            (
                Listener("TLS", self.ports["TLS"], "SSL"),
                Listener("MUTUAL", self.ports["MUTUAL"], "SSL", client_certificates="required"),
                Listener("SASL", self.ports["SASL"], "SASL_PLAINTEXT", MECHANISMS),
                Listener("SASLTLS", self.ports["SASLTLS"], "SASL_SSL", MECHANISMS),
            ),
            keystore=self.authority.keystore("node"),
            truststore=self.authority.path,
            users={USER: PASSWORD},
        )
        self.cluster = EmbeddedKafka(ClusterSpec(folder / "data", port=free_port(), guards=guards))

    @property
    def plain(self) -> KafkaConnection:
        return self.cluster.connection

    def address(self, way: Way) -> str:
        return f"127.0.0.1:{self.ports[way]}"

    def connection(self, way: Way, **data: str) -> KafkaConnection:
        return connection(self.address(way), data)

    def password(self, way: Way, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        """The data of a Secret for that way in."""
        data = {"sasl.mechanism": mechanism, "user": USER, "password": password}
        if way == "SASL":
            return {"protocol": "SASL_PLAINTEXT", **data}
        return {"protocol": "SASL_SSL", "ca.crt": self.authority.certificate, **data}


def connection(address: str, data: dict[str, str]) -> KafkaConnection:
    parsed = security.parse("tests/kafka", {key: value.encode() for key, value in data.items()})
    return KafkaConnection(address, security=parsed, secret="tests/kafka")


@contextmanager
def running(folder: Path) -> Iterator[SecureKafka]:
    kafka = SecureKafka(folder)
    kafka.cluster.start()
    try:
        yield kafka
    finally:
        kafka.cluster.stop()


@contextmanager
def tls_server(keystore: Path) -> Iterator[str]:
    """Nothing but a certificate, which is all that a client looks at when it has expired."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                context.wrap_socket(self.request, server_side=True).close()

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def unsigned_token(subject: str) -> str:
    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    now = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': subject, 'iat': now, 'exp': now + 600, 'scope': 'all'})}."


@contextmanager
def token_endpoint() -> Iterator[str]:
    """Gives a token to whoever knows the name and the password."""
    expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            is_known = self.headers["Authorization"] == expected
            body = json.dumps({"access_token": unsigned_token(USER), "token_type": "Bearer", "expires_in": 600})
            self.send_response(200 if is_known else 401)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body.encode() if is_known else b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/token"
    finally:
        server.shutdown()
        server.server_close()
