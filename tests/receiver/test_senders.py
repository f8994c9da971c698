"""The usual HTTP clients with their defaults: whatever is acknowledged to them is stored byte for byte.

Each client is a small program in ``senders/`` that sends the same data as events 1, 2 and so on, with its length and
in chunks, and prints the status of each. A client whose tool is missing on this machine is skipped; if CI is set, it
fails.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.kafka import ivy
from penstock.kafka.cache import cache_dir, locked
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.jars import Jar
from penstock.kafka.java import java_home
from penstock.kafka.progress import Silent
from tests.receiver.running import EVENT, Receiver, count, give_address, records, running
from tests.tools import tool
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)  # some clients are fetched first

SENDERS = Path(__file__).parent / "senders"
FETCHED = cache_dir() / "tests"  # with a lock of its own, so that nobody else waits for these downloads
FETCH_SECONDS, SEND_SECONDS = 280, 280
DATA = bytes(range(256)) * 400  # more than a socket takes at once, and no valid text

Command = Callable[[str, Path], list[str]]


@pytest.fixture(scope="module")
def receiver(kafka: KafkaConnection) -> Iterator[Receiver]:
    give_address(kafka, "senders")  # a receiver is ready when there is a contract
    with running(kafka) as one:
        yield one


@pytest.fixture(scope="module")
def data_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("senders") / "data"
    file.write_bytes(DATA)
    return file


def _java(name: str, jars: str = "") -> Command:
    def command(url: str, data: Path) -> list[str]:
        tool("javac")
        path = ["-cp", _class_path(jars)] if jars else []
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *path]
        return [tool("java"), *options, str(SENDERS / f"{name}.java"), url, str(data)]

    return command


def _class_path(group: str) -> str:
    """The jars of a client, fetched once into the cache folder."""
    table = tomllib.loads((SENDERS / "jars.toml").read_text())[group]
    jars = []
    for entry in table:
        organisation, name, version = entry["coordinate"].split(":")
        jars.append(Jar(organisation, name, version, entry["bytes"], entry["sha256"]))
    folder = FETCHED / group
    with locked(FETCHED, Silent()):
        missing = [jar for jar in jars if not jar.is_in(folder)]
        if missing:
            folder.mkdir(parents=True, exist_ok=True)
            workspace = folder / "fetching"
            found = ivy.download(java_home() / "bin" / "java", missing, workspace, Silent())
            for jar, file in found.arrived.items():
                assert jar.matches(file), f"{jar.coordinate} has another content than the pinned one"
                file.replace(folder / jar.file_name)
            shutil.rmtree(workspace)
            assert all(jar.is_in(folder) for jar in jars), found.complaints
    return os.pathsep.join(str(folder / jar.file_name) for jar in jars)


def _go(url: str, data: Path) -> list[str]:
    return [tool("go"), "run", str(SENDERS / "main.go"), url, str(data)]


def _fetch(url: str, data: Path) -> list[str]:
    return [tool("node"), str(SENDERS / "fetch.mjs"), url, str(data)]


def _axios(url: str, data: Path) -> list[str]:
    return [tool("node"), str(_axios_folder() / "axios.cjs"), url, str(data)]


def _axios_folder() -> Path:
    """The program with its packages, made once for each version of its files. It is there whole or not at all."""
    npm, files = tool("npm"), [SENDERS / name for name in ("package.json", "package-lock.json", "axios.cjs")]
    version = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:16]
    folder = FETCHED / f"axios-{version}"
    with locked(FETCHED, Silent()):
        if not folder.is_dir():
            unfinished = FETCHED / "axios-unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            for each in files:
                shutil.copy(each, unfinished)
            command = [npm, "ci", "--no-audit", "--no-fund"]
            subprocess.run(command, cwd=unfinished, check=True, timeout=FETCH_SECONDS)
            unfinished.rename(folder)
    return folder


def _python(client: str) -> Command:
    return lambda url, data: [sys.executable, str(SENDERS / "python_clients.py"), client, url, str(data)]


def _curl(*options: str) -> Command:
    def command(url: str, data: Path) -> list[str]:
        lines = [*(f"{name}: {value}" for name, value in EVENT.items()), "content-type: application/octet-stream"]
        headers = [word for line in lines for word in ("--header", line)]
        return [
            tool("curl"), "--silent", "--show-error", "--max-time", "20", "--output", os.devnull,
            "--write-out", "1 %{http_code}", *headers,
            "--data-binary", f"@{data}", *options, url,
        ]  # fmt: skip

    return command


CLIENTS: dict[str, tuple[Command, int]] = {
    "java HttpClient": (_java("JavaHttpClient"), 2),
    "OkHttp": (_java("OkHttpSender", "okhttp"), 2),
    "Vert.x": (_java("VertxSender", "vertx"), 3),
    "Go net/http": (_go, 2),
    "Node fetch": (_fetch, 2),
    "axios": (_axios, 2),
    "requests": (_python("requests"), 2),
    "httpx": (_python("httpx"), 2),
    "aiohttp": (_python("aiohttp"), 2),
    "curl": (_curl(), 1),
    "curl --http2": (_curl("--http2"), 1),
    "curl in chunks": (_curl("--header", "Transfer-Encoding: chunked"), 1),
    "curl --http2 in chunks": (_curl("--http2", "--header", "Transfer-Encoding: chunked"), 1),
    "curl with HTTP/1.0": (_curl("--http1.0"), 1),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_acknowledged_to_a_client_is_stored(
    receiver: Receiver, kafka: KafkaConnection, data_file: Path, client: str
) -> None:
    """All of its requests get 202, and the data of each is stored byte for byte."""
    command, number = CLIENTS[client]
    path, topic = give_address(kafka, "".join(each for each in client.lower() if each.isalnum()))
    until(lambda: receiver.ask("GET", path).status == 405, "the receiver knows the address")
    result = subprocess.run(
        command(f"http://127.0.0.1:{receiver.port}{path}", data_file),
        capture_output=True,
        text=True,
        timeout=SEND_SECONDS,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:number] == [f"{place + 1} 202" for place in range(number)], result.stderr
    found = records(kafka, topic)
    assert sorted(dict(each.headers())["ce_id"] for each in found) == [b"%d" % (place + 1) for place in range(number)]
    assert all(each.value() == DATA for each in found)


def test_curl_with_prior_knowledge_of_http2(receiver: Receiver, kafka: KafkaConnection, data_file: Path) -> None:
    """A sender that begins with HTTP/2 is disconnected at once, and nothing is stored."""
    path, topic = give_address(kafka, "priorknowledge")
    until(lambda: receiver.ask("GET", path).status == 405, "the receiver knows the address")
    url = f"http://127.0.0.1:{receiver.port}{path}"
    command = _curl("--http2-prior-knowledge")(url, data_file)
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode not in (0, 28), result.stderr  # 28: its own timeout
    assert count(kafka, topic) == 0
