"""Everything that reconciling looks at and acts on, as one value that is handed around."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from penstock.contract.model import Cluster
from penstock.control.agreements import Contract
from penstock.control.ingress import Surroundings
from penstock.control.probe import Receiver
from penstock.control.reports import Reports
from penstock.control.secrets import Secrets
from penstock.control.settings import ControllerSettings
from penstock.control.store import Store
from penstock.control.telemetry import Counts
from penstock.errors import Misconfigured
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.groups import Groups


class Ledger(Protocol):
    """What the controller does to the ledger; ``kafka.ledger.StartPositions`` does it."""

    def write(self, subscription_uid: str, topic: str, topic_id: str, positions: Mapping[int, int]) -> None:
        """Idempotent: lanes that have a record for this topic id keep it."""

    def forget(self, subscription_uid: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class World:
    settings: ControllerSettings
    connection: KafkaConnection
    admin: Any  # Kafka's admin client
    groups: Groups
    store: Store
    contract: Contract
    reports: Reports
    counts: Counts
    receiver: Receiver
    ledger: Ledger
    secrets: Secrets
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(self.store.get, self.store.list, self.settings, self.secrets)

    def admin_of(self, cluster: Cluster) -> Any:
        """The admin client of a cluster."""
        if cluster.is_home:
            return self.admin
        raise Misconfigured(f"{cluster.bootstrap_servers} is another Kafka")

    def new_admin_of(self, cluster: Cluster) -> Any:
        """One that knows nothing yet."""
        if cluster.is_home:
            return self.connection.admin()
        raise Misconfigured(f"{cluster.bootstrap_servers} is another Kafka")

    def groups_of(self, cluster: Cluster) -> Groups:
        if cluster.is_home:
            return self.groups
        raise Misconfigured(f"{cluster.bootstrap_servers} is another Kafka")
