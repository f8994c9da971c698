"""The ledger: how far each lane has come, in one compacted topic.

A lane is one subscription in one partition of one topic. Its record says: everything below ``position`` is
finished, and so are the offsets in ``beyond``. A lane that is not open has also finished everything below the floor
of its partition, which one record says for all lanes. Workers write what changed every 50 ms; every start reads it.
The key ends in the generation of the writer and the highest generation wins, so a worker that was thought dead
writes into a record that nobody reads any more; a floor counts for records of its own generation. Generations come
from ``claims``; generation 0 holds the start positions that the controller writes before a subscription is ready.
"""

import logging
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from penstock.contract.model import CLAIMS_TOPIC, LEDGER_TOPIC
from penstock.errors import Misconfigured, Unavailable
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ends import Ends, offset_behind
from penstock.kafka.unreadable import Unreadable, UnreadableRecord

logger = logging.getLogger("penstock.kafka")

START_GENERATION = 0
QUERY_SHIFT = 32  # a generation: the number of its query, then the offset of the claim in the lower half
LARGEST_OFFSET = 2**63 - 1  # Kafka's own limit
FLOOR = "*"  # in the place of a subscription's uid
FORMAT = 1
READ_TIMEOUT_SECONDS = 30.0
LONGEST_NUMBER = 19  # digits of a partition or a generation
LONGEST_REST_SECONDS = 1800.0  # half as long as Kafka keeps tombstones


class NotDrawn(UnreadableRecord):
    """A record of a query whose number was not drawn before it was read."""


class LaneKey(NamedTuple):
    """Which lane. The topic's id is part of it, so a topic made anew under its old name starts afresh."""

    subscription_uid: str
    topic_id: str
    partition: int


Offset = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_OFFSET)]
Count = Offset


class LaneRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a lane: the value of a ledger record."""

    position: Offset  # every offset below is finished
    beyond: tuple[tuple[Offset, Offset], ...] = ()  # finished ranges [first, last] above the position
    is_open: bool = False  # something was begun and is not finished: the floor does not count
    attempts: tuple[tuple[Offset, Count], ...] = ()  # offsets that have failed, and how often
    is_parked: bool = False  # its worker has let go of it: a query of its own may go on
    draining: Count = 0  # its worker only waits for answers; counts up as a heartbeat
    stopped: tuple[Offset, ...] = ()  # offsets in flight when the lane was stopped for a reset
    format: int = FORMAT


class _Format(msgspec.Struct):
    """All that is known of a record in another format."""

    format: int = FORMAT


class LedgerEntry(NamedTuple):
    generation: int
    record: LaneRecord


class Moved(NamedTuple):
    """Lanes that something was read about."""

    themselves: set[LaneKey]  # by a record of their own
    by_floor: set[LaneKey]  # only passed by rows


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(LaneRecord)
_format_decoder = msgspec.json.Decoder(_Format)
_part_decoder = msgspec.json.Decoder(tuple[int, list[tuple[str, str, int, int, LaneRecord]]])


def query_of(generation: int) -> int:
    """The number of the query that wrote it."""
    return generation >> QUERY_SHIFT


def encode_key(lane: LaneKey, generation: int) -> bytes:
    return f"{lane.subscription_uid}/{lane.topic_id}/{lane.partition}/{generation}".encode()


def decode_key(raw: bytes | None) -> tuple[LaneKey, int]:
    """Raises UnreadableRecord for a key that is not one of ours."""
    try:
        uid, topic_id, partition, generation = (raw or b"").decode().rsplit("/", 3)
    except ValueError:
        raise UnreadableRecord(f"its key {(raw or b'')[:80]!r} is not that of a lane") from None
    if not all(each.isascii() and each.isdigit() and len(each) <= LONGEST_NUMBER for each in (partition, generation)):
        raise UnreadableRecord(f"its key {(raw or b'')[:80]!r} has no partition or no generation")
    return LaneKey(uid, topic_id, int(partition)), int(generation)


def decode_record(lane: LaneKey, raw: bytes) -> LaneRecord:
    """Raises UnreadableRecord for an invalid record, and Misconfigured for one of a newer version, never skipped."""
    try:
        record = _decoder.decode(raw)
        found, why = record.format, ""
    except (ValueError, RecursionError) as error:
        record, found, why = None, _format_of(raw), str(error)
    if found > FORMAT:
        raise Misconfigured(
            f"the ledger record of {lane} has format {found}; this version knows {FORMAT}",
            hint="start a version of Penstock at least as new as the one that wrote it",
        )
    if record is None or found < FORMAT:
        raise UnreadableRecord(f"the record of {lane} cannot be decoded: {why or f'format {found}'}")
    return record


def _format_of(raw: bytes) -> int:
    """The format of a record that cannot be decoded; 0: no version wrote it."""
    try:
        return _format_decoder.decode(raw).format
    except (ValueError, RecursionError):
        return 0


def floor_key(lane: LaneKey) -> LaneKey:
    """Under which the floor of the lane's partition is kept."""
    return lane._replace(subscription_uid=FLOOR)


