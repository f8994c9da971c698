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
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.dead_letter_index import DeadLetterIndex
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
    clusters: Clusters
    dead_letters: DeadLetterIndex
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(self.store.get, self.store.list, self.settings, self.secrets)

    def admin_of(self, cluster: Cluster) -> Any:
        """The admin client of a cluster. Raises, without waiting long, when another one does not answer."""
        self.clusters.require(cluster)
        return self.admin if cluster.is_home else self.clusters.clients(cluster).admin

    def new_admin_of(self, cluster: Cluster) -> Any:
        """One that knows nothing yet."""
        self.clusters.require(cluster)
        return self.clusters.connection(cluster).admin()

    def groups_of(self, cluster: Cluster) -> Groups:
        self.clusters.require(cluster)
        return self.groups if cluster.is_home else self.clusters.clients(cluster).groups
