"""How to reach a Kafka cluster: one value from which every client is made.

Clients are created where they are used and after any fork: librdkafka's threads do not survive one.
"""

import logging
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka import Producer as Producer  # for annotations elsewhere
from confluent_kafka.admin import AdminClient

from penstock.access.addresses import AddressPolicy
from penstock.errors import Misconfigured, PenstockError, Unavailable
from penstock.kafka import secret_files
from penstock.kafka.security import Security, parse

logger = logging.getLogger("penstock.kafka")

QUIET_SECONDS = 10.0
CERTIFICATE_SECONDS = 2.0  # for a look at it

# Another try with the same credentials and certificates would end the same way.
REFUSALS = (
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
# A topic was made again with fewer partitions, and a record was for one of those that are gone. It was not written.
# By now the producer knows the new partitions, so the record goes to one of them.
PARTITION_GONE = (KafkaError._UNKNOWN_PARTITION, KafkaError._DESTROY)
NOBODYS = TopicCollection(["penstock-is-anybody-there"])


class OncePerWhile(logging.Filter):
    """While Kafka is away every client says so several times a second; one line in ten seconds is enough."""

    def __init__(self) -> None:
        super().__init__()
        self._next_at = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith("FAIL "):
            return True
        if record.created < self._next_at:
            return False
        self._next_at = record.created + QUIET_SECONDS
        return True


logger.addFilter(OncePerWhile())


unanswered: dict[int, threading.Thread] = {}  # by the id of a consumer: its request that had no answer in time


def close_aside(consumer: Consumer) -> None:
    """Closes it without waiting: while a broker dies that may take long, and nobody needs to see its end."""
    threading.Thread(target=_close, args=(consumer,), name="closing", daemon=True).start()


def _close(consumer: Consumer) -> None:
    request = unanswered.pop(id(consumer), None)
    if request is not None:
        request.join()  # librdkafka must not be closed during a request
    consumer.close()


@dataclass(frozen=True)
class KafkaConnection:
    """The address of the cluster and, if the cluster asks for it, our login. Credentials are not pickled: a pickled
    connection has at most the path of a file."""

    bootstrap_servers: str
    client_id: str = "penstock"
    security: Security | None = field(default=None, repr=False)
    secret: str = ""  # the name of the Secret that they come from, for what is said about them
    policy: AddressPolicy | None = (
        None  # allowed addresses of a cluster that a resource names; None: the operator named it
    )
    has_our_servers: bool = False  # a resource names the servers of home: these may have any address
    secret_file: str = ""  # of the home cluster: they were read from here, and are read again after unpickling

    def __reduce__(self) -> tuple[Any, ...]:
        if self.secret_file:
            return home, (self.bootstrap_servers, self.client_id, self.secret_file)
        return KafkaConnection, (
            self.bootstrap_servers, self.client_id, self.security, self.secret, self.policy, self.has_our_servers
        )  # fmt: skip

    def check_addresses(self) -> None:
        """Raises Misconfigured when a server or the token endpoint must not be connected to."""
        if self.policy is None:
            return
        if not self.has_our_servers:
            self.policy.check_servers(self.bootstrap_servers, "Kafka at")
        if self.security is not None and self.security.tokens is not None:
            host = urlsplit(self.security.tokens.url).hostname or ""
            self.policy.check_host(host, "the token endpoint at")

    def client_config(self) -> dict[str, Any]:
        self.check_addresses()
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.client_id,
            "socket.nagle.disable": True,  # a quiet producer waits up to 40 ms otherwise
            "log_level": 3,
            "reconnect.backoff.ms": 200,  # it does not grow while all brokers are away
            "reconnect.backoff.max.ms": 1000,
            **(self.security.librdkafka() if self.security else {}),
        }

    @property
    def label(self) -> str:
        """For messages: where it is, and with whose credentials."""
        return f"Kafka at {self.bootstrap_servers}" + (f" (Secret {self.secret})" if self.secret else "")

    def producer(self, **overrides: Any) -> Producer:
        """An idempotent producer that acknowledges only what all in-sync replicas hold."""
        return Producer(
            {
                **self.client_config(),
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                **overrides,
            },
            logger=logger,
        )

    def lasting_producer(self, **overrides: Any) -> Producer:
        """For the life of a process, where a record that comes twice does no harm and a fatal error would."""
        lasting = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
        return self.producer(**lasting, **overrides)

    def consumer(self, **overrides: Any) -> Consumer:
        """A consumer for assigned partitions; it never joins a group and never commits."""
        return Consumer(
            {
                **self.client_config(),
                "group.id": "penstock-unused",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "queued.max.messages.kbytes": 8192,
                "fetch.wait.max.ms": 1000,  # data is answered at once; this is only how often an idle one asks
                **overrides,
            },
            logger=logger,
        )

    def admin(self) -> AdminClient:
        """For topics and offsets. Not for groups: see ``kafka/groups.py``."""
        return AdminClient(self.client_config(), logger=logger)

    def group_client_config(self) -> dict[str, Any]:
        """The same for kafka-python, with which ``kafka/groups.py`` asks."""
        self.check_addresses()
        known = {"bootstrap_servers": self.bootstrap_servers, "client_id": self.client_id}
        return {**known, **(self.security.kafka_python() if self.security else {})}

    def check(self, timeout_seconds: float = 5.0) -> None:
        """Raises Unavailable, naming the address, when no broker answers; Misconfigured when none lets us in."""
        with_errors = Contact(self)
        try:
            with_errors.check(timeout_seconds)
        finally:
            with_errors.close()


