"""What can be reached from outside, and what other users of the machine can read.

127.0.0.2 stands for the outside: it is an address of this machine, and no process listens on it by default.
"""

import ipaddress
import json
import os
import socket
import stat
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import child
from penstock.cli import plan
from penstock.cli.up_settings import UpSettings
from penstock.errors import Misconfigured, PenstockError
from penstock.kafka import fetch, java, login, secret_files, security
from penstock.kafka.connection import KafkaConnection
from penstock.pipeline.session import socket_folder, start_session
from penstock.pipeline.settings import DispatcherSettings
from tests.conftest import System, running_system
from tests.disk import contents
from tests.sink import Sink
from tests.system.resources import apply, broker, trigger
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUTSIDE = "127.0.0.2"
LISTENING = "0A"
RPC_REQUEST, RPC_FAILURE, HUNG_UP = 3, 5, -1  # types of messages in Spark's transport protocol; and none
READ_OR_WRITE = stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH  # Spark makes its jars executable for all


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system that listens outside, whose Kafka asks for a login, started with an open umask."""
    folder = tmp_path_factory.mktemp("exposed")
    folder.chmod(0o755)
    data = folder / "data"
    left = data / "logs" / "left-open.log"  # as an earlier version has left it
    left.parent.mkdir(parents=True)
    left.write_text("what others must not read\n")
    before = os.umask(0o022)
    try:
        variables = {"PENSTOCK_KAFKA_AUTH": "scram"}
        with running_system(data, variables, host=OUTSIDE) as system:
            yield system
    finally:
        os.umask(before)


def processes_of(system: System) -> list[int]:
    state = json.loads((system.data_dir / "run" / "up.json").read_text())
    return [*child.marked(str(state["run_id"])), int(state["pid"])]


def listening(pids: list[int]) -> set[tuple[str, int]]:
    """Address and port of every socket of these processes that takes connections."""
    sockets = set()
    for pid in pids:
        with suppress(OSError):  # it has ended
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with suppress(OSError):  # this file was closed meanwhile
                    sockets.add(os.readlink(entry.path))
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in map(str.split, Path(table).read_text().splitlines()[1:]):
            if row[3] == LISTENING and f"socket:[{row[9]}]" in sockets:
                words, _, port = row[1].partition(":")
                raw = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
                address = ipaddress.ip_address(raw)
                found.add((str(getattr(address, "ipv4_mapped", None) or address), int(port, 16)))
    return found


def test_only_ingress_and_admin_leave_loopback(exposed: System) -> None:
    """Kept promise: --host moves these two ports; Kafka, Spark and the dispatcher's port stay on 127.0.0.1."""
    found = listening(processes_of(exposed))
    assert len(found) >= 6, "ingress, admin, two of Kafka, the dispatcher's, and those of Spark"
    outside = {port for address, port in found if address not in ("127.0.0.1", "::1")}
    assert outside == {int(url.rpartition(":")[2]) for url in (exposed.ingress_url, exposed.admin_url)}


def test_nothing_below_the_data_directory_is_open_to_other_users(exposed: System) -> None:
    """Kept promise: logs, events, sockets and state are the owner's, whatever the umask; so are old files."""
    paths = [exposed.data_dir]
    for place, folders, files in os.walk(exposed.data_dir):  # Kafka and Spark delete files meanwhile
        paths += [Path(place, name) for name in (*folders, *files)]
    assert len(paths) > 50
    opened = []
    for path in paths:
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        if mode & READ_OR_WRITE and not stat.S_ISLNK(mode):
            opened.append(f"{stat.filemode(mode)} {path}")
    assert opened == []


def test_every_process_makes_private_files(exposed: System) -> None:
    """Kept promise: no process of ours, of Kafka or of Spark makes a file that others may read, wherever it is."""
    masks = {}
    for pid in processes_of(exposed):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        for line in status.splitlines():  # one that has just ended has no such line
            if line.startswith("Umask"):
                masks[pid] = line.split()[1]
    assert len(masks) >= 6
    assert set(masks.values()) == {"0077"}


def test_a_kafka_with_a_login_refuses_strangers(exposed: System) -> None:
    """Kept promise: no login and a wrong password end in a refusal."""
    with pytest.raises(PenstockError):
        KafkaConnection(exposed.bootstrap_servers).check(3.0)
    wrong = security_of(exposed, password="guessed")
    with pytest.raises(Misconfigured, match="does not let us in"):
        wrong.check(30.0)
    security_of(exposed).check(30.0)


def security_of(system: System, password: str = "") -> KafkaConnection:
    path = login.secret_file(system.data_dir)
    data = secret_files.read_file(path, "login", "start the system")
    data |= {"password": password.encode()} if password else {}
    return KafkaConnection(system.bootstrap_servers, security=security.parse("login", data))


def test_events_arrive_through_a_kafka_with_a_login(exposed: System, sink: Callable[[], Sink]) -> None:
    """Kept promise: receiver, controller, dispatcher, workers, Spark's own client and the CLI all use the login."""
    subscriber = sink()
    apply(exposed, broker("guarded"), trigger("guarded", "guarded", subscriber.url))
    sent = exposed.run("send", "broker/guarded", "--type", "test.sent", "--source", "/tests", "--count", "5")
    assert sent.returncode == 0, sent.stderr
    until(lambda: len(subscriber.requests) >= 5, "five events", 150)
    lag = exposed.run("lag", "-o", "json")
    assert lag.returncode == 0, lag.stderr


