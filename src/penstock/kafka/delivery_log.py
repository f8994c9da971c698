"""The log of deliveries, read for one event: what became of each attempt, as far back as the log reaches.

In: where the event is, and when it was received. Out: its attempts in the order in which they began. Workers write
the log once a second (``kafka/telemetry.py``), so the last second of it may still be on its way. Called by
``control/explain.py``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.contract.telemetry import (
    DELIVERIES_TOPIC,
    OFFSETS,
    SECONDS,
    SHORT_SECONDS,
    STATUSES,
    LaneLog,
    Odd,
    decode_log,
    unpacked,
)
from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection, close_aside
from penstock.kafka.ends import range_of

SLACK_SECONDS = 2.0  # clocks of hosts may differ by so much
ASK_SECONDS = 5.0
READ_SECONDS = 8.0  # in all; a log of days is not read to its end for one event
LINGER_SECONDS = 1.6  # a worker writes what it did once a second


class Tried(NamedTuple):
    """One attempt for the event."""

    uid: str  # of the subscription
    began: float  # seconds since the epoch
    took_ms: int
    status: int  # 0: no answer
    ended: int  # contract.telemetry.DELIVERED and its neighbours
    failures: int
    why: str


@dataclass
class Logged:
    """What the log says of an event."""

    attempts: list[Tried] = field(default_factory=list)
    reaches_back: bool = True  # to the time at which the event was received
    is_read: bool = True  # up to its end, or as far as was needed


class Place(NamedTuple):
    """Where an event stands; the topic as the log names it."""

    topic: str
    partition: int
    offset: int
    topic_id: str = ""  # none: not known


Judge = Callable[[Sequence[Tried]], bool]


@dataclass(frozen=True)
class Patience:
    """When to stop reading, by the attempts so far."""

    is_enough: Judge  # nothing is left to be known
    waits: Judge  # at the end of the log: something may come in a moment
    seconds: float = READ_SECONDS


def read_log(connection: KafkaConnection, place: Place, since: float, patience: Patience) -> Logged:
    """Of an event that was received then."""
    consumer = connection.consumer(**{"fetch.wait.max.ms": 100})
    try:
        return _read(consumer, place, since, patience)
    except KafkaException as error:
        raise Unavailable(f"the log of deliveries cannot be read: {error.args[0].str()}") from error
    finally:
        close_aside(consumer)


def _read(consumer: Consumer, place: Place, since: float, patience: Patience) -> Logged:
    logged = Logged()
    first, end = range_of(consumer, DELIVERIES_TOPIC)
    at = int((since - SLACK_SECONDS) * 1000)
    (found,) = consumer.offsets_for_times([TopicPartition(DELIVERIES_TOPIC, 0, at)], timeout=ASK_SECONDS)
    start = end if found.offset < 0 else found.offset
    consumer.assign([TopicPartition(DELIVERIES_TOPIC, 0, start)])
    deadline, lingers_until = monotonic() + patience.seconds, 0.0
    reached = start
    while not patience.is_enough(logged.attempts):
        if reached >= end:
            lingers_until = lingers_until or monotonic() + LINGER_SECONDS
            if not patience.waits(logged.attempts) or monotonic() > lingers_until:
                break
        elif monotonic() > deadline:
            logged.is_read = False
            break
        for message in _come(consumer):
            if message.offset() == first and first > 0:
                logged.reaches_back = message.timestamp()[1] <= since * 1000
            reached = message.offset() + 1
            _take(message, place, since, logged)
    logged.attempts.sort(key=lambda each: each.began)
    return logged


def _come(consumer: Consumer) -> list[Any]:
    """Returns as soon as there is something; ``consume`` alone would wait until it has all it asked for."""
    first = consumer.poll(0.1)
    found = [] if first is None else [first, *consumer.consume(500, 0)]
    return [each for each in found if each.error() is None]


def _take(message: Any, place: Place, since: float, logged: Logged) -> None:
    """Logs of other partitions are known by their key, those of a deleted topic of the same name by its id."""
    if message.key() != f"{place.topic}/{place.partition}".encode() or not message.value():
        return
    try:
        log = decode_log(message.value())
        found = [each for lane in log.lanes for each in _attempts(lane, place.offset)]
    except (ValueError, TypeError, IndexError, RecursionError):  # of another version, or invalid
        logged.reaches_back = False
        return
    if log.topic_id and place.topic_id and log.topic_id != place.topic_id:
        return
    # No event is tried before it exists. So logs without an id can still be assigned to the right topic.
    logged.attempts += [each for each in found if each.began >= since - SLACK_SECONDS]


def _attempts(lane: LaneLog, offset: int) -> Iterator[Tried]:
    offsets, at = unpacked(OFFSETS, lane.offsets), -1
    for _ in range(offsets.count(offset)):
        at = offsets.index(offset, at + 1)
        began = unpacked(SECONDS, lane.began)[at]
        took_ms = round(unpacked(SHORT_SECONDS, lane.took)[at] * 1000)
        yield Tried(lane.uid, began, took_ms, unpacked(STATUSES, lane.statuses)[at], *lane.odd.get(at, Odd()))
