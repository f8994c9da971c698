"""Attacks on the admin port and on the dispatcher's port: half requests, malformed ones, large ones, strangers."""

import contextlib
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.access.tokens import read_token
from penstock.contract.model import Agreement, Route
from penstock.contract.questions import token_path
from penstock.http.server import ServerThread, listen
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection
from penstock.pipeline.dispatch import serve_questions
from penstock.pipeline.places import Places
from penstock.pipeline.questions import LIMITS, Answers, Trials, application
from penstock.pipeline.search import Searches
from penstock.pipeline.settings import DispatcherSettings
from penstock.ports import free_port
from tests.attacks.raw import Wire, ask, wire
from tests.waiting import until

HEALTHY = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
TOKEN = "the-token-of-this-run"
HALF_HEADS = 2000
MOST_OPEN_FILES = 300
MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Port:
    """A served port, and how to post JSON to it."""

    number: int
    pid: int
    posts_to: str
    body: bytes  # JSON that is understood there
    answer: tuple[int, str]  # the expected status, and a part of the message
    token: str = ""

    @property
    def post(self) -> bytes:
        """A head of a POST without its framing."""
        authorization = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        return f"POST {self.posts_to} HTTP/1.1\r\nHost: 127.0.0.1\r\n{authorization}".encode() + JSON

    def is_healthy(self) -> bool:
        try:
            return ask(self.number, HEALTHY).status == 200
        except (OSError, EOFError, IndexError):
            return False

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


JSON = b"Content-Type: application/json\r\n"
RESOURCES = "/apis/eventing.knative.dev/v1/namespaces/default/brokers"
ADMIN = (RESOURCES, b"{}", (503, "starting"))


@contextmanager
def admin_process(data_dir: Path, open_files: int | None = None) -> Iterator[Port]:
    """A controller without Kafka, which may open so many files: it still answers strangers."""
    port = free_port()
    command = [sys.executable, "-m", "penstock.cli.main", "controller", "--admin-port", str(port)]
    if open_files is not None:
        command = ["sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh", *command]
    settings = {"PENSTOCK_BOOTSTRAP_SERVERS": "127.0.0.1:1", "PENSTOCK_HOST": "127.0.0.1"}
    settings["PENSTOCK_DATA_DIR"] = str(data_dir)
    process = subprocess.Popen(command, env={**os.environ, **settings}, stderr=subprocess.DEVNULL)
    try:
        served = Port(port, process.pid, *ADMIN)
        until(served.is_healthy, "the admin port")
        yield served
    finally:
        process.terminate()
        process.wait()


@contextmanager
def dispatcher_here(*, open_metrics: bool = True) -> Iterator[Port]:
    """The dispatcher's port without a dispatcher: nothing that is asked here comes as far as Spark."""
    places = Places()
    places.take("Broker/default/orders", Agreement("u", 1, (Route("/default/orders", "orders"),)))
    clusters = Clusters(KafkaConnection("127.0.0.1:1", "attacked"), Path("/nowhere"))
    answers = Answers(Searches(cast(Any, None), clusters, places), Trials(cast(Any, None)), cast(Any, Vitals()))
    listener = listen("127.0.0.1", 0, "the dispatcher")
    server = ServerThread(application(answers, TOKEN, open_metrics=open_metrics), LIMITS, listener).start()
    try:
        yield Port(server.port, os.getpid(), "/search", b'{"topics": ["nowhere"]}', (400, "nowhere"), TOKEN)
    finally:
        server.stop()


class Vitals:
    """Stands in for those of a Spark."""

    def text(self) -> bytes:
        return b"penstock_slots 1\n"


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    with admin_process(tmp_path_factory.mktemp("data")) as served:
        yield served


@pytest.fixture(scope="module")
def dispatcher() -> Iterator[Port]:
    with dispatcher_here() as served:
        yield served


@pytest.fixture(params=["admin", "dispatcher"])
def port(request: pytest.FixtureRequest) -> Port:
    found: Port = request.getfixturevalue(request.param)
    return found


