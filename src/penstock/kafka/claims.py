"""Which worker may deliver a partition: claims in a compacted topic, followed by all workers of the partition.

Every query of the dispatcher has a number, given by Kafka: the offset of a record in this topic. A worker claims a
partition before it delivers from it; its generation is the query's number followed by the claim's own offset. The
highest generation holds the partition, so a later query fences an earlier one whatever the order in which their
workers wake up. A fenced holder begins nothing more, writes its lanes to the ledger and releases the partition with a
record ``closed``. The new worker waits for this record, but never for long: the old holder may be dead.

    old worker    ... delivers ... sees claim ── writes lanes ── closed ── last answers of slow lanes ─ ledger
    new worker              claim ──────────────── waits ─────────┴─ reads ledger, delivers ...  these too ─┘

A slow lane is marked in the ledger; the new worker holds it back until the mark is gone, and serves all others.
"""

import time
from typing import Annotated

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.contract.model import CLAIMS_TOPIC, LEDGER_TOPIC
from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection, close_aside
from penstock.kafka.ends import Ends, offset_behind
from penstock.kafka.ledger import LARGEST_OFFSET, Ledger, LedgerPart, NotDrawn, query_of
from penstock.kafka.ledger import QUERY_SHIFT as QUERY_SHIFT
from penstock.kafka.table import put
from penstock.kafka.unreadable import Unreadable, UnreadableRecord

Number = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_OFFSET)]


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a record. Its key names the purpose:

    topic id/partition            a worker claims the partition
    topic id/partition/closed     a worker has released the partition
    topic id/query                the offset of the record, plus 1, is the number of a new query
    topic id/up/task              a task of a query stands by for its first row
    topic id/partition/lane/uid   older workers stop this lane, and go on with all others
    """

    query: Number = 0  # the number of the query that claims
    is_release: bool = False  # a claim of the dispatcher, only to make older workers release the partition
    closed: Number = 0  # in a release: the generation that is over
    up: Number = 0  # the number of the query whose task is ready
    stopped: str = ""  # the uid of a subscription: older workers begin nothing for it any more


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Claim)


def next_query_number(producer: Producer, topic_id: str) -> int:
    """A number higher than that of every earlier query."""
    return put(producer, CLAIMS_TOPIC, f"{topic_id}/query", _encoder.encode(Claim())) + 1


def claim(producer: Producer, topic_id: str, partition: int, query: int) -> int:
    """Claims the partition for a worker and returns the generation, once Kafka has it."""
    value = _encoder.encode(Claim(query=query))
    return query << QUERY_SHIFT | put(producer, CLAIMS_TOPIC, _key(topic_id, partition), value) + 1


def release(producer: Producer, topic_id: str, partition: int, query: int) -> None:
    """Makes every worker of an older query let go of the partition."""
    value = _encoder.encode(Claim(query=query, is_release=True))
    put(producer, CLAIMS_TOPIC, _key(topic_id, partition), value)


def close(producer: Producer, topic_id: str, partition: int, generation: int) -> None:
    """Says that this generation sends nothing any more. Only after its lanes' last records are durable."""
    put(producer, CLAIMS_TOPIC, _key(topic_id, partition) + "/closed", _encoder.encode(Claim(closed=generation)))


def stop_lane(producer: Producer, topic_id: str, partition: int, uid: str, query: int) -> None:
    """Makes every worker of an older query isolate this lane; the ledger shows when its last answer has come."""
    value = _encoder.encode(Claim(query=query, stopped=uid))
    put(producer, CLAIMS_TOPIC, f"{_key(topic_id, partition)}/lane/{uid}", value)


def say_up(producer: Producer, topic_id: str, task: int, query: int) -> None:
    """Says that this task of a query is ready; which partition it has, it learns only from its first row."""
    put(producer, CLAIMS_TOPIC, f"{topic_id}/up/{task}", _encoder.encode(Claim(up=query)))


def decode_claim(key: bytes | None, raw: bytes) -> tuple[str, Claim]:
    """Raises UnreadableRecord for a record that is not a claim."""
    try:
        return (key or b"").decode(), _decoder.decode(raw)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(f"the claim {(key or b'')[:80]!r} cannot be decoded: {error}") from None


def check_drawn(key: str, record: Claim, drawn: int) -> None:
    """Raises UnreadableRecord when the record names a query whose number cannot have been drawn yet.

    A number is the offset of the record that drew it, plus one. So at its own offset, a claim knows no higher number
    than this offset. Compaction keeps offsets.
    """
    number = max(record.query, record.up, query_of(record.closed))
    if number > drawn:
        raise UnreadableRecord(
            f"the claim {key[:80]!r} is for query {number}; no number beyond {drawn} was drawn yet"
        )


def _key(topic_id: str, partition: int) -> str:
    return f"{topic_id}/{partition}"


