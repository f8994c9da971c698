"""The admin port: requests of web pages, of strangers, and of callers that want too much."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from penstock.child import birth_of
from penstock.kafka.connection import KafkaConnection
from penstock.ports import free_port
from tests.attacks.admin_port import BROKERS, DATA, JSON, AdminPort, admin_port
from tests.conftest import PENSTOCK
from tests.sink import Answer, Sink
from tests.waiting import until

STARTING = 503  # what passes every check: this controller has no Kafka
FEEDS, TAILS = 40, 6  # live feeds and tails that one caller may have

BROKER = json.dumps(
    {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": "mine"}}
).encode()
TRIGGER = json.dumps(
    {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": "mine"},
        "spec": {"broker": "mine", "subscriber": {"uri": "http://evil.example/"}},
    }
).encode()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminPort]:
    """As by default: on loopback, and no token is required."""
    with admin_port(tmp_path_factory.mktemp("local")) as admin:
        yield admin


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminPort]:
    """Off loopback."""
    with admin_port(tmp_path_factory.mktemp("exposed"), "--host", "0.0.0.0") as admin:
        yield admin


# ── Host ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8090",
        "127.0.0.1.evil.example",
        "127.0.0.1.evil.example:8090",
        "localhost.evil.example",
        "evil.example.localhost.example",
        "127.0.0.1@evil.example",
        "evil.example#127.0.0.1",
        "[::1].evil.example",
        "[::1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "10.0.0.1",
        "169.254.169.254",
        "[fe80::1]",
        "localhost:99999999",
    ],
)
def test_a_name_that_points_here_by_rebinding_is_refused(local: AdminPort, host: str) -> None:
    for path in (DATA, "/", "/metrics", BROKERS):
        assert local.ask("GET", path, {"Host": host}).status == 421
    refused = local.ask("POST", BROKERS, {"Host": host, **JSON}, BROKER)
    assert refused.status == 421
    assert "--allowed-host" in refused.error["hint"]


@pytest.mark.parametrize("hosts", [[], [""], ["127.0.0.1", "evil.example"], ["evil.example", "127.0.0.1"]])
def test_a_request_names_exactly_one_host(local: AdminPort, hosts: list[str]) -> None:
    assert local.ask("GET", DATA, {"Host": hosts}).status in (400, 421)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.8.9.1:8090", "[::1]:8090", "penstock.localhost"]
)
def test_loopback_names_are_accepted_with_any_port(local: AdminPort, host: str) -> None:
    assert local.ask("GET", DATA, {"Host": host}).status == 200


def test_further_names_are_accepted_when_they_are_allowed(tmp_path: Path) -> None:
    flags = ("--allowed-host", "penstock.example", "--allowed-host", "Proxy.example:8443")
    with admin_port(tmp_path, *flags) as admin:
        for host in ("penstock.example", "PENSTOCK.example:8090", "proxy.example"):
            assert admin.ask("GET", DATA, {"Host": host}).status == 200
        for host in ("x.penstock.example", "penstock.example.evil.example"):
            assert admin.ask("GET", DATA, {"Host": host}).status == 421


# ── pages of others ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("path", "body"), [(BROKERS, BROKER), (BROKERS.replace("brokers", "triggers"), TRIGGER)])
def test_a_foreign_page_creates_nothing(local: AdminPort, path: str, body: bytes) -> None:
    headers = {
        "Host": "evil.example",
        "Origin": "http://evil.example",
        "Sec-Fetch-Site": "cross-site",
        "Content-Type": "text/plain",
    }
    assert local.ask("POST", path, headers, body).status == 421
    for left_out in headers:
        others = {name: value for name, value in headers.items() if name != left_out}
        assert local.ask("POST", path, others, body).status in (403, 415, 421)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "file://",
        "http://evil.example",
        "https://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://localhost:{port}",
        "http://127.0.0.1:{port}.evil.example",
        "http://evil.example@127.0.0.1:{port}",
        "http://127.0.0.1:{port}/",
        "ftp://127.0.0.1:{port}",
    ],
)
def test_a_foreign_origin_is_refused(local: AdminPort, origin: str) -> None:
    given = {"Origin": origin.format(port=local.port)}
    assert local.ask("GET", DATA, given).status == 403
    assert local.ask("POST", BROKERS, {**given, **JSON}, BROKER).status == 403
    assert local.ask("DELETE", f"{BROKERS}/mine", given).status == 403
    assert local.ask("POST", "/api/penstock/login-link", given).status == 403


def test_two_origins_are_refused(local: AdminPort) -> None:
    both = {"Origin": [f"http://{local.host}", "http://evil.example"]}
    assert local.ask("GET", DATA, both).status in (400, 403)


def test_a_preflight_allows_nothing(local: AdminPort) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = local.ask("OPTIONS", BROKERS, asked)
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "unheard-of", ""])
@pytest.mark.parametrize("mode", ["no-cors", "cors", "navigate"])
def test_fetch_metadata_of_other_sites_are_refused(local: AdminPort, site: str, mode: str) -> None:
    given = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
    for path in (DATA, BROKERS, "/metrics", "/api/penstock/live"):
        assert local.ask("GET", path, given).status == 403
    assert local.ask("POST", BROKERS, {**given, **JSON}, BROKER).status == 403


def test_the_dashboard_may_be_opened_from_elsewhere_but_not_embedded(local: AdminPort) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    opened = local.ask("GET", "/", link)
    assert opened.status == 200
    assert "frame-ancestors 'none'" in opened.headers["content-security-policy"]
    assert local.ask("GET", "/static/app.js", {**link, "Sec-Fetch-Mode": "no-cors"}).status == 403


def test_the_dashboard_s_own_requests_pass(local: AdminPort) -> None:
    own = {"Origin": f"http://{local.host}", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert local.ask("GET", DATA, own).status == 200
    assert local.ask("POST", BROKERS, {**own, **JSON}, BROKER).status == STARTING
    assert local.ask("GET", DATA, {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}).status == 200


# ── bodies ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "text/plain;application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "text/json",
    ],
)
def test_a_body_is_json_or_refused(local: AdminPort, content_type: str | None) -> None:
    given = {} if content_type is None else {"Content-Type": content_type}
    for method, path in (("POST", BROKERS), ("PUT", f"{BROKERS}/mine"), ("POST", "/api/penstock/search")):
        assert local.ask(method, path, given, BROKER).status == 415


def test_two_types_of_a_body_are_refused(local: AdminPort) -> None:
    both = {"Content-Type": ["application/json", "text/plain"]}
    assert local.ask("POST", BROKERS, both, BROKER).status in (400, 415)


def test_json_with_a_charset_passes(local: AdminPort) -> None:
    assert local.ask("POST", BROKERS, {"Content-Type": "Application/JSON; charset=utf-8"}, BROKER).status == STARTING


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────────


def wrong_tokens(token: str) -> list[dict[str, str]]:
    return [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {token[:-1]}"},
        {"Authorization": f"Bearer {token}x"},
        {"Authorization": f"Basic {token}"},
        {"Authorization": token},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Cookie": f"penstock={token}"},
    ]


@pytest.mark.parametrize("number", range(9))
def test_off_loopback_nothing_is_read_or_changed_without_the_token(exposed: AdminPort, number: int) -> None:
    headers = wrong_tokens(exposed.token)[number]
    for path in (DATA, BROKERS, "/metrics", "/api/penstock/live", f"{DATA}?token={exposed.token}", "/api/penstock/x"):
        refused = exposed.ask("GET", path, headers)
        assert (refused.status, refused.headers["www-authenticate"][:6]) == (401, "Bearer")
    assert exposed.ask("POST", BROKERS, {**headers, **JSON}, BROKER).status == 401
    assert exposed.ask("DELETE", f"{BROKERS}/mine", headers).status == 401
    assert exposed.ask("POST", "/api/penstock/login-link", headers).status == 401


def test_two_tokens_open_nothing(exposed: AdminPort) -> None:
    both = {"Authorization": ["Bearer wrong", f"Bearer {exposed.token}"]}
    assert exposed.ask("GET", DATA, both).status in (400, 401)


def test_the_token_opens_the_api_but_not_for_foreign_pages(exposed: AdminPort) -> None:
    assert exposed.ask("GET", DATA, exposed.with_token).status == 200
    assert exposed.ask("GET", "/metrics", exposed.with_token).status == 200
    assert exposed.ask("POST", BROKERS, {**exposed.with_token, **JSON}, BROKER).status == STARTING
    for foreign in ({"Host": "evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert exposed.ask("GET", DATA, {**exposed.with_token, **foreign}).status in (403, 421)


def test_probes_stay_open(exposed: AdminPort) -> None:
    for headers in ({}, {"Host": "10.2.3.4:8090"}, {"Host": "penstock.default.svc"}):
        assert exposed.ask("GET", "/healthz", headers).status == 200
        assert exposed.ask("GET", "/readyz", headers).status == STARTING


def test_the_token_is_readable_by_its_owner_only_and_never_shown(exposed: AdminPort) -> None:
    path = exposed.data_dir / "run" / "admin.token"
    assert path.stat().st_mode & 0o077 == 0
    settings = exposed.ask("GET", DATA, exposed.with_token).body
    log = (exposed.data_dir / "controller.log").read_bytes()
    assert exposed.token.encode() not in settings + log


@pytest.mark.parametrize(("setting", "status"), [("on", 200), ("off", 401)])
def test_metrics_are_open_as_it_is_set(tmp_path: Path, setting: str, status: int) -> None:
    flags = ("--require-token",)
    with admin_port(tmp_path, *flags, environment={"PENSTOCK_METRICS_OPEN": setting}) as admin:
        assert admin.ask("GET", "/metrics").status == status
        assert admin.ask("GET", DATA).status == 401  # --require-token, on loopback


@pytest.mark.parametrize("command", ["up", "controller"])
@pytest.mark.parametrize("fault", ["others may read", "is empty", "cannot be"])
def test_off_loopback_nothing_starts_without_a_private_token(tmp_path: Path, command: str, fault: str) -> None:
    path = tmp_path / "admin.token"
    if fault == "cannot be":
        path.touch()
        path = path / "below-a-file"
    else:
        path.write_text("" if fault == "is empty" else "known-to-all\n")
        path.chmod(0o600 if fault == "is empty" else 0o644)
    ports = ["--admin-port", str(free_port()), "--ingress-port", str(free_port()), "--host", "0.0.0.0"]
    environment = {
        "PENSTOCK_ADMIN_TOKEN_FILE": str(path),
        "PENSTOCK_DATA_DIR": str(tmp_path / "data"),
        "PENSTOCK_KAFKA_PORT": str(free_port()),
    }
    refused = subprocess.run(
        [*PENSTOCK, command, *ports],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert "token file" in refused.stderr
    assert fault in refused.stderr


def test_on_loopback_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {"PENSTOCK_ADMIN_TOKEN_FILE": str(tmp_path / "file" / "admin.token")}
    with admin_port(tmp_path, environment=environment) as admin:
        assert admin.ask("GET", DATA).status == 200
        assert admin.ask("GET", DATA, {"Origin": "null"}).status == 403


# ── sessions of browsers ──────────────────────────────────────────────────────────────────────────────


def link(admin: AdminPort) -> str:
    answer = admin.ask("POST", "/api/penstock/login-link", admin.with_token)
    assert answer.status == 201
    return str(json.loads(answer.body)["path"])


def cookie(admin: AdminPort) -> dict[str, str]:
    answer = admin.ask("GET", link(admin))
    assert (answer.status, answer.headers["location"]) == (303, "/")
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def test_a_link_becomes_a_cookie_that_no_script_and_no_other_site_can_use(exposed: AdminPort) -> None:
    answer = exposed.ask("GET", link(exposed), {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    attributes = {each.strip().lower() for each in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    assert answer.headers["cache-control"] == "no-store"
    assert exposed.token not in answer.headers["set-cookie"]


def test_a_link_works_once(exposed: AdminPort) -> None:
    path = link(exposed)
    assert exposed.ask("HEAD", path).status == 200  # a preview does not use it up
    assert exposed.ask("GET", path).status == 303
    again = exposed.ask("GET", path)
    assert again.status == 403
    assert "set-cookie" not in again.headers
    assert b"penstock dashboard" in again.body


@pytest.mark.parametrize("code", ["", "x", "%00", "a" * 5000, "%ff%fe", "../", "None"])
def test_no_other_code_opens_a_session(exposed: AdminPort, code: str) -> None:
    answer = exposed.ask("GET", f"/login?code={code}")
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_a_session_reads_and_changes_only_from_the_dashboard(exposed: AdminPort) -> None:
    session = cookie(exposed)
    assert exposed.ask("GET", DATA, session).status == 200
    change = {**session, **JSON}
    assert exposed.ask("POST", BROKERS, change, BROKER).status == 403
    assert exposed.ask("DELETE", f"{BROKERS}/mine", session).status == 403
    for foreign in ({"Origin": "null"}, {"Origin": "http://127.0.0.1"}, {"Sec-Fetch-Site": "same-site"}):
        assert exposed.ask("POST", BROKERS, {**change, **foreign}, BROKER).status == 403
    for own in ({"Origin": f"http://{exposed.host}"}, {"Sec-Fetch-Site": "same-origin"}):
        assert exposed.ask("POST", BROKERS, {**change, **own}, BROKER).status == STARTING


def test_a_session_makes_no_further_sessions(exposed: AdminPort) -> None:
    own = {"Origin": f"http://{exposed.host}"}
    assert exposed.ask("POST", "/api/penstock/login-link", {**cookie(exposed), **own}).status == 403


def test_a_cookie_is_of_use_only_where_it_was_made(exposed: AdminPort, tmp_path: Path) -> None:
    session = cookie(exposed)["Cookie"]
    name, _, secret = session.partition("=")
    for stolen in (f"{name}={secret}x", f"{name}={secret[:-1]}", f"penstock={secret}", f"{name}=", name):
        assert exposed.ask("GET", DATA, {"Cookie": stolen}).status == 401
    with admin_port(tmp_path, "--require-token") as other:
        moved = {"Cookie": f"penstock-{other.port}={secret}"}
        assert other.ask("GET", DATA, moved).status == 401


# ── streams ───────────────────────────────────────────────────────────────────────────────────────────


def stream(stack: ExitStack, admin: AdminPort, path: str, headers: dict[str, str], source: str) -> int:
    """The status of a stream that stays open."""
    connection: HTTPConnection = stack.enter_context(closing(admin.begin("GET", path, headers, source=source)))
    answer = connection.getresponse()
    stack.callback(answer.close)
    return answer.status


def test_one_caller_cannot_take_all_live_feeds(local: AdminPort) -> None:
    path, session = "/api/penstock/live", cookie(local)
    with ExitStack() as stack:
        for n in range(FEEDS):
            spoofed = {"X-Forwarded-For": f"10.0.0.{n}"}
            assert stream(stack, local, path, spoofed, f"127.0.0.{n % 5 + 1}") == 200
        refused = local.ask("GET", path, {"X-Forwarded-For": "10.1.1.1"}, source="127.0.0.77")
        assert refused.status == 429
        assert "40" in refused.error["error"]
        assert refused.error["hint"]
        assert local.ask("GET", f"{path}?once=1").status == 200  # no stream
        for other in (local.with_token, session):
            assert stream(stack, local, path, other, "127.0.0.1") == 200
    until(lambda: local.ask("GET", DATA).status == 200)

    def there_is_room() -> bool:
        with ExitStack() as again:
            return stream(again, local, path, {}, "127.0.0.1") == 200

    until(there_is_room, "the seats are free again")


def test_twenty_anonymous_tails_leave_seats_for_others(kafka: KafkaConnection, tmp_path: Path) -> None:
    with admin_port(tmp_path, bootstrap_servers=kafka.bootstrap_servers) as admin, ExitStack() as stack:
        until(lambda: admin.ask("GET", "/readyz").status == 200, "the controller is ready")
        named = BROKER.replace(b"mine", b"tailed-by-many")
        assert admin.ask("POST", BROKERS, JSON, named).status == 201
        path = "/api/penstock/tail?of=Broker/default/tailed-by-many"
        seats = [_tail(stack, admin, path, {}) for _ in range(20)]
        assert seats == [200] * TAILS + [429] * (20 - TAILS)
        assert _tail(stack, admin, path, admin.with_token) == 200
        stack.close()
        assert admin.ask("DELETE", f"{BROKERS}/tailed-by-many").status == 200
        until(lambda: admin.ask("GET", f"{BROKERS}/tailed-by-many").status == 404, "the end of the broker")


def _tail(stack: ExitStack, admin: AdminPort, path: str, headers: dict[str, str]) -> int:
    """Once the topic is there."""

    def begun() -> int | None:
        with ExitStack() as attempt:
            status = stream(attempt, admin, path, headers, "127.0.0.1")
            if status in (200, 429):
                stack.push(attempt.pop_all())
                return status
        return None

    return until(begun, "the topic of the broker")


# ── the command line ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def recorder() -> Iterator[Sink]:
    """A foreign server that notes the requests it gets."""
    sink = Sink().start()
    sink.answer("/api/penstock/live?once=1", with_=lambda _: Answer(200, b"{}"))
    yield sink
    sink.stop()


def write_state(folder: Path, port: int, pid: int, token: Path) -> None:
    (folder / "run").mkdir(exist_ok=True)
    state = {"pid": pid, "birth": birth_of(os.getpid()), "host": "127.0.0.1"}
    state |= {"admin_port": port, "admin_token_file": str(token)}
    (folder / "run" / "up.json").write_text(json.dumps(state))


@pytest.mark.parametrize(
    ("whose", "runs", "is_sent"),
    [("its own", True, True), ("its own", False, False), ("another", True, False)],
)
def test_the_token_goes_only_to_the_server_of_its_data_directory(
    local: AdminPort, recorder: Sink, tmp_path: Path, whose: str, runs: bool, is_sent: bool
) -> None:
    port = recorder.port if whose == "its own" else recorder.port + 1
    write_state(tmp_path, port, os.getpid() if runs else 2**22 + 1, local.data_dir / "run" / "admin.token")
    local.run("get", "brokers", PENSTOCK_SERVER=recorder.url, PENSTOCK_DATA_DIR=str(tmp_path))
    sent = [each.headers.get("authorization") for each in recorder.requests]
    assert sent
    assert sent == [f"Bearer {local.token}" if is_sent else None] * len(sent)


def test_a_token_file_that_is_named_is_used_for_the_server_that_is_named(exposed: AdminPort) -> None:
    path = str(exposed.data_dir / "run" / "admin.token")
    for arguments in (["settings", "--token-file", path], [f"--token-file={path}", "settings"]):
        answer = exposed.run(*arguments, "-o", "json")
        assert answer.returncode == 0, answer.stderr
    assert exposed.run("settings", PENSTOCK_TOKEN_FILE=path).stdout


def test_without_the_token_the_command_line_names_what_is_missing(exposed: AdminPort) -> None:
    for command in (["get", "brokers"], ["settings"], ["status"], ["dashboard"], ["tail", "broker/x"]):
        refused = exposed.run(*command)
        assert refused.returncode == 1
        assert "a token is required" in refused.stderr
        assert "--token-file" in refused.stderr


def test_a_token_file_that_others_may_read_is_refused(exposed: AdminPort, tmp_path: Path) -> None:
    path = tmp_path / "copied.token"
    path.write_text(exposed.token)
    path.chmod(0o644)
    refused = exposed.run("settings", "--token-file", str(path))
    assert refused.returncode == 1
    assert "others may read" in refused.stderr
    assert exposed.token not in refused.stderr


def test_the_command_dashboard_prints_a_link_that_opens_a_session(exposed: AdminPort) -> None:
    path = str(exposed.data_dir / "run" / "admin.token")
    printed = exposed.run("dashboard", "-o", "json", "--token-file", path)
    url = json.loads(printed.stdout)["url"]
    assert url.startswith(f"http://{exposed.host}/login?code=")
    assert exposed.ask("GET", url.removeprefix(f"http://{exposed.host}")).status == 303
