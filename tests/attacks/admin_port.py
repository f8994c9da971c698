"""A controller on a port of its own, and requests to it that no well-behaved client would send."""

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.access.tokens import authorization, read_token
from penstock.ports import answers, free_port
from tests.conftest import PENSTOCK
from tests.waiting import until

JSON = {"Content-Type": "application/json"}
BROKERS = "/apis/eventing.knative.dev/v1/namespaces/default/brokers"
DATA = "/api/penstock/settings"  # answers also without Kafka


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass(frozen=True)
class AdminPort:
    port: int
    data_dir: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return read_token(self.data_dir / "run" / "admin.token")

    @property
    def with_token(self) -> dict[str, str]:
        return {"Authorization": authorization(self.token)}

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str | list[str]] | None = None,
        body: bytes | None = None,
        source: str = "127.0.0.1",
    ) -> Answered:
        """Sends these headers and no others. ``Host`` is right unless one is given; an empty list sends none."""
        connection = self.begin(method, path, headers, body, source)
        answer = connection.getresponse()
        found = Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        connection.close()
        return found

    def begin(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str | list[str]] | None = None,
        body: bytes | None = None,
        source: str = "127.0.0.1",
    ) -> http.client.HTTPConnection:
        """The same for an answer that has no end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60, source_address=(source, 0))
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, given in {"Host": self.host, **(headers or {})}.items():
            for value in [given] if isinstance(given, str) else given:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        return connection

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command of the command line that knows this server, and neither its token nor its data directory."""
        known = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        known |= {"PENSTOCK_SERVER": f"http://{self.host}", "PENSTOCK_DATA_DIR": "/nowhere", **environment}
        return subprocess.run(
            [*PENSTOCK, *arguments], env=known, capture_output=True, text=True, timeout=60, check=False
        )


@contextmanager
def admin_port(
    folder: Path,
    *flags: str,
    port: int = 0,
    bootstrap_servers: str = "",
    environment: Mapping[str, str] | None = None,
) -> Iterator[AdminPort]:
    """``penstock controller``; without Kafka it answers 503 to what it accepts."""
    admin = AdminPort(port or free_port(), folder)
    kafka = bootstrap_servers or f"127.0.0.1:{free_port()}"
    command = [*PENSTOCK, "controller", "--admin-port", str(admin.port), "--bootstrap-servers", kafka, *flags]
    with (folder / "controller.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log,
            env={**os.environ, "PENSTOCK_DATA_DIR": str(folder), **(environment or {})},
        )  # fmt: skip
        try:
            until(lambda: answers("127.0.0.1", admin.port), "the controller listens")
            yield admin
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
