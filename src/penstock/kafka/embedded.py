"""The embedded cluster: a real Apache Kafka in KRaft mode, each node broker and controller in one process.

    prepare ──▶ claim the data directory ──▶ write settings ──▶ format (once) ──▶ node commands
    start   ──▶ node processes ──▶ wait until they answer            stop ──▶ SIGTERM, which Kafka takes in order

``penstock up`` takes the commands and supervises the processes itself; tests and tools use start and stop.
"""

import subprocess
import time
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM

from penstock import child
from penstock.access.private_files import make_private_folder, write_private
from penstock.errors import Misconfigured, PenstockError, Unavailable
from penstock.kafka import data_directory, fetch, java, login, quickstart
from penstock.kafka.cache import cache_dir
from penstock.kafka.connection import KafkaConnection, home
from penstock.kafka.ivy import pyspark_jars
from penstock.kafka.server_files import JVM_OPTIONS, ClusterSpec, log4j_properties, node_folder, server_properties
from penstock.ports import answers, free_port, reachable_host, require_free
from penstock.telemetry import logs

MOST_BROKERS = 3
USERS = "users.args"
READY_TIMEOUT_SECONDS = 90.0
STOP_PATIENCE_SECONDS = 20.0
POLL_SECONDS = 0.05

# The binding that makes Kafka's log lines reach its log file; PySpark brings it.
LOGGING_JARS = ("slf4j-api-*.jar", "log4j-api-*.jar", "log4j-core-*.jar", "log4j-slf4j2-impl-*.jar")


