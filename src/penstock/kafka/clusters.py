"""All Kafka clusters that somebody named: clients for each, made from its Secret, and whether it answers.

    Cluster (contract) ──▶ read the Secret ──▶ Security ──▶ connection ──▶ clients, settings for Java
                                                                  └──▶ lookout: does it answer, does it let us in?

Home is one of them. Who serves many clusters at once first asks ``require``, which never waits long: a thread of each
cluster's own looks whether it answers, so one that is away holds up nobody else.
"""

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from penstock.access.addresses import ALWAYS, AddressPolicy
from penstock.contract.model import Cluster
from penstock.errors import Misconfigured, PenstockError, Unavailable
from penstock.kafka import java_files, secret_files, security
from penstock.kafka.clients import Clients
from penstock.kafka.connection import Contact, KafkaConnection

logger = logging.getLogger("penstock.kafka")

PATIENCE_SECONDS = 10.0  # for an answer of a cluster that is not ours
FIRST_SECONDS = 1.0  # so long somebody may wait for the first look
LOOK_SECONDS = 5.0  # between two looks
AGAIN_SECONDS = 2.0  # between two looks while it does not answer
READ_AGAIN_SECONDS = 5.0  # while the Secret on disk is not the one that the contract means
OUTDATED_SECONDS = 60.0  # after which credentials that nobody asked for are forgotten


class Clusters:
    """Cached by address, Secret and version. May be shared by threads."""

    def __init__(self, home: KafkaConnection, secrets_dir: Path, policy: AddressPolicy = ALWAYS) -> None:
        self.policy = policy
        self._home = Clients(home)
        self.secrets_dir = secrets_dir
        self._lock = threading.RLock()
        self._members: dict[Cluster, _Member] = {}

    @property
    def home(self) -> KafkaConnection:
        return self._home.connection

    def connection(self, cluster: Cluster) -> KafkaConnection:
        """Raises Misconfigured, naming the Secret, when there are no credentials to be had from it."""
        return self.clients(cluster).connection

    def clients(self, cluster: Cluster) -> Clients:
        return self._home if cluster.is_home else self._member(cluster).clients

    def java_settings(self, cluster: Cluster) -> dict[str, str]:
        """Of Kafka's own client, without a secret among them."""
        if cluster.is_home:
            return {"bootstrap.servers": self.home.bootstrap_servers} | self._home_login()
        member = self._member(cluster)
        member.clients.connection.check_addresses()
        settings = {"bootstrap.servers": cluster.bootstrap_servers}
        found = member.clients.connection.security
        if found is None:
            return settings
        return settings | java_files.java_settings(found, self.secrets_dir, cluster.secret, member.version)

    def _home_login(self) -> dict[str, str]:
        if self.home.security is None or not self.home.secret_file:
            return {}
        data = secret_files.read_file(Path(self.home.secret_file), self.home.secret_file, "restore it")
        version = secret_files.version_of(self.secrets_dir, data)
        return java_files.home_settings(self.home.security, self.secrets_dir, version)

    def require(self, cluster: Cluster) -> None:
        """Raises Unavailable or Misconfigured when the cluster did not answer lately. Home is asked by its users."""
        if not cluster.is_home:
            self._member(cluster).lookout.require()

    def problem(self, cluster: Cluster) -> str:
        """Why it cannot be used now, for people to read; empty: it can."""
        try:
            self.require(cluster)
        except PenstockError as error:
            return error.message
        return ""

    def keep_only(self, wanted: Iterable[Cluster]) -> None:
        """Ends what was made for all others."""
        kept = set(wanted)
        with self._lock:
            for cluster in self._members.keys() - kept:
                self._members.pop(cluster).close()

    def forget_unused(self) -> None:
        """Ends what nobody has asked for in a while."""
        now = time.monotonic()
        with self._lock:
            recent = [
                cluster for cluster, member in self._members.items() if now - member.asked_at < OUTDATED_SECONDS
            ]
        self.keep_only(recent)

    def close(self) -> None:
        self.keep_only(())
        self._home.close()

    def _member(self, cluster: Cluster) -> "_Member":
        with self._lock:
            member = self._members.get(cluster)
            if member is None or member.is_due(cluster):
                member = self._renewed(cluster, member)
            member.asked_at = time.monotonic()
            return member

    def _renewed(self, cluster: Cluster, before: "_Member | None") -> "_Member":
        """With what the Secret holds now."""
        connection = replace(
            self.home,
            bootstrap_servers=cluster.bootstrap_servers,
            security=None,
            secret="",
            secret_file="",
            policy=self.policy,
            has_our_servers=self._has_our_servers(cluster),
        )
        version = ""
        if cluster.secret:
            data = secret_files.read(self.secrets_dir, cluster.secret)
            version = secret_files.version_of(self.secrets_dir, data)
            if before is not None and before.version == version:
                before.read_at = time.monotonic()
                return before
            found = security.parse(cluster.secret, data)
            connection = replace(connection, security=found, secret=cluster.secret)
        if before is not None:
            before.close()
        self._forget_outdated(cluster)
        self._members[cluster] = _Member(connection, version)
        return self._members[cluster]

    def _has_our_servers(self, cluster: Cluster) -> bool:
        """The home cluster may have any address, even if a resource names it with other credentials."""
        home = set(self.home.bootstrap_servers.lower().split(","))
        return set(cluster.bootstrap_servers.lower().split(",")) <= home

    def _forget_outdated(self, cluster: Cluster) -> None:
        """Clients with earlier credentials for the same, unless somebody still asks for them."""
        now = time.monotonic()
        for other, member in list(self._members.items()):
            is_same = (other.bootstrap_servers, other.secret) == (cluster.bootstrap_servers, cluster.secret)
            if is_same and other != cluster and now - member.asked_at > OUTDATED_SECONDS:
                self._members.pop(other).close()


