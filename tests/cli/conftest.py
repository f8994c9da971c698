"""A real controller process on the real Kafka, an ingress for it, and the real command line against both."""

import contextlib
import io
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest import mock

import pytest

from penstock.cli import main
from penstock.kafka.connection import KafkaConnection
from penstock.ports import free_port
from tests.sink import Answer, Request, Sink
from tests.waiting import until

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]


def ingress_answer(request: Request) -> Answer:
    """As a receiver: probes are echoed, events accepted."""
    if request.method == "GET":
        return Answer(200, headers={"K-Network-Hash": request.headers.get("k-network-hash", "")})
    return Answer(202)


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Bench:
    """What a test of the command line works with."""

    server: str
    ingress: Sink
    process: "subprocess.Popen[bytes]"

    def run(self, *arguments: str, stdin: str | None = None) -> Done:
        """The command as it is typed, but in this process: half a second of imports each would add up."""
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, {"PENSTOCK_SERVER": self.server}),
            mock.patch("sys.stdin", io.StringIO(stdin or "")),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            main.run(list(arguments))
        return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())

    def ok(self, *arguments: str, stdin: str | None = None) -> str:
        """Its output, when it ended well."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def controller(kafka: KafkaConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One controller process for all tests of a module; whatever is stored at the end is removed."""
    ingress, port = Sink().start(), free_port()
    for name in ("orders", "jobs", "archive"):
        ingress.answer(f"/default/{name}", with_=ingress_answer)
    ports = ["--admin-port", str(port), "--ingress-port", str(ingress.port)]
    process = subprocess.Popen(
        [
            *PENSTOCK,
            "controller",
            "--bootstrap-servers",
            kafka.bootstrap_servers,
            "--default-partitions",
            "2",
            *ports,
        ],
        env={**os.environ, "PENSTOCK_SECRETS_DIR": str(tmp_path_factory.mktemp("secrets"))},
        stderr=subprocess.DEVNULL,
    )
    bench = Bench(f"http://127.0.0.1:{port}", ingress, process)
    try:
        until(lambda: _is_ready(bench), "the controller is ready", 30)
        yield bench
        bench.run("delete", "all", "--all")
    finally:
        process.terminate()
        process.wait(20)
        ingress.stop()
    assert process.returncode == 0  # SIGTERM is a clean end


def _is_ready(bench: Bench) -> bool:
    assert bench.process.poll() is None, "the controller has ended"
    try:
        urllib.request.urlopen(f"{bench.server}/readyz", timeout=2)
    except OSError:
        return False
    return True


@pytest.fixture
def penstock(controller: Bench) -> Iterator[Callable[..., str]]:
    """Runs a command that must succeed; nothing is stored before and after."""
    yield controller.ok
    controller.ok("delete", "all", "--all")