class EmbeddedKafka:
    """One cluster in one data directory."""

    def __init__(self, spec: ClusterSpec, cache: Path | None = None) -> None:
        if not 1 <= spec.brokers <= MOST_BROKERS:
            raise Misconfigured(
                f"--kafka-brokers {spec.brokers} is out of range: the embedded cluster has 1 to {MOST_BROKERS}",
                hint="--bootstrap-servers uses a larger cluster of your own",
            )
        self.spec = spec
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.jvm_options: list[str] | None = None  # other ones than those of a quick start
        self._cache = cache or cache_dir()
        self._log_sizes: dict[int, int] = {}

    @property
    def nodes(self) -> range:
        return range(1, self.spec.brokers + 1)

    @property
    def connection(self) -> KafkaConnection:
        file = str(login.secret_file(self.spec.data_dir)) if self.spec.auth == "scram" else ""
        return home(self.spec.bootstrap_servers, secret_file=file)

    def prepare(self) -> None:
        """Everything that must be right before the first process: ports, folders, settings, format."""
        for port in self.spec.ports:
            require_free(self.spec.host, port, "--kafka-port")
        cluster = data_directory.claim(self.spec)
        self._keep_login()
        asked = login.read(self.spec.data_dir) if self.spec.auth == "scram" else None
        controller_ports = [free_port() for _ in self.nodes]
        for node in self.nodes:
            folder = node_folder(self.spec.data_dir, node)
            make_private_folder(folder)
            settings = server_properties(self.spec, node, controller_ports, asked)
            write_private(folder / "server.properties", settings.encode())
            (folder / "log4j2.properties").write_text(log4j_properties(self.log(node)))
        self._format(cluster.cluster_id)

    def command(self, node: int) -> child.Command:
        """How to run a node; valid after ``prepare``."""
        return child.Command(
            name=self.name(node),
            arguments=[
                *self._java(node),
                *JVM_OPTIONS,
                *(quickstart.use(self.archive) if self.jvm_options is None else self.jvm_options),
                "kafka.Kafka",
                str(node_folder(self.spec.data_dir, node) / "server.properties"),
            ],
            output=self.output(node),
            signal_at_parents_death=SIGTERM,  # gives it the chance of a clean end
        )

    def start(self) -> "EmbeddedKafka":
        """Prepares, starts every node and waits until they answer."""
        self.prepare()
        try:
            for node in self.nodes:
                self.start_node(node)
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def start_node(self, node: int) -> None:
        self._log_sizes[node] = logs.size_of(self.log(node))
        self.processes[node] = child.start(self.command(node))

    def wait_until_ready(self, timeout_seconds: float = READY_TIMEOUT_SECONDS) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not all(self.answers(node) for node in self.nodes):
            for node, process in self.processes.items():
                code = process.poll()
                if code is not None:
                    raise self.death(node, code, self._log_sizes.get(node, 0))
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Kafka did not answer at {self.spec.bootstrap_servers} within {timeout_seconds:g} s",
                    hint=f"see {self.log(1)}",
                )
            time.sleep(POLL_SECONDS)
        self.connection.check(max(1.0, deadline - time.monotonic()))

    def stop(self) -> None:
        """Ends all nodes in order; those that do not listen are killed."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            child.stop(process, STOP_PATIENCE_SECONDS)
        self.processes.clear()

    def answers(self, node: int) -> bool:
        """Whether the node accepts connections, which it does when it has registered and unfenced itself."""
        return answers(reachable_host(self.spec.host), self.spec.ports[node - 1])

    def death(self, node: int, code: int, log_size_at_start: int = 0) -> PenstockError:
        """Why a node ended, from its log."""
        lines = logs.last_errors(self.log(node), log_size_at_start) or logs.last_errors(self.output(node))
        reason = "; ".join(lines) or "it left no reason in its log"
        if "No space left on device" in reason:
            return Misconfigured(
                f"Kafka stopped because the disk of {self.spec.data_dir} is full",
                hint="make room, or name a --data-dir on another disk",
            )
        return Unavailable(f"Kafka ended ({child.exit_words(code)}): {reason}", hint=f"see {self.log(node)}")

    def name(self, node: int) -> str:
        return "kafka" if self.spec.brokers == 1 else f"kafka-{node}"

    def log(self, node: int) -> Path:
        return self.spec.data_dir / "logs" / f"{self.name(node)}.log"

    def output(self, node: int) -> Path:
        """What the JVM itself says, outside of the log."""
        return self.spec.data_dir / "logs" / f"{self.name(node)}.out"

    def _format(self, cluster_id: str) -> None:
        """Prepares new folders, with Kafka's own tool; all nodes at once."""
        running = {
            node: subprocess.Popen(
                [
                    *self._java(node), "-Xmx128m", "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format",
                    "--cluster-id", cluster_id, f"@{self._scram_users(node)}",
                    "--config", str(node_folder(self.spec.data_dir, node) / "server.properties"),
                ],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for node in self.nodes
            if not data_directory.is_formatted(self.spec, node)
        }  # fmt: skip
        for node, process in running.items():
            said, _ = process.communicate()
            (node_folder(self.spec.data_dir, node) / USERS).unlink()
            if process.returncode != 0:
                last = (said.strip().splitlines() or ["no reason given"])[-1]
                raise Misconfigured(
                    f"Kafka's folder {node_folder(self.spec.data_dir, node)} could not be prepared: {last}",
                    hint=f"see {self.log(node)}",
                )

    def _keep_login(self) -> None:
        """A login for each cluster, even if it asks for none now. It is added to an older cluster here."""
        if login.secret_file(self.spec.data_dir).exists():
            return
        made = login.new()
        if any(data_directory.is_formatted(self.spec, node) for node in self.nodes):
            if self.spec.auth == "none":
                return
            plain = EmbeddedKafka(replace(self.spec, auth="none", host="127.0.0.1"), self._cache).start()
            try:
                login.add_user(plain.connection.admin(), made)
            finally:
                plain.stop()
        login.write(self.spec.data_dir, made)

    def _scram_users(self, node: int) -> Path:
        """A file with the users of a new cluster; as arguments of a process, `ps` would show them."""
        path = node_folder(self.spec.data_dir, node) / USERS
        write_private(path, "\n".join(self._user_arguments()).encode())
        return path

    def _user_arguments(self) -> list[str]:
        known: list[str] = []
        if login.secret_file(self.spec.data_dir).exists():  # else an older version has formatted some of the nodes
            found = login.read(self.spec.data_dir)
            known = ["--add-scram", f"{login.MECHANISM}=[name={found.user},password={found.password}]"]
        guards = self.spec.guards
        mechanisms = {each for way in guards.listeners for each in way.mechanisms} if guards else set()
        others = [
            argument
            for mechanism in sorted(mechanisms)
            if mechanism.startswith("SCRAM")
            for name, password in (guards.users.items() if guards else ())
            for argument in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]
        return ["--ignore-formatted", *known, *others]

    @property
    def archive(self) -> Path:
        """Where the archive for quick starts is, or would be."""
        return quickstart.archive_of("kafka", self._java_binary, self._class_path, self._cache / "java")

    @property
    def _java_binary(self) -> Path:
        return java.java_home(self._cache) / "bin" / "java"

    @property
    def _class_path(self) -> list[Path]:
        logging_jars = [path for pattern in LOGGING_JARS for path in sorted(pyspark_jars().glob(pattern))]
        return [*fetch.kafka_jars(self._cache), *logging_jars]

    def _java(self, node: int) -> list[str]:
        """Java with the class path and the log settings of a node."""
        log_settings = node_folder(self.spec.data_dir, node) / "log4j2.properties"
        class_path = ":".join(str(path) for path in self._class_path)
        return [str(self._java_binary), f"-Dlog4j2.configurationFile={log_settings}", "-cp", class_path]
