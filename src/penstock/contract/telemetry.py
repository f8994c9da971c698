"""What processes tell about their work: values of records that nobody waits for.

``Telemetry`` goes to the telemetry topic once a second from every worker, receiver and dispatcher, and holds the
growth since the last time; the controller adds it up. ``DeliveryLog`` goes to the deliveries topic and holds what
became of every attempt; whoever asks for one event reads it.
"""

import sys
from array import array
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from penstock.telemetry.histogram import Durations

TELEMETRY_TOPIC = "penstock-telemetry"
DELIVERIES_TOPIC = "penstock-deliveries"
RECEIVED = "penstock-received"  # a record header: when the receiver had the whole request, µs since the epoch

Counts = dict[str, int]


class Served(msgspec.Struct, omit_defaults=True):
    """What happened to the events of one subscription in one worker."""

    matched: int = 0
    outcomes: Counts = {}  # the names are those of delivery.lane.Counts
    attempts: Counts = {}  # by telemetry.metrics.CLASSES
    retries: int = 0
    kafka_to_subscriber: Durations | None = None
    subscriber: Durations | None = None
    whole_way: Durations | None = None


class Holds(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker has in hand for one subscription, now."""

    in_flight: int = 0
    unfinished: int = 0
    retrying: int = 0  # wait for their next try
    last_error: str = ""  # of the last attempt that failed, since it last worked
    next_try: float = 0.0  # seconds since the epoch; 0: none waits
    failures: int = 0  # of the event that has failed most often


class Telemetry(msgspec.Struct, omit_defaults=True):
    """Growth since the last time; what is empty did not happen. ``holds`` is the state, not growth."""

    part: str = "worker"  # receiver, worker, dispatcher
    source: str = ""  # who tells: host:pid, of a worker also its partition; states are kept by it
    time: float = 0.0  # seconds since the epoch
    dropped: int = 0  # records like this one, or of the log, that Kafka did not get
    # of workers
    topic: str = ""  # its place
    partition: int = -1
    consumed: int = 0
    bad_records: Counts = {}  # records that are no events, by topic
    gaps: Counts = {}  # stretches of offsets without a record, by topic
    filter_errors: dict[str, Counts] = {}  # by uid of the subscription and name of the error
    served: dict[str, Served] = {}  # by uid
    holds: dict[str, Holds] = {}  # by uid; a subscription that is not named has nothing open
    # of receivers, by address ("/namespace/name", or "" for an unknown one)
    accepted: Counts = {}
    rejected: dict[str, Counts] = {}  # by address and reason (telemetry.metrics.REJECTIONS)
    produced: Counts = {}  # by topic
    ingress: dict[str, Durations] = {}
    gauges: dict[str, float] = {}  # of the process, by the metric's name; the value of a label follows a colon
    # of the dispatcher
    batch_gaps: dict[str, Durations] = {}  # by topic
    query_starts: Counts = {}  # by topic


# How an attempt ended, as DeliveryLog says it.
# RETRIED: it failed, and a retry follows, or the dead letter sink. Those with SINK are requests to that sink, and
# DEAD_LETTERED is one that it has taken.
DELIVERED, RETRIED, DEAD_LETTERED, GIVEN_UP, TO_SINK_RETRIED, SINK_GIVEN_UP = range(6)


class Odd(NamedTuple):
    """What is to be said of an attempt that failed, or that had failures before it."""

    ended: int = DELIVERED
    failures: int = 0  # including this one
    why: str = ""  # of one that failed


class LaneLog(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Attempts for the events of one subscription, as columns: there is an entry for every delivery, and columns are
    made in less time than lines. Made with ``packed``."""

    uid: str
    offsets: bytes  # OFFSETS
    began: bytes  # SECONDS since the epoch
    took: bytes  # SHORT_SECONDS
    statuses: bytes  # STATUSES; 0: no answer
    odd: dict[int, Odd] = {}  # by number of the attempt; all others were delivered at the first try


class DeliveryLog(msgspec.Struct, frozen=True, array_like=True):
    """What one worker did in a second. Encoded with MessagePack."""

    topic: str  # its place
    partition: int
    lanes: list[LaneLog]
    topic_id: str = ""  # logs of earlier versions have none


OFFSETS, SECONDS, SHORT_SECONDS, STATUSES = "q", "d", "f", "H"  # how columns are packed: typecodes of ``array``


def packed(typecode: str, values: Iterable[Any]) -> bytes:
    column = array(typecode, values)
    if sys.byteorder == "big":  # logs are little-endian, wherever they are written
        column.byteswap()
    return column.tobytes()


def unpacked(typecode: str, column: bytes) -> "array[Any]":
    values = array(typecode, column)
    if sys.byteorder == "big":
        values.byteswap()
    return values


_telemetry_decoder = msgspec.json.Decoder(Telemetry)
_log_decoder = msgspec.msgpack.Decoder(DeliveryLog)
_packer = msgspec.msgpack.Encoder()
_encoder = msgspec.json.Encoder()


def encode_telemetry(told: Telemetry) -> bytes:
    return _encoder.encode(told)


def decode_telemetry(raw: bytes) -> Telemetry:
    return _telemetry_decoder.decode(raw)


def encode_log(log: DeliveryLog) -> bytes:
    return _packer.encode(log)


def decode_log(raw: bytes) -> DeliveryLog:
    """Raises ValueError when it is none, or one of another version."""
    return _log_decoder.decode(raw)