HOST = b"Host: 127.0.0.1\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
MALFORMED = {
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "empty host": b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\n" + 2 * HOST + b"\r\n",
    "HTTP/2.0": b"GET /healthz HTTP/2.0\r\n" + HOST + b"\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /healthz HTTP/0.9\r\n" + HOST + b"\r\n",
    "gzip, chunked": b"POST /search HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked, chunked": b"POST /search HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "two codings": b"POST /search HTTP/1.1\r\n" + HOST + 2 * CHUNKED + b"\r\n0\r\n\r\n",
    "identity": b"POST /search HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: identity\r\n\r\n",
    "coding in HTTP/1.0": b"POST /search HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n0\r\n\r\n",
    "coding and length": b"POST /search HTTP/1.1\r\n" + HOST + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "length and coding": b"POST /search HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "length -1": b"POST /search HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
    "length +1": b"POST /search HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\na",
    "two lengths": b"POST /search HTTP/1.1\r\n" + HOST + 2 * b"Content-Length: 1\r\n" + b"\r\na",
    "folded header": b"GET /healthz HTTP/1.1\r\n" + HOST + b"A: b\r\n c\r\n\r\n",
    "space before the colon": b"GET /healthz HTTP/1.1\r\n" + HOST + b"Content-Length : 1\r\n\r\na",
    "bare line feeds": b"GET /healthz HTTP/1.1\nHost: 127.0.0.1\n\n",
    "CONNECT": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n" + HOST + b"\r\n",
    "two Authorization": b"GET /healthz HTTP/1.1\r\n" + HOST + 2 * b"Authorization: Bearer a\r\n" + b"\r\n",
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED)
def test_what_two_servers_could_read_differently_is_refused(port: Port, case: str) -> None:
    """Kept promise: a malformed request gets 400 and the end of its connection; what follows it is never run."""
    with wire(port.number) as stranger:
        assert stranger.try_to_send(MALFORMED[case] + HEALTHY).answer().status == 400
        assert stranger.is_closed()


@pytest.mark.parametrize("upgrade", ["h2c", "websocket", "nobody-knows"])
@pytest.mark.parametrize("framing", ["length", "chunks", "chunks in pieces"])
def test_a_body_is_read_though_another_protocol_is_offered(port: Port, upgrade: str, framing: str) -> None:
    """Kept promise: an upgrade is ignored, the body is read whole, and the connection stays in step."""
    body = b" " * 9000 + port.body
    head = (
        port.post + f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\nHTTP2-Settings: AAAA\r\n".encode()
    )
    if framing == "length":
        sent = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    else:
        sent = head + CHUNKED + b"\r\n" + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with wire(port.number) as caller:
        step = 700 if framing == "chunks in pieces" else len(sent)
        for start in range(0, len(sent), step):
            caller.send(sent[start : start + step])
        answer = caller.answer()
        status, word = port.answer
        assert answer.status == status, answer.body
        assert word in answer.json["error"]
        assert caller.send(HEALTHY).answer().status == 200


def test_a_body_is_never_the_next_request(port: Port) -> None:
    """Kept promise: bytes of a body are read as a body, also for a request that needs none."""
    with wire(port.number) as caller:
        caller.send(
            b"POST /nowhere HTTP/1.1\r\n" + HOST + JSON + b"Content-Length: %d\r\n\r\n" % len(HEALTHY) + HEALTHY
        )
        assert caller.answer().status in (401, 404)
        assert caller.send(b"GET /nowhere HTTP/1.1\r\n" + HOST + b"\r\n").answer().status in (401, 404)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"X: " + b"x" * 100_000, 431),
        (b"".join(b"x%d: y\r\n" % n for n in range(500)), 431),
        (b"Content-Length: 100000000\r\n\r\n", 413),
        (b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
        (CHUNKED + b"\r\n" + b"10000\r\n" % () + b"x" * 65536 + b"\r\n", 0),
        (CHUNKED + b"\r\n1;" + b"x" * 100_000, 431),
        (CHUNKED + b"\r\n0\r\nX: " + b"x" * 100_000, 431),
    ],
    ids=["long header", "many headers", "long body", "absurd length", "chunks", "chunk extension", "trailer"],
)
def test_what_is_too_large_is_refused_before_it_is_kept(port: Port, head: bytes, status: int) -> None:
    """Kept promise: a head or a body beyond its limit is refused, however its length is disguised."""
    with wire(port.number) as stranger:
        if status:
            stranger.try_to_send(port.post + head)
        else:  # a chunk after the other, without an end
            stranger.try_to_send(port.post + head[: head.index(b"10000")])
            for _ in range(200):
                stranger.try_to_send(head[head.index(b"10000") :])
            status = 413
        assert stranger.answer().status == status
        assert stranger.is_closed()
    assert port.is_healthy()


