"""How a file for support is put together: collectors, what they look at, and the zip they fill.

A collector is a title and a function that yields files, or what is missing and why. One that fails becomes a line in
the list of what is missing, and the others go on. For another kind of installation (Kubernetes) there is another list
of collectors, and the rest stays. Called by ``must-gather``.
"""

import json
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock.cli.client import Client
from penstock.cli.masking import Masking
from penstock.errors import Misconfigured, PenstockError, Unavailable
from penstock.kafka import secret_files
from penstock.kafka.connection import KafkaConnection, home
from penstock.supervisor.processes import Process, environment, processes
from penstock.supervisor.rundir import RunDirectory

API_SECONDS = 10.0
KAFKA_SECONDS = 5.0
LARGEST_FILE = 8 * 1024 * 1024  # of the end of a file, if it is longer


@dataclass(frozen=True)
class File:
    path: str  # in the zip
    text: str


@dataclass(frozen=True)
class Missing:
    what: str
    why: str


Found = File | Missing


@dataclass
class Facts:
    """What tells most, for the first page. Filled by the collectors on their way."""

    parts: list[dict[str, str]] = field(default_factory=list)
    unhealthy: list[dict[str, str]] = field(default_factory=list)
    resources: int = 0
    lags: dict[str, int] = field(default_factory=dict)
    queries: list[dict[str, Any]] = field(default_factory=list)
    errors: dict[str, list[str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


class Scene:
    """The installation that is looked at. What is asked of it is asked once."""

    def __init__(self, server: str, data_dir: Path, masking: Masking) -> None:
        self.server = server
        self.directory = RunDirectory(data_dir)
        self.masking = masking
        self.facts = Facts()
        self._away: Unavailable | None = None

    @cached_property
    def state(self) -> dict[str, Any]:
        return self.directory.state()

    @cached_property
    def processes(self) -> list[Process]:
        return processes(self.directory)

    @cached_property
    def secrets_dir(self) -> Path:
        """As the running controller is set, or else as this environment would set one."""
        variables: Mapping[str, str] = os.environ
        for process in self.processes:
            if process.part == "controller":
                with suppress(OSError):
                    variables = environment(process)
        return secret_files.folder(str(self.directory.data_dir), variables.get("PENSTOCK_SECRETS_DIR", ""))

    def get(self, path: str) -> Any:
        """From the admin API. One that is away is asked once, so that nobody waits for it again and again."""
        if self._away is not None:
            raise self._away
        try:
            return self._client.get(path)
        except Unavailable as error:
            if "cannot be reached" in error.message:
                self._away = error
            raise

    def text(self, path: str) -> str:
        """From the admin API, as it is."""
        return self._client.text(path)

    @cached_property
    def _client(self) -> Client:
        return Client(self.server, timeout_seconds=API_SECONDS, data_dir=self.directory.data_dir)

    @property
    def kafka(self) -> KafkaConnection:
        """Raises Unavailable at once, if it was away before."""
        connection, problem = self._kafka
        if problem is not None:
            raise problem
        return connection

    @cached_property
    def _kafka(self) -> tuple[KafkaConnection, PenstockError | None]:
        servers = self.state.get("bootstrap_servers") or os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS")
        file = self.state.get("kafka_secret_file") or os.environ.get("PENSTOCK_KAFKA_SECRET_FILE")
        connection = KafkaConnection(str(servers or "127.0.0.1:9092"))
        try:
            connection = home(connection.bootstrap_servers, secret_file=str(file or ""))
            connection.check(KAFKA_SECONDS)
        except PenstockError as error:
            return connection, error
        return connection, None


@dataclass(frozen=True)
class Collector:
    title: str
    collect: Callable[[Scene], Iterable[Found]]


class Bundle:
    """The zip while it is made: masked, readable by its owner only, and there whole or not at all."""

    def __init__(self, path: Path, masking: Masking) -> None:
        self.path = path
        self.files: list[tuple[str, int]] = []  # with their size
        self.missing: list[Missing] = []
        self._masking = masking
        self._draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            stream = open(os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")  # noqa: SIM115
        except OSError as error:
            raise Misconfigured(
                f"{path} cannot be written: {error.strerror}", hint="--out names another file"
            ) from None
        self._zip = zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED)

    def run(self, collector: Collector, scene: Scene) -> None:
        try:
            for found in collector.collect(scene):
                self.add(found)
        except PenstockError as error:
            self.missing.append(Missing(collector.title, self._masking(error.message)))
        except Exception as error:  # whatever is broken there is what somebody wants to know
            self.missing.append(Missing(collector.title, self._masking(f"{type(error).__name__}: {error}")))

    def add(self, found: Found) -> None:
        if isinstance(found, Missing):
            self.missing.append(Missing(found.what, self._masking(found.why)))
            return
        raw = self._masking(found.text).encode(errors="replace")
        self._zip.writestr(found.path, raw)
        self.files.append((found.path, len(raw)))

    def close(self) -> Path:
        self._close_zip()
        os.replace(self._draft, self.path)
        return self.path

    def throw_away(self) -> None:
        self._close_zip()
        self._draft.unlink(missing_ok=True)

    def _close_zip(self) -> None:
        stream = self._zip.fp
        self._zip.close()
        if stream is not None:
            stream.close()


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"


def attempt(what: str, make: Callable[..., File], *of: Any) -> Found:
    """One file of a collector, which may fail by itself."""
    try:
        return make(*of)
    except PenstockError as error:
        return Missing(what, error.message)
    except OSError as error:
        return Missing(what, error.strerror or str(error))


def tail(path: Path, most: int = LARGEST_FILE) -> str:
    """The end of a file, from the beginning of a line on. Raises OSError."""
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - most))
        raw = stream.read(most)
    if size > most:
        raw = b"(the first %d bytes are left out)\n" % (size - most) + raw.partition(b"\n")[2]
    return raw.decode(errors="replace")