class Watch:
    """Claims and, for a while, the ledger as one consumer sees them. Not a thread: its owner calls ``poll``.

    The ledger is followed from what is known of it already until ``leave_ledger``: once a worker has taken over it is
    the only writer of its lanes, and the claims are all it still needs to see. Each has its own consumer: a fetch
    that waits at the end of one topic would keep the other's waiting behind it, for most of a second.

    ``drawn``: the number of the reader's own query. It counts as drawn even if the claims topic was created again
    since, and its offsets are lower now.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        known: LedgerPart | None = None,
        unreadable: Unreadable | None = None,
        drawn: int = 0,
    ) -> None:
        self._unreadable = unreadable or Unreadable()
        self._drawn = drawn  # the highest number that a query can have, as far as the claims have been read
        # Records of the ledger whose queries no claim shows yet: the two topics are read side by side. They wait for
        # that. If the number is never drawn, they never count.
        self._early: dict[bytes | None, tuple[bytes | None, int]] = {}
        self.ledger = known.ledger if known else Ledger()
        self._highest: dict[str, int] = {}  # partition key: the generation that holds it
        self._unclosed: dict[str, set[int]] = {}  # partition key: workers that have not said they are over
        self._up: dict[str, int] = {}  # task key: the latest query whose task is ready
        self._stopped: dict[str, dict[str, int]] = {}  # partition key: by uid, the query that lanes are stopped for
        self._reached = {CLAIMS_TOPIC: 0}
        if known is not None:
            self._reached[LEDGER_TOPIC] = known.offset
        self._ends = Ends(connection)
        self._has_fetched = False
        settings = {"enable.partition.eof": True}
        self._consumers: dict[str, Consumer] = {CLAIMS_TOPIC: connection.consumer(**settings)}
        if known is not None:
            self._consumers[LEDGER_TOPIC] = connection.consumer(**settings, **{"fetch.wait.max.ms": 20})
        for topic, consumer in self._consumers.items():
            consumer.assign([TopicPartition(topic, 0, self._reached[topic])])

    def poll(self, timeout_seconds: float = 0.0) -> None:
        """Takes what has come."""
        for topic, consumer in self._consumers.items():
            for message in consumer.consume(1000, timeout_seconds / len(self._consumers)):
                self._reached[topic] = max(self._reached[topic], offset_behind(message))
                if message.error() is not None:
                    continue  # the end of a partition, or a broker that is away
                try:
                    if topic == LEDGER_TOPIC:
                        self._take_lane(message.key(), message.value(), message.offset())
                    elif message.value() is not None:
                        self._take_claim(*decode_claim(message.key(), message.value()), message.offset())
                except UnreadableRecord as error:
                    self._unreadable.note(topic, message.offset(), error)
        if self._early and self._drawn < self._reached[CLAIMS_TOPIC]:
            self._take_early()

    def _take_lane(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        try:
            self.ledger.take(key, value, self._drawn)
            self._early.pop(key, None)
        except NotDrawn:
            self._early[key] = value, offset
        except UnreadableRecord as error:
            self._unreadable.note(LEDGER_TOPIC, offset, error)

    def _take_early(self) -> None:
        """Claims have come since: perhaps the queries that these records are from have been drawn by now."""
        self._drawn = self._reached[CLAIMS_TOPIC]
        early, self._early = self._early, {}
        for key, (value, offset) in early.items():
            self._take_lane(key, value, offset)

    def read_to_end(self, timeout_seconds: float) -> None:
        """Until what is followed has been read up to where it ended when this was called, or later."""
        deadline = time.monotonic() + timeout_seconds
        ends = {topic: self._ends.of(topic) for topic in self._reached} if self._has_fetched else {}
        while any(self._reached[topic] < ends.get(topic, self._reached[topic] + 1) for topic in self._reached):
            if time.monotonic() > deadline:
                raise Unavailable(f"claims and ledger could not be read within {timeout_seconds:g} s")
            self.poll(0.02)
            self._first_ends(ends)
        self._has_fetched = True

    def _first_ends(self, ends: dict[str, int]) -> None:
        """As the first fetches say: asked for it, a client that is not connected yet may take most of a second."""
        for topic in self._reached.keys() - ends.keys():
            _, end = self._consumers[topic].get_watermark_offsets(TopicPartition(topic, 0), cached=True)
            if end >= 0:
                ends[topic] = end

    def leave_ledger(self) -> None:
        close_aside(self._consumers.pop(LEDGER_TOPIC))
        del self._reached[LEDGER_TOPIC]
        self.ledger, self._early = Ledger(), {}  # they may be large

    def holder(self, topic_id: str, partition: int) -> int:
        """The generation that holds the partition now, 0 when nobody ever claimed it."""
        return self._highest.get(_key(topic_id, partition), 0)

    def stopped(self, topic_id: str, partition: int) -> dict[str, int]:
        """By uid: workers of queries below this number begin nothing for the lane."""
        return self._stopped.get(_key(topic_id, partition), {})

    def is_up(self, topic_id: str, tasks: int, query: int) -> bool:
        """Whether all tasks of a query are ready for their first row."""
        return all(self._up.get(f"{topic_id}/up/{task}", 0) >= query for task in range(tasks))

    def has_unclosed(self, topic_id: str, partition: int, below: int, since: int = 0) -> bool:
        """Whether a worker of a generation in this range has not released the partition."""
        return any(since <= g < below for g in self._unclosed.get(_key(topic_id, partition), ()))

    def close(self) -> None:
        for consumer in self._consumers.values():
            close_aside(consumer)
        self._ends.close()

    def _take_claim(self, key: str, record: Claim, offset: int) -> None:
        check_drawn(key, record, max(self._drawn, offset))
        if record.closed:
            unclosed = self._unclosed.get(key.removesuffix("/closed"), set())
            # Whoever held the partition before the one that closes was over, or taken for dead, by then.
            unclosed.difference_update([g for g in unclosed if g <= record.closed])
        elif record.up:
            self._up[key] = max(self._up.get(key, 0), record.up)
        elif record.stopped:
            self._stopped.setdefault(key.split("/lane/")[0], {})[record.stopped] = record.query
        elif record.query:
            generation = record.query << QUERY_SHIFT | offset + 1
            is_fenced = generation < self._highest.get(key, 0)  # fenced before it began: it never delivers anything
            self._highest[key] = max(self._highest.get(key, 0), generation)
            if not (record.is_release or is_fenced):
                self._unclosed.setdefault(key, set()).add(generation)