def home(bootstrap_servers: str, client_id: str = "penstock", secret_file: str = "") -> KafkaConnection:
    """To the system's own cluster, with the login in this file; empty: it asks for none.

    Raises Misconfigured when the file is missing, when others may read it, or when it is not a Secret for Kafka.
    """
    if not secret_file:
        return KafkaConnection(bootstrap_servers, client_id)
    data = secret_files.read_file(Path(secret_file), secret_file, "see PENSTOCK_KAFKA_SECRET_FILE")
    found = parse(secret_file, data)
    return KafkaConnection(bootstrap_servers, client_id, found, secret=secret_file, secret_file=secret_file)


class Contact:
    """A client that only asks whether the cluster answers, and knows why not."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._refusal: KafkaError | None = None
        self._last: KafkaError | None = None
        config = {**connection.client_config(), "error_cb": self._on_error, "log_level": 0}
        self._admin: AdminClient = AdminClient(config)

    def check(self, timeout_seconds: float) -> None:
        """Waits for an answer, though not once it is clear that there will be none.

        Asks for a topic that nobody has: librdkafka ends the process when a cluster that is starting or stopping
        answers ``describe_cluster`` with no broker at all.
        """
        self._refusal = None
        deadline = time.monotonic() + timeout_seconds
        (answer,) = self._admin.describe_topics(NOBODYS, request_timeout=timeout_seconds).values()
        while not answer.done() and self._refusal is None and time.monotonic() < deadline:
            self._admin.poll(0.02)
        if self._refusal is not None:
            raise self._explained(self._refusal)
        try:
            answer.result(timeout=max(0.1, deadline - time.monotonic()))
        except (KafkaException, TimeoutError) as error:
            said = error.args[0] if isinstance(error, KafkaException) else None
            if said is None or said.code() < 0 or said.code() in REFUSALS:  # librdkafka's own codes are negative
                self._admin.poll(0)
                raise self._explained(self._last or said) from None
        self._last = None

    def close(self) -> None:
        """Ends with its last reference; without this one it would be called by a client that it holds."""
        self._admin = None

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in REFUSALS:
            self._refusal = error
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # the error before says why
            self._last = error

    def _explained(self, error: KafkaError | None) -> PenstockError:
        label = self._connection.label
        if error is not None and error.code() == KafkaError._SSL:
            words = certificate_problem(self._connection) or _words(error)
            return Misconfigured(
                f"{label} cannot be trusted, or does not trust us: {words}",
                hint="see ca.crt and user.crt of the Secret, and the certificate of the brokers",
            )
        if error is not None and error.code() in REFUSALS:
            return Misconfigured(
                f"{label} does not let us in: {_words(error)}", hint="correct the Secret, or the protocol it names"
            )
        return Unavailable(
            f"{label} does not answer: {'in time' if error is None else _words(error)}",
            hint="is it running? `penstock up` starts one; --bootstrap-servers names another",
        )


def certificate_problem(connection: KafkaConnection) -> str:
    """What is wrong with the certificate of the first broker that answers; librdkafka only says that something is."""
    for address in connection.bootstrap_servers.split(","):
        host, _, port = address.strip().rpartition(":")
        host = host.strip("[]")
        try:
            context = (connection.security or Security()).context()
            with (
                socket.create_connection((host, int(port)), CERTIFICATE_SECONDS) as plain,
                context.wrap_socket(plain, server_hostname=host),
            ):
                return ""
        except ssl.SSLCertVerificationError as error:
            return f"the certificate of {address.strip()} is not accepted: {error.verify_message}"
        except (OSError, ValueError):
            continue
    return ""


def _words(error: KafkaError) -> str:
    """Without the time that librdkafka puts behind them."""
    return str(error.str()).partition(" (after ")[0]