class Ledger:
    """The ledger as it was read: for every lane, the records by generation. Built up by ``take``."""

    def __init__(self) -> None:
        self._lanes: dict[LaneKey, dict[int, LaneRecord]] = {}
        self._once_parked: set[LaneKey] = set()
        self._once_draining: set[LaneKey] = set()

    def take(self, raw_key: bytes | None, raw_value: bytes | None, drawn: int | None = None) -> LaneKey:
        """One record of the topic, in order.

        Raises UnreadableRecord for an invalid record: the last good record of the lane stays in force. A lane without
        one starts from its beginning, so events are delivered twice rather than lost. A record of a newer version
        is refused (Misconfigured), never skipped.

        ``drawn``: the highest number that a query can have by now. A record of a higher one would win against all
        that real workers write, so it is NotDrawn.
        """
        lane, generation = decode_key(raw_key)
        if drawn is not None and query_of(generation) > drawn:
            raise NotDrawn(f"{lane} is by query {query_of(generation)}; no number beyond {drawn} was drawn yet")
        if raw_value is None:
            generations = self._lanes.get(lane, {})
            generations.pop(generation, None)
            if not generations:
                self._lanes.pop(lane, None)
            return lane
        self.put(lane, generation, decode_record(lane, raw_value))
        return lane

    def put(self, lane: LaneKey, generation: int, record: LaneRecord) -> None:
        self._lanes.setdefault(lane, {})[generation] = record
        if record.is_parked:
            self._once_parked.add(lane)
        if record.draining:
            self._once_draining.add(lane)

    def parked(self, topic_id: str) -> list[LaneKey]:
        """The lanes of a topic that their workers have let go of, and nobody has taken since."""
        known = {lane: entry.record.is_parked for lane in self._once_parked if (entry := self.entry(lane))}
        self._once_parked = {lane for lane, is_parked in known.items() if is_parked}
        return [lane for lane in self._once_parked if lane.topic_id == topic_id]

    def draining(self) -> dict[LaneKey, int]:
        """The lanes whose workers wait for answers, and their generations."""
        known = {lane: entry for lane in self._once_draining if (entry := self.entry(lane)) and entry.record.draining}
        self._once_draining = set(known)
        return {lane: entry.generation for lane, entry in known.items()}

    def entry(self, lane: LaneKey) -> LedgerEntry | None:
        """What counts for this lane: the record of the highest generation, and the floor of the same."""
        generations = self._lanes.get(lane)
        if not generations:
            return None
        generation = max(generations)
        record = generations[generation]
        if not record.is_open:
            floor = self._lanes.get(floor_key(lane), {}).get(generation)
            if floor is not None and floor.position > record.position:
                record = msgspec.structs.replace(record, position=floor.position)
        return LedgerEntry(generation, record)

    def only(self, wanted: Callable[[LaneKey], bool]) -> "Ledger":
        """A copy with some of the lanes."""
        copied = Ledger()
        copied._lanes = {lane: dict(found) for lane, found in self._lanes.items() if wanted(lane)}
        return copied

    def lanes(self) -> list[LaneKey]:
        return [lane for lane in self._lanes if lane.subscription_uid != FLOOR]

    def highest_floor(self, key: LaneKey) -> int:
        return max((record.position for record in self._lanes.get(key, {}).values()), default=0)

    def beside(self, lane: LaneKey) -> list[LaneKey]:
        """All lanes of the same partition."""
        return [each for each in self.lanes() if each[1:] == lane[1:]]

    def records(self) -> Iterable[tuple[LaneKey, dict[int, LaneRecord]]]:
        return self._lanes.items()

    def generations(self, lane: LaneKey) -> list[int]:
        return sorted(self._lanes.get(lane, {}))


