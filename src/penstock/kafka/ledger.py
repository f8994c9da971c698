"""The ledger: how far each lane has come, in one compacted topic.

A lane is one subscription in one partition of one topic. Its record says: everything below ``position`` is
finished, and so are the offsets in ``beyond``. Workers write what changed every 50 ms; every start reads it. The
key ends in the generation of the writer and the highest generation wins, so a worker that was thought dead writes
into a record that nobody reads any more. Generations come from ``claims``; generation 0 holds the start positions
that the controller writes before a subscription is ready.
"""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from confluent_kafka import KafkaError, Producer, TopicPartition

from penstock.contract.model import LEDGER_TOPIC
from penstock.errors import Misconfigured, Unavailable
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection

START_GENERATION = 0
FORMAT = 1
READ_TIMEOUT_SECONDS = 30.0


class LaneKey(NamedTuple):
    """Which lane. The topic's id is part of it, so a topic made anew under its old name starts afresh."""

    subscription_uid: str
    topic_id: str
    partition: int


class LaneRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a lane: the value of a ledger record."""

    position: int  # every offset below is finished
    beyond: tuple[tuple[int, int], ...] = ()  # finished ranges [first, last] above the position
    format: int = FORMAT


class LedgerEntry(NamedTuple):
    generation: int
    record: LaneRecord


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(LaneRecord)


def encode_key(lane: LaneKey, generation: int) -> bytes:
    return f"{lane.subscription_uid}/{lane.topic_id}/{lane.partition}/{generation}".encode()


def decode_key(raw: bytes) -> tuple[LaneKey, int]:
    uid, topic_id, partition, generation = raw.decode().rsplit("/", 3)
    return LaneKey(uid, topic_id, int(partition)), int(generation)


class Ledger:
    """The ledger as it was read: for every lane, the records by generation. Built up by ``take``."""

    def __init__(self) -> None:
        self._lanes: dict[LaneKey, dict[int, LaneRecord]] = {}

    def take(self, raw_key: bytes, raw_value: bytes | None) -> LaneKey:
        """One record of the topic, in order. An unknown encoding is refused, never skipped."""
        lane, generation = decode_key(raw_key)
        if raw_value is None:
            generations = self._lanes.get(lane, {})
            generations.pop(generation, None)
            if not generations:
                self._lanes.pop(lane, None)
            return lane
        record = _decoder.decode(raw_value)
        if record.format != FORMAT:
            raise Misconfigured(
                f"the ledger record of {lane} has format {record.format}; this version knows {FORMAT}",
                hint="start a version of Penstock at least as new as the one that wrote it",
            )
        self._lanes.setdefault(lane, {})[generation] = record
        return lane

    def entry(self, lane: LaneKey) -> LedgerEntry | None:
        """What counts for this lane: the record of the highest generation."""
        generations = self._lanes.get(lane)
        if not generations:
            return None
        generation = max(generations)
        return LedgerEntry(generation, generations[generation])

    def lanes(self) -> list[LaneKey]:
        return list(self._lanes)

    def generations(self, lane: LaneKey) -> list[int]:
        return sorted(self._lanes.get(lane, {}))


def read_ledger(connection: KafkaConnection, timeout_seconds: float = READ_TIMEOUT_SECONDS) -> Ledger:
    """The whole ledger up to its present end. Raises Unavailable when it cannot be read: never starts without."""
    ledger = Ledger()
    end = topics.end_of_table(connection.admin(), LEDGER_TOPIC)
    consumer = connection.consumer()
    try:
        consumer.assign([TopicPartition(LEDGER_TOPIC, 0, 0)])
        reached = 0
        deadline = time.monotonic() + timeout_seconds
        while reached < end and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.02):
                if message.error() is None:
                    ledger.take(message.key(), message.value())
                    reached = message.offset() + 1
        if reached >= end:
            return ledger
        raise Unavailable(
            f"the ledger at {connection.bootstrap_servers} could not be read within {timeout_seconds:g} s",
            hint="nothing is delivered without it; is Kafka running, and topic penstock-ledger there?",
        )
    finally:
        consumer.close()


class LedgerWriter:
    """Hands records to a producer; they are durable once ``flush`` has returned."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.failure: str | None = None  # why Kafka refused a record for good: the ledger is behind from then on

    def write(self, lane: LaneKey, generation: int, record: LaneRecord) -> None:
        self._produce(encode_key(lane, generation), _encoder.encode(record))

    def erase(self, lane: LaneKey, generations: Iterable[int]) -> None:
        """Tombstones for outdated generations. Only after the successor's first record is durable."""
        for generation in generations:
            self._produce(encode_key(lane, generation), None)

    def flush(self, what: str, timeout_seconds: float = 10.0) -> None:
        """Returns when Kafka has all; raises Unavailable when it did not take them, or not in time."""
        left = self._producer.flush(timeout_seconds)
        if self.failure is not None:
            raise Unavailable(f"{what} could not be written to the ledger: {self.failure}")
        if left > 0:
            raise Unavailable(f"{what} could not be written to the ledger within {timeout_seconds:g} s")

    def _produce(self, key: bytes, value: bytes | None) -> None:
        self._producer.produce(LEDGER_TOPIC, key=key, value=value, partition=0, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self.failure = error.str()


def write_start_positions(
    connection: KafkaConnection,
    subscription_uid: str,
    topic: str,
    topic_id: str,
    positions: Mapping[int, int],
) -> None:
    """Where a new subscription begins. Lanes that already have a record keep it, so this may be repeated."""
    ledger = read_ledger(connection)
    writer = LedgerWriter(connection.producer())
    for partition, position in positions.items():
        lane = LaneKey(subscription_uid, topic_id, partition)
        if ledger.entry(lane) is None:
            writer.write(lane, START_GENERATION, LaneRecord(position))
    writer.flush(f"start positions of {topic}")


def forget(connection: KafkaConnection, subscription_uid: str) -> None:
    """Removes every lane of a subscription that is no more."""
    ledger = read_ledger(connection)
    writer = LedgerWriter(connection.producer())
    for lane in ledger.lanes():
        if lane.subscription_uid == subscription_uid:
            writer.erase(lane, ledger.generations(lane))
    writer.flush("the end of a subscription")
