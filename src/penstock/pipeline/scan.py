"""What runs in a Python worker of Spark for a search: it reads its stretches of the topics and keeps what is wanted.

Read by librdkafka and looked at here: rows of Spark, of which each header is a row again, took four times as long.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock.access.addresses import ALWAYS, AddressPolicy
from penstock.contract.model import Cluster
from penstock.contract.questions import Search
from penstock.errors import PenstockError
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.stretches import Stretch, read_stretches
from penstock.pipeline.wanted import Line, Wanted


@dataclass(frozen=True)
class Scan:
    """What a search tells its workers. Travels pickled, so it holds plain values only."""

    home: KafkaConnection
    cluster: Cluster  # where the topics are
    secrets_dir: str  # secrets do not travel: they are read there
    asked: Search
    policy: AddressPolicy = ALWAYS


class Scanned(NamedTuple):
    rows: list[Line]  # the newest
    matched: int
    problem: str = ""  # why it could not be done


def scan(what: Scan, parts: Iterable[Sequence[Stretch]]) -> Iterator[Scanned]:
    """The function that Spark calls: one answer for each part."""
    clusters = Clusters(what.home, Path(what.secrets_dir), what.policy)
    try:
        for stretches in parts:
            wanted = Wanted(what.asked)
            try:
                for messages in read_stretches(clusters.connection(what.cluster), stretches):
                    wanted.take(messages)
                yield Scanned(wanted.newest(), wanted.matched)
            except PenstockError as error:
                yield Scanned([], 0, error.message)
    finally:
        clusters.close()