def test_the_password_is_in_no_argument_variable_or_log(exposed: System) -> None:
    """Kept promise: it is in private files and nowhere else: not in `ps`, not in an environment, not in a log."""
    password = security_of(exposed).security.password.encode()  # type: ignore[union-attr]
    for pid in processes_of(exposed):
        for name in ("cmdline", "environ"):
            try:
                assert password not in Path(f"/proc/{pid}/{name}").read_bytes(), f"{name} of {pid}"
            except OSError:
                continue
    gathered = exposed.data_dir.parent / "support.zip"
    made = exposed.run("must-gather", "--out", str(gathered))
    assert made.returncode == 0, made.stderr
    with zipfile.ZipFile(gathered) as bundle:
        assert any(name.endswith("kafka/topics.json") for name in bundle.namelist())
        for name in bundle.namelist():
            assert password not in bundle.read(name), name
    found = [
        path.relative_to(exposed.data_dir).parts for path, held in contents(exposed.data_dir) if password in held
    ]
    holders = {parts[0] for parts in found}
    assert holders <= {"secrets", "kafka"}, found  # of Kafka: server.properties, which only its owner reads


def test_spark_takes_no_message_from_strangers(spark: "SparkSession") -> None:
    """Kept promise: without the secret of this run no message reaches Spark's Java deserializer, also on loopback."""
    port = int(spark.sparkContext.getConf().get("spark.driver.port"))
    assert answer_of_spark(port, "endpoint-verifier", b"\xac\xed\x00\x05t\x00\x01a") in (RPC_FAILURE, HUNG_UP)


def answer_of_spark(port: int, endpoint: str, message: bytes) -> int:
    """The type of the answer to a message (a Java object) for an endpoint of the driver."""

    def text(value: str) -> bytes:
        return struct.pack(">H", len(value)) + value.encode()

    no_sender, receiver = b"\x00", b"\x01" + text("127.0.0.1") + struct.pack(">I", port)
    body = no_sender + receiver + text(endpoint) + message
    frame = struct.pack(">BQI", RPC_REQUEST, 1, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(struct.pack(">Q", 8 + len(frame)) + frame)
        head = b""
        while len(head) < 9 and (more := connection.recv(9 - len(head))):
            head += more
    return head[8] if len(head) == 9 else HUNG_UP


def test_pysparks_gateway_refuses_whoever_does_not_know_its_token(spark: "SparkSession") -> None:
    """Kept promise: the port over which Python commands the JVM runs nothing for strangers."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    command = b"r\nu\nSystem\nrj\ne\n"  # looks a class up
    with socket.create_connection(("127.0.0.1", gateway.gateway_parameters.port), 20) as connection:
        connection.sendall(command)
        with connection.makefile("rb") as stream:
            assert b"Authentication error" in stream.readline()


def test_sparks_workers_meet_it_in_a_folder_of_their_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: also when a long path moves the sockets to another folder; a folder open to others is refused."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = socket_folder(tmp_path / ("long" * 20))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert socket_folder(tmp_path / ("long" * 20)) == folder
    folder.chmod(0o777)
    with pytest.raises(Misconfigured, match="open to other users"):
        socket_folder(tmp_path / ("long" * 20))


def test_a_dispatcher_alone_refuses_to_open_a_spark_without_a_secret(tmp_path: Path) -> None:
    """Kept promise: the same holds without ``up``."""
    settings = DispatcherSettings(data_dir=str(tmp_path), master="spark://10.0.0.5:7077", advertise="10.0.0.5")
    with pytest.raises(Misconfigured, match="messages of any client"):
        start_session(settings, [], java.java_home())


def test_a_cache_that_anybody_may_write_is_refused(tmp_path: Path) -> None:
    """Kept promise: no other user decides which code Kafka and Spark run."""
    tmp_path.chmod(0o777)
    for look in (fetch.kafka_jars, fetch.spark_connector_jars, java.java_home):
        with pytest.raises(Misconfigured, match="every user of this machine may write"):
            look(tmp_path)


def test_sparks_secret_is_made_for_each_run_and_shown_nowhere(spark: "SparkSession") -> None:
    """Kept promise: it is in no argument of the JVM, and Spark's own settings do not show it."""
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"
    assert "spark.authenticate.secret" not in settings
    arguments = []
    for pid in child.session_members(os.getsid(0)):
        with suppress(OSError):  # it has ended
            arguments.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    assert [each for each in arguments if b"SparkSubmit" in each], "the JVM"
    assert not [each for each in arguments if b"authenticate.secret" in each]


@pytest.mark.parametrize(
    ("settings", "reason", "remedy"),
    [
        ({}, "does not ask for a login", "--kafka-auth scram"),
        *(
            ({"kafka_auth": "scram", "advertise": address}, "not a single address", "--advertise")
            for address in ("0.0.0.0", "::", "0", "0x0", "0.0", "::0", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0", "*", "")
        ),
        ({"kafka_auth": "scram", "master": "spark://127.0.0.2:7077"}, "secret", "PENSTOCK_SPARK_SECRET_FILE"),
    ],
)
def test_advertising_without_protection_is_refused(
    settings: dict[str, str], reason: str, remedy: str, tmp_path: Path
) -> None:
    """Kept promise: --advertise opens no port without authentication; the message has the reason and a hint."""
    with pytest.raises(Misconfigured, match=reason) as refused:
        plan.check(UpSettings(data_dir=str(tmp_path), **{"advertise": OUTSIDE, **settings}))  # type: ignore[arg-type]
    assert remedy in (refused.value.hint or "")


def test_up_refuses_to_advertise_before_it_starts_anything(tmp_path: Path) -> None:
    """Kept promise: the command line refuses it, too, and leaves no process behind."""
    system = System("", "", "", tmp_path / "data")
    answer = system.run("up", "--detach", "--data-dir", str(tmp_path / "data"), "--advertise", OUTSIDE)
    assert answer.returncode == 1
    assert "--kafka-auth scram" in answer.stderr
