"""The five logs, as plain values. The checker knows nothing else."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Outcome = Literal["ok", "refused", "unknown"]  # 202; a 4xx; anything else, which may have been written or not


class Sent(NamedTuple):
    id: str
    key: str
    number: int  # in its key
    digest: int  # of the data
    outcome: Outcome
    at: float  # when the answer came


class Seen(NamedTuple):
    """One event in one request to one subscriber. The subscriber notes it before it answers."""

    subscription: str
    id: str
    partition: int
    offset: int
    digest: int
    status: int  # 0: not answered at all
    began: float
    ended: float  # when the answer was written, or nothing more could be


class Stored(NamedTuple):
    """A record of the topic."""

    partition: int
    offset: int
    id: str
    digest: int


class Position(NamedTuple):
    """A record of the ledger about one lane, in the order in which they were written."""

    subscription: str
    partition: int
    generation: int
    position: int


class Buried(NamedTuple):
    """A record of the dead letters: the event was dead-lettered or given up."""

    subscription: str
    id: str


@dataclass(frozen=True)
class Wanted:
    """What a subscription is promised."""

    name: str
    order: Literal["unordered", "ordered", "key"] = "unordered"
    only_even: bool = False  # its filter: events with an even number
    since: float = 0.0  # events that were sent before do not count


@dataclass(frozen=True)
class Fault:
    """What was done to the system, and when."""

    name: str
    began: float
    ended: float
    cuts: bool  # whether it may make deliveries come twice


@dataclass
class Logs:
    sent: list[Sent] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    topic: list[Stored] = field(default_factory=list)
    ledger: list[Position] = field(default_factory=list)
    finals: dict[tuple[str, int], int] = field(default_factory=dict)  # what the ledger says of each lane at the end
    ends: dict[int, int] = field(default_factory=dict)  # of the topic's partitions
    buried: list[Buried] = field(default_factory=list)
    wanted: list[Wanted] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    subscriber_delay: float = 0.0  # how long the subscriber itself stood still at worst