def test_half_heads_hold_little_memory(port: Port) -> None:
    """Kept promise: with 2,000 half heads of 65 kB memory grows by little, and honest callers get their answers."""
    assert port.is_healthy()
    gc.collect()  # one of the ports is in this process
    before = port.resident_bytes()
    half = b"GET /healthz HTTP/1.1\r\n" + HOST + b"".join(b"x%d: %s\r\n" % (n, b"y" * 990) for n in range(65))
    held: list[Wire] = []
    honest = 0
    try:
        for number in range(HALF_HEADS):
            held.append(Wire(port.number).try_to_send(half))
            if number % 10 == 9:
                honest += port.is_healthy()
        assert honest >= 0.99 * HALF_HEADS / 10
        assert port.resident_bytes() - before < 100 * MEGABYTE
    finally:
        for each in held:
            each.close()


def test_half_heads_and_few_open_files(tmp_path: Path) -> None:
    """Kept promise: with more half heads than the controller may open files, honest callers get their answers."""
    with admin_process(tmp_path, MOST_OPEN_FILES) as port, contextlib.ExitStack() as stack:
        for _ in range(MOST_OPEN_FILES + 50):
            stack.enter_context(wire(port.number)).try_to_send(b"GET /healthz HTTP/1.1\r\n")
        assert sum(port.is_healthy() for _ in range(100)) >= 99


POSTS = [
    f"POST {RESOURCES}",
    f"PUT {RESOURCES}/orders",
    "POST /api/penstock/triggers/default/bills/pause",
    "POST /api/penstock/triggers/default/bills/resume",
    "POST /api/penstock/triggers/default/bills/reset",
    "POST /api/penstock/deadletters/redrive",
    "POST /api/penstock/jobs",
    "POST /api/penstock/trial",
    "POST /api/penstock/search",
]


@pytest.mark.parametrize("where", POSTS)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"reason": "' + b"x" * 950_000 + b'"}', 413),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, 400),
        (b'{"a":' * 300 + b"1" + b"}" * 300, 400),
        (b"[" * 500_000, 400),
    ],
    ids=["large", "deep", "a little too deep", "deep without an end"],
)
def test_bodies_of_the_api_are_bounded(admin: Port, where: str, body: bytes, status: int) -> None:
    """Kept promise: a body that is large or deeply nested is refused, whatever it is sent to; pausing too."""
    head = f"{where} HTTP/1.1\r\nContent-Length: {len(body)}\r\n".encode() + HOST + JSON + b"\r\n"
    with wire(admin.number) as stranger:
        assert stranger.try_to_send(head + body).answer().status == status
    assert admin.is_healthy()


@pytest.mark.parametrize(
    "authorization", ["", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN]
)
@pytest.mark.parametrize("what", ["POST /search", "POST /verdicts", "GET /search", "GET /anything"])
def test_the_dispatcher_answers_nobody_without_its_token(dispatcher: Port, what: str, authorization: str) -> None:
    """Kept promise: everything except probes and metrics needs the token of this run; without it no body is read."""
    header = f"Authorization: {authorization}\r\n" if authorization else ""
    body = b'{"topics": ["orders"], "filters": [], "events": []}'
    sent = f"{what} HTTP/1.1\r\n{header}Content-Length: {len(body)}\r\n".encode() + HOST + JSON + b"\r\n" + body
    answer = ask(dispatcher.number, sent)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert TOKEN.encode() not in answer.body


