"""What the queries of a dispatcher have in common, and what is known of one that runs."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from penstock.contract.model import Subscription
from penstock.kafka.clients import Clients
from penstock.kafka.connection import KafkaConnection, Producer
from penstock.kafka.doorbell import Doorbell
from penstock.kafka.ledger import FollowedLedger
from penstock.pipeline.gears import Gear
from penstock.pipeline.settings import DispatcherSettings
from penstock.pipeline.start import Lane
from penstock.pipeline.stream import QueryPlan
from penstock.pipeline.worker import Assignment


@dataclass(frozen=True)
class Environment:
    """What all queries of a dispatcher share."""

    session: SparkSession
    settings: DispatcherSettings
    connection: KafkaConnection
    ledger: FollowedLedger
    producer: Producer  # for claims and the ledger; a new one would cost every start a quarter of a second
    clients: Clients
    doorbell: Doorbell
    started_at: float  # epoch seconds; workers of an earlier dispatcher are dead some seconds after this
    first_query: int = 0  # the number of no query: all that this dispatcher draws are higher


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
    return first_line(error) if error else "stopped from outside"


def first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
