"""Penstock as a user has it: started, told what to do, asked and stopped by its own command.

A context manager around one ``penstock up --detach`` in a data directory that is made for it, on free ports. Whatever
happens inside, it is stopped and the directory is gone afterwards. Called by ``scenarios.py``.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from bench.processes import Snapshot, snapshot
from penstock.contract.model import CONTRACT_TOPIC, decode_agreement
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import Table

UP_SECONDS = 300.0  # a first start may have to fetch
COMMAND_SECONDS = 60.0
READY_SECONDS = 90
LOG_LINES = 6
LOG_BYTES = 4096


class SystemFailed(Exception):
    """Penstock did not do what the benchmark needs; the message is for people."""


class System:
    """One running Penstock."""

    def __init__(
        self, keep: bool = False, environment: Mapping[str, str] | None = None, python: str = sys.executable
    ) -> None:
        self.python = python  # of the environment in which Penstock is installed
        self.environment = dict(environment or {})  # settings of its parts
        self.keep = keep  # leave the data directory for whoever looks for a cause
        self.data_dir = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        ingress, admin, kafka = _free_ports(3)
        self.ports = {"--ingress-port": ingress, "--admin-port": admin, "--kafka-port": kafka}
        self.server = f"http://127.0.0.1:{admin}"
        self.bootstrap_servers = f"127.0.0.1:{kafka}"
        self.up_seconds = 0.0

    def __enter__(self) -> "System":
        began = time.monotonic()
        flags = [word for flag, port in self.ports.items() for word in (flag, str(port))]
        try:
            self.command("up", "--detach", "--data-dir", str(self.data_dir), *flags, seconds=UP_SECONDS)
        except BaseException:
            self.stop()
            raise
        self.up_seconds = time.monotonic() - began
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and kind is not KeyboardInterrupt:
            error.add_note(self.last_words())
        self.stop()

    def stop(self) -> None:
        """In order if it can be, by force where something is left."""
        try:
            with contextlib.suppress(SystemFailed):
                self.command("down", "--data-dir", str(self.data_dir))
        finally:
            for process in self.snapshot().processes.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            if not self.keep:
                shutil.rmtree(self.data_dir, ignore_errors=True)

    def command(self, *words: str, stdin: str | None = None, seconds: float = COMMAND_SECONDS) -> str:
        """Runs ``penstock WORDS…`` and returns what it printed."""
        try:
            done = subprocess.run(
                [self.python, "-m", "penstock.cli.main", *words],
                input=stdin,
                capture_output=True,
                text=True,
                timeout=seconds,
                env={**os.environ, **self.environment, "PENSTOCK_SERVER": self.server},
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise SystemFailed(f"`penstock {words[0]}` did not end within {seconds:g} s") from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise SystemFailed(f"`penstock {' '.join(words[:2])}` failed with exit code {done.returncode}: {said}")
        return done.stdout

    def apply(self, *resources: Mapping[str, Any], seconds: float = COMMAND_SECONDS, wait: bool = True) -> None:
        """Applies them and waits until each is Ready."""
        self.command("apply", "-f", "-", stdin=yaml.safe_dump_all(resources), seconds=seconds)
        if not wait:
            return
        names = [f"{resource['kind'].lower()}/{resource['metadata']['name']}" for resource in resources]
        timeout = max(READY_SECONDS, int(seconds))
        self.command("wait", *names, "--for=condition=Ready", f"--timeout={timeout}s", seconds=timeout + 10.0)

    def address(self, name: str, kind: str = "broker") -> str:
        found = json.loads(self.command("get", kind, name, "-o", "json"))
        url: str = found["status"]["address"]["url"]
        return url

    def topic(self, path: str) -> str:
        """The topic behind an ingress path, from the contract: the baselines read it without us."""
        table = Table(KafkaConnection(self.bootstrap_servers, "bench"), CONTRACT_TOPIC).start()
        try:
            table.wait_until_current()
            for value in list(table.values.values()):
                for route in decode_agreement(value).routes:
                    if route.path == path:
                        return route.topic
        finally:
            table.stop()
        raise SystemFailed(f"the contract has no route for {path}")

    def snapshot(self, helpers: Mapping[int, str] | None = None) -> Snapshot:
        return snapshot(str(self.data_dir), helpers)

    def last_words(self) -> str:
        """The ends of the logs: the reason is usually there."""
        parts = []
        for log in sorted(self.data_dir.rglob("*.log")):
            if log.stem.isdigit():
                continue  # a segment of Kafka's data, which ends like a log
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - LOG_BYTES))
                lines = file.read().decode(errors="replace").splitlines()[-LOG_LINES:]
            parts.append(f"── {log.name}\n" + "\n".join(lines))
        return "\n".join(parts)


def broker(name: str) -> dict[str, Any]:
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": name}}


def trigger(name: str, broker_name: str, url: str) -> dict[str, Any]:
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": name},
        "spec": {"broker": broker_name, "subscriber": {"uri": url}},
    }


def _free_ports(count: int) -> list[int]:
    """Held all at once, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
