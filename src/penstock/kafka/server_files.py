"""The files a Kafka node of the embedded cluster starts from: pure text from a specification.

Every value that differs from Kafka's default says why. Called by ``embedded``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from penstock.kafka.login import MECHANISM, Login
from penstock.ports import reachable_host

# Small and quiet: the heap grows when there is work, and the serial collector has no threads that wake when idle.
# A collection stops everything for some ten milliseconds; with this much room one comes every second or two.
JVM_OPTIONS = (
    "-Xms144m",
    "-Xmn64m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)


Auth = Literal["none", "scram"]


@dataclass(frozen=True)
class Listener:
    """One more way into a node, beside the plain one. Tests use it; ``penstock up`` does not."""

    name: str  # in capitals
    port: int
    protocol: Literal["SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    mechanisms: tuple[str, ...] = ()  # of SASL
    client_certificates: Literal["none", "requested", "required"] = "none"


@dataclass(frozen=True)
class Guards:
    """What the listeners check, and show. Certificates and keys are PEM files."""

    listeners: tuple[Listener, ...]
    keystore: Path | None = None  # the node's key and certificate
    truststore: Path | None = None  # who may sign certificates of clients
    users: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords by name: PLAIN, and SCRAM at first


@dataclass(frozen=True)
class ClusterSpec:
    """The embedded cluster as asked for. Broker N listens on ``port`` + N - 1."""

    data_dir: Path
    host: str = "127.0.0.1"  # one address, which is also advertised to clients
    port: int = 9092
    brokers: int = 1
    partitions: int = 4
    guards: Guards | None = None  # for a cluster of one broker
    auth: Auth = "none"  # scram: all listeners ask for the login of the data directory

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(range(self.port, self.port + self.brokers))

    @property
    def protocol(self) -> str:
        return "PLAINTEXT" if self.auth == "none" else "SASL_PLAINTEXT"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{_bracketed(reachable_host(self.host))}:{port}" for port in self.ports)

    @property
    def replication_factor(self) -> int:
        return min(3, self.brokers)


def server_properties(
    spec: ClusterSpec, node: int, controller_ports: Sequence[int], login: Login | None = None
) -> str:
    """The settings of node N (from 1), which is broker and controller in one."""
    voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(controller_ports, start=1))
    address = f"{_bracketed(spec.host)}:{spec.ports[node - 1]}"
    replicas, in_sync = spec.replication_factor, max(1, spec.replication_factor - 1)
    settings: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{spec.protocol}://{address},CONTROLLER://127.0.0.1:{controller_ports[node - 1]}",
        "advertised.listeners": f"{spec.protocol}://{address}",
        "log.dirs": data_folder(spec.data_dir, node),
        # Topics are made by the controller of Penstock, on purpose, never by a typing error.
        "auto.create.topics.enable": "false",
        "num.partitions": spec.partitions,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # Kafka's own topics: the usual 50 partitions each cost files and memory that one machine does not need.
        "offsets.topic.num.partitions": 8,
        "transaction.state.log.num.partitions": 8,
        "share.coordinator.state.topic.num.partitions": 4,
        # The time of a record is when Kafka took it; the sender's own time stays an attribute of the event.
        "log.message.timestamp.type": "LogAppendTime",
        # An event of 1 MiB with its headers.
        "message.max.bytes": 1_310_720,
        # Groups show how far a subscription is; one that is quiet for months is still there.
        "offsets.retention.minutes": 60 * 24 * 365,
        "group.initial.rebalance.delay.ms": 0,
        # Tables stay short: the cleaner looks every few seconds, with a buffer fit for small tables.
        "log.cleaner.backoff.ms": 5_000,
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
        # After a kill -9 the same broker may register again only when its old session is over; with the usual nine
        # seconds that would be most of the start. Alone in its process, it has no network to miss a heartbeat by.
        "broker.session.timeout.ms": 2_500 if spec.brokers == 1 else 6_000,
        "broker.heartbeat.interval.ms": 800 if spec.brokers == 1 else 1_500,
        # Idle threads and idle chatter cost memory and wake the processor.
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 2,
        "metadata.max.idle.interval.ms": 5_000,
    }
    if login is not None:
        settings |= _with_login(login)
    if spec.guards is not None:
        ways = "".join(f",{each.name}://{_bracketed(spec.host)}:{each.port}" for each in spec.guards.listeners)
        settings["listeners"] = f"{settings['listeners']}{ways}"
        settings["advertised.listeners"] = f"{settings['advertised.listeners']}{ways}"
        settings |= _guarded(spec.guards)
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _with_login(login: Login) -> dict[str, object]:
    """SCRAM for clients and between brokers. Controllers use PLAIN: SCRAM's users are in the controllers' own log."""
    jaas, own = "org.apache.kafka.common.security", f'username="{login.user}" password="{login.password}"'
    plain = f'{jaas}.plain.PlainLoginModule required {own} user_{login.user}="{login.password}";'
    scram = f"{jaas}.scram.ScramLoginModule required {own};"
    return {
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": MECHANISM,
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": plain,
    }


def _guarded(guards: Guards) -> dict[str, object]:
    """The settings of the listeners beside the plain one, over which the nodes talk to each other."""
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    protocols |= {each.name: each.protocol for each in guards.listeners}
    settings: dict[str, object] = {
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
    }
    for each in guards.listeners:
        prefix = f"listener.name.{each.name.lower()}."
        if each.protocol.endswith("SSL"):
            settings[prefix + "ssl.client.auth"] = each.client_certificates
            for store, path in (("keystore", guards.keystore), ("truststore", guards.truststore)):
                if path is not None:
                    settings |= {f"{prefix}ssl.{store}.type": "PEM", f"{prefix}ssl.{store}.location": path}
        if each.mechanisms:
            settings[prefix + "sasl.enabled.mechanisms"] = ",".join(each.mechanisms)
        for mechanism in each.mechanisms:
            settings[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = _login(mechanism, guards.users)
    return settings


def _login(mechanism: str, users: Mapping[str, str]) -> str:
    package = "org.apache.kafka.common.security"
    if mechanism == "PLAIN":
        known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
        return f"{package}.plain.PlainLoginModule required {known};"
    if mechanism == "OAUTHBEARER":  # takes tokens that nobody has signed
        return f'{package}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="node";'
    return f"{package}.scram.ScramLoginModule required;"


def log4j_properties(log: Path) -> str:
    """Kafka's log: one file of at most 10 MB and two older ones."""
    return f"""status=error
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={log}
appender.file.filePattern={log}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d{{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}}{{UTC}} %-5p %c{{1}}: %m%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=10MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=2
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
"""


def node_folder(data_dir: Path, node: int) -> Path:
    return data_dir / "kafka" / f"node-{node}"


def data_folder(data_dir: Path, node: int) -> Path:
    return node_folder(data_dir, node) / "data"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