@pytest.mark.parametrize(
    ("path", "open_metrics", "status"),
    [
        ("/healthz", False, 200),
        ("/readyz", False, 200),
        ("/metrics", True, 200),
        ("/metrics", False, 401),
        ("//metrics", True, 401),
        ("/metrics/", True, 401),
        ("/healthz/../search", True, 401),
        ("/%73earch", True, 401),
    ],
)
def test_probes_are_open_and_metrics_by_setting(path: str, open_metrics: bool, status: int) -> None:
    """Kept promise: the list of open paths is short, and no other spelling of a path is on it."""
    with dispatcher_here(open_metrics=open_metrics) as served:
        assert ask(served.number, f"GET {path} HTTP/1.1\r\n".encode() + HOST + b"\r\n").status == status


@pytest.mark.parametrize(
    "topics",
    [
        b'[{"topic": "orders", "cluster": {"bootstrap_servers": "127.0.0.1:9", "secret": "default/sasl"}}]',
        b'["orders@127.0.0.1:9"]',
        b'["penstock-contract"]',
        b"[]",
        b"[" * 100_000,
    ],
    ids=["a cluster", "a place elsewhere", "a topic of ours", "none", "deep"],
)
def test_a_search_goes_nowhere_but_where_the_contract_says(dispatcher: Port, topics: bytes) -> None:
    """Kept promise: even with the token, a caller cannot choose the server of a search, or its Secret."""
    body = b'{"topics": ' + topics + b"}"
    answer = ask(dispatcher.number, dispatcher.post + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.status == 400
    assert "error" in answer.json


def searching(token: str) -> bytes:
    """A whole request with this token, for a topic that does not exist."""
    body = b'{"topics": ["nowhere"]}'
    head = f"POST /search HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + HOST + JSON + b"\r\n" + body


@contextmanager
def served_as_in_a_run(settings: DispatcherSettings) -> Iterator[int]:
    """The dispatcher's port as the dispatcher serves it, without Spark and Kafka."""
    clusters = Clusters(KafkaConnection("127.0.0.1:1", "attacked"), Path("/nowhere"))
    environment = SimpleNamespace(settings=settings, session=None, clusters=clusters, vitals=Vitals())
    server = serve_questions(cast(Any, environment), Places())
    try:
        yield server.port
    finally:
        server.stop()


def test_a_setting_limits_the_connections_of_an_address_to_the_dispatcher(tmp_path: Path) -> None:
    """Kept promise: where it is set, one address does not take all connections."""
    settings = DispatcherSettings(
        data_dir=str(tmp_path), dispatcher_port=free_port(), dispatcher_connections_per_address=2
    )
    with served_as_in_a_run(settings) as port, wire(port), wire(port) as second, wire(port) as third:
        assert third.answer().status == 503
        assert second.send(HEALTHY).answer().status == 200


def test_each_run_of_a_dispatcher_has_a_token_of_its_own(tmp_path: Path) -> None:
    """Kept promise: only the owner can read the file, and an older token is not accepted."""
    path = token_path(str(tmp_path), "")
    settings = DispatcherSettings(data_dir=str(tmp_path), dispatcher_port=free_port())
    earlier = ""
    for _ in range(3):
        with served_as_in_a_run(settings) as port:
            token = read_token(path)
            statuses = [ask(port, searching(each)).status for each in (token, earlier)]
        assert statuses == [400, 401], "its own token is accepted, and the topic does not exist"
        earlier = token
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert token_path(str(tmp_path), str(tmp_path / "other")) == tmp_path / "other"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8091", 200),
        ("localhost", 200),
        ("attacker.example", 401),
        ("127.0.0.1.attacker.example:8091", 401),
    ],
)
def test_a_name_of_a_stranger_does_not_open_the_metrics(dispatcher: Port, host: str, status: int) -> None:
    """Kept promise: a web page that points its own name to this machine cannot read the dispatcher's metrics."""
    assert ask(dispatcher.number, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).status == status
