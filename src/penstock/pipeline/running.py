"""What the queries of a dispatcher have in common, and what is known of one that runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from penstock.contract.model import HOME, Cluster, Subscription
from penstock.delivery.deliver import Limits
from penstock.event.attributes import AttributeLimits
from penstock.kafka.clients import Clients
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection, Producer
from penstock.kafka.doorbell import Doorbells
from penstock.kafka.ledger import FollowedLedger
from penstock.kafka.tuning import usable_consumer_settings
from penstock.pipeline.gears import Gear
from penstock.pipeline.leaving import LeavingQueries
from penstock.pipeline.marks import WorkerWatch
from penstock.pipeline.settings import DispatcherSettings
from penstock.pipeline.start import Lane
from penstock.pipeline.stream import QueryPlan
from penstock.pipeline.vitals import Vitals
from penstock.pipeline.worker import Assignment


@dataclass(frozen=True)
class Environment:
    """What all queries of a dispatcher share."""

    session: SparkSession
    settings: DispatcherSettings
    connection: KafkaConnection  # to home: ledger, claims and reports are there
    ledger: FollowedLedger
    producer: Producer  # for claims and the ledger; a new one would cost every start a quarter of a second
    clusters: Clusters
    doorbells: Doorbells
    vitals: Vitals
    workers: WorkerWatch
    started_at: float  # epoch seconds; workers of an earlier dispatcher are dead some seconds after this
    leaving: LeavingQueries = field(default_factory=LeavingQueries)
    first_query: int = 0  # the number of no query: all that this dispatcher draws are higher

    def clients(self, subscriptions: Sequence[Subscription]) -> Clients:
        """Of their topic's cluster. Raises at once when that did not answer lately: the other topics go on."""
        cluster = cluster_of(subscriptions)
        self.clusters.require(cluster)
        return self.clusters.clients(cluster)

    def source(self, subscriptions: Sequence[Subscription]) -> dict[str, str]:
        """Settings of Spark's Kafka client: what was chosen, by the first where they differ, and the cluster's."""
        chosen: dict[str, str] = {}
        for each in subscriptions:
            whose = f"{each.kind} {each.namespace}/{each.name}"
            chosen = usable_consumer_settings(each.settings, whose) | chosen
        return chosen | self.clusters.java_settings(cluster_of(subscriptions))

    def limits(self, *, may_park: bool) -> Limits:
        """Of a worker."""
        settings = self.settings
        return Limits(
            settings.delivery_window,
            settings.unfinished_rows,
            settings.unfinished_megabytes * 1024 * 1024,
            may_park=may_park,
            most_parked=settings.private_queries,
            reply_hops=settings.reply_hops,
            attributes=AttributeLimits(settings.attribute_limit, settings.attribute_limit_bytes),
            policy=settings.policy,
        )


def cluster_of(subscriptions: Sequence[Subscription]) -> Cluster:
    """Of a topic that these want, with the credentials of the first."""
    return subscriptions[0].cluster if subscriptions else HOME


@dataclass(frozen=True)
class Running:
    query: StreamingQuery | None  # none in cold gear
    gear: Gear
    assignment: Assignment
    subscriptions: tuple[Subscription, ...]
    partitions: tuple[int, ...]  # each with a task; none in cold gear
    checkpoint: Path
    since: float
    behind: frozenset[Lane] = frozenset()  # lanes that its start has left to other queries
    plan: QueryPlan | None = None  # in cold gear: what is started when something comes


def failure_of(query: StreamingQuery) -> str:
    error = query.exception()
    return (error and first_line(error)) or "stopped from outside"


def first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