class FollowedLedger:
    """The ledger for whoever needs it again and again: it reads on from where it was. May be shared by threads.

    ``rests``: for whoever needs it only now and then. Workers write hundreds of records a second, and a client that
    reads to the end once would go on fetching them for nobody.
    """

    def __init__(self, connection: KafkaConnection, *, rests: bool = False) -> None:
        self.connection = connection
        self.unreadable = Unreadable()
        self._rests = rests
        self._is_fetching = False
        self._rested_at = time.monotonic()
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None
        self._ends: Ends | None = None
        self._claims_ends: Ends | None = None
        self._ledger = Ledger()
        self._reached = 0
        self._moved: set[LaneKey] = set()
        self._drawn = 0  # the highest query number that is known to be possible

    def poll(self) -> None:
        """Takes what has come, and does not wait."""
        with self._lock:
            self._take(0.0)

    def read_to_end(self, timeout_seconds: float = READ_TIMEOUT_SECONDS) -> None:
        """Up to where the topic ends now. Raises Unavailable when it cannot be read: nobody starts without."""
        deadline = time.monotonic() + timeout_seconds
        with self._lock:
            if self._ends is None:
                self._ends = Ends(self.connection)
            first, end = self._ends.range_of(LEDGER_TOPIC)
            has_overslept = self._rests and time.monotonic() - self._rested_at > LONGEST_REST_SECONDS
            if end < self._reached or has_overslept:  # the topic was made anew; or tombstones may be gone unread
                self._start_over()
            self._reached = max(self._reached, first)  # a topic that was emptied has nothing to wait for
            try:
                self._read_up_to(end, deadline)
            finally:
                self._rest()

    def entry(self, lane: LaneKey) -> LedgerEntry | None:
        with self._lock:
            return self._ledger.entry(lane)

    def part(self, wanted: Callable[[LaneKey], bool]) -> "LedgerPart":
        """What is known now of some of the lanes; it stays as it is when the ledger goes on."""
        with self._lock:
            return LedgerPart(self._ledger.only(wanted), self._reached)

    def take_moved(self) -> Moved:
        """The lanes that something was read about since this was last asked."""
        with self._lock:
            read, self._moved = self._moved, set()
            floors = {lane[1:] for lane in read if lane.subscription_uid == FLOOR}
            themselves = {lane for lane in read if lane.subscription_uid != FLOOR}
            by_floor = {lane for lane in self._ledger.lanes() if lane[1:] in floors} if floors else set()
        return Moved(themselves, by_floor - themselves)

    def lanes(self) -> list[LaneKey]:
        with self._lock:
            return self._ledger.lanes()

    def parked(self, topic_id: str) -> list[LaneKey]:
        with self._lock:
            return self._ledger.parked(topic_id)

    def draining(self) -> dict[LaneKey, int]:
        with self._lock:
            return self._ledger.draining()

    def generation(self, lanes: Iterable[LaneKey]) -> int:
        """The highest one that has written about any of these; 0: there is none."""
        with self._lock:
            return max((generation for lane in lanes for generation in self._ledger.generations(lane)), default=0)

    def floor(self, topic_id: str, partition: int) -> int:
        """How far the rows of a partition have come, by whoever has read furthest."""
        with self._lock:
            return self._ledger.highest_floor(LaneKey(FLOOR, topic_id, partition))

    def close(self) -> None:
        with self._lock:
            self._start_over()
            for each in (self._ends, self._claims_ends):
                if each is not None:
                    each.close()
            self._ends = self._claims_ends = None

    def _read_up_to(self, end: int, deadline: float) -> None:
        while self._reached < end:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the ledger at {self.connection.bootstrap_servers} could not be read in time",
                    hint="nothing is delivered without it; is Kafka running, and are its topics "
                    "penstock-ledger and penstock-claims there?",
                )
            self._take(0.02)

    def _rest(self) -> None:
        if self._rests and self._consumer is not None:
            self._consumer.unassign()
            self._is_fetching = False
            self._rested_at = time.monotonic()

    def _start_over(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
        self._is_fetching = False
        self._ledger = Ledger()
        self._reached = 0

    def _take(self, wait_seconds: float) -> None:
        if self._consumer is None:
            self._consumer = self.connection.consumer(**{"enable.partition.eof": True})
        if not self._is_fetching:
            self._consumer.assign([TopicPartition(LEDGER_TOPIC, 0, self._reached)])
            self._is_fetching = True
        try:
            while messages := self._consumer.consume(2000, wait_seconds):
                is_asked = False
                for message in messages:
                    if message.error() is None and not self._take_record(message, is_final=is_asked):
                        # Whoever wrote these records had drawn its number before: one look is enough for all of them.
                        self._learn_drawn()
                        is_asked = True
                        self._take_record(message, is_final=True)
                    self._reached = max(self._reached, offset_behind(message))
                wait_seconds = 0.0
        except Unavailable as error:
            logger.debug("%s", error.message)
            self._is_fetching = False  # the next call goes on at the first record that was not taken
        except BaseException:
            self._start_over()  # records fetched together with one of a newer version must not be skipped
            raise

    def _take_record(self, message: Message, *, is_final: bool) -> bool:
        """False: perhaps its query has drawn a number since the end of the claims was last asked for."""
        try:
            self._moved.add(self._ledger.take(message.key(), message.value(), self._drawn))
        except UnreadableRecord as error:
            if isinstance(error, NotDrawn) and not is_final:
                return False
            self.unreadable.note(LEDGER_TOPIC, message.offset(), error)
        return True

    def _learn_drawn(self) -> None:
        if self._claims_ends is None:
            # With those that are open: a transaction without end hides all numbers that are drawn behind it.
            self._claims_ends = Ends(self.connection, with_open=True)
        self._drawn = max(self._drawn, self._claims_ends.of(CLAIMS_TOPIC))


class LedgerPart(NamedTuple):
    """Some lanes, and the offset up to which the ledger had been read for them."""

    ledger: Ledger
    offset: int

    def packed(self) -> bytes:
        """For the way to another process."""
        records = [
            (*lane, generation, record)
            for lane, found in self.ledger.records()
            for generation, record in found.items()
        ]
        return zlib.compress(_encoder.encode((self.offset, records)), 1)


def unpacked(packed: bytes) -> LedgerPart:
    offset, records = _part_decoder.decode(zlib.decompress(packed))
    known = Ledger()
    for uid, topic_id, partition, generation, record in records:
        known.put(LaneKey(uid, topic_id, partition), generation, record)
    return LedgerPart(known, offset)


def read_ledger(connection: KafkaConnection, timeout_seconds: float = READ_TIMEOUT_SECONDS) -> Ledger:
    """The whole ledger up to its present end, once."""
    followed = FollowedLedger(connection)
    try:
        followed.read_to_end(timeout_seconds)
        return followed.part(lambda _: True).ledger
    finally:
        followed.close()


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


class StartPositions:
    """What the controller does to the ledger."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._ledger = FollowedLedger(connection, rests=True)
        self._producer = connection.lasting_producer()

    def write(self, subscription_uid: str, topic: str, topic_id: str, positions: Mapping[int, int]) -> None:
        """Where a new subscription begins. Lanes that already have a record keep it, so this may be repeated."""
        self._ledger.read_to_end()
        writer = LedgerWriter(self._producer)
        for partition, position in positions.items():
            lane = LaneKey(subscription_uid, topic_id, partition)
            if self._ledger.entry(lane) is None:
                writer.write(lane, START_GENERATION, LaneRecord(position))
        writer.flush(f"start positions of {topic}")

    def forget(self, subscription_uid: str) -> None:
        """Removes every lane of a subscription that is no more."""
        self._ledger.read_to_end()
        known = self._ledger.part(lambda lane: lane.subscription_uid == subscription_uid).ledger
        writer = LedgerWriter(self._producer)
        for lane in known.lanes():
            writer.erase(lane, known.generations(lane))
        writer.flush("the end of a subscription")

    def close(self) -> None:
        self._ledger.close()