class _Member:
    """What is kept of one cluster."""

    def __init__(self, connection: KafkaConnection, version: str) -> None:
        self.clients = Clients(connection)
        self.version = version  # of the Secret as it was read
        self.lookout = Lookout(connection)
        self.read_at = self.asked_at = time.monotonic()

    def is_due(self, cluster: Cluster) -> bool:
        """Whether the contract knows of another content than was found on disk: it may be on its way."""
        is_other = bool(cluster.secret) and bool(cluster.version) and cluster.version != self.version
        return is_other and time.monotonic() - self.read_at > READ_AGAIN_SECONDS

    def close(self) -> None:
        self.lookout.stop()
        self.clients.close()


class Lookout:
    """A thread that looks whether a cluster answers. It begins when somebody first wants to know."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._problem: PenstockError | None = None
        self._has_looked = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def require(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="lookout", daemon=True)
                self._thread.start()
                self._has_looked.wait(FIRST_SECONDS)
        if not self._has_looked.is_set():
            raise Unavailable(f"{self._connection.label} has not answered yet")
        if self._problem is not None:
            raise type(self._problem)(self._problem.message, hint=self._problem.hint)

    def stop(self) -> None:
        self._stopping.set()

    def _look(self) -> None:
        contact: Contact | None = None
        while not self._stopping.is_set():
            try:
                contact = contact or Contact(self._connection)  # raises when an address is refused or not known yet
                contact.check(PATIENCE_SECONDS)
                self._saw(None)
            except PenstockError as error:
                self._saw(error)
            except Exception as error:  # whatever it is: nobody else looks
                logger.exception("%s", self._connection.label)
                self._saw(Unavailable(f"{self._connection.label} cannot be asked: {type(error).__name__}"))
            self._stopping.wait(LOOK_SECONDS if self._problem is None else AGAIN_SECONDS)
        if contact is not None:
            contact.close()

    def _saw(self, problem: PenstockError | None) -> None:
        before, self._problem = self._problem, problem
        if problem is not None and (before is None or before.message != problem.message):
            level = logging.ERROR if isinstance(problem, Misconfigured) else logging.WARNING
            logger.log(level, "%s", problem.message)
        elif problem is None and before is not None:
            logger.info("%s answers again", self._connection.label)
        self._has_looked.set()
