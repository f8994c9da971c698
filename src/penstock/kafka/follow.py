"""A topic of one partition, read from its beginning and followed. Tables and the index of dead letters use it.

In: a topic. Out: every record in order, handed to a taker on the follower's own thread. Nothing ends it but ``stop``:
a record that the taker cannot decode is counted, logged and skipped; after an error of the client it connects again
and goes on at its last offset. It is current from when all present records have been taken until such an error.
"""

import logging
import threading
import time
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection, close_aside
from penstock.kafka.ends import await_range, range_of

logger = logging.getLogger("penstock.kafka")

POLL_SECONDS = 0.2
FIRST_BACKOFF_SECONDS = 0.2
LONGEST_BACKOFF_SECONDS = 5.0
QUIET_SECONDS = 10.0  # between two lines about bad records
LONGEST_REASON = 200
# librdkafka goes on by itself after all other errors: a broker that is away, a leader that moves.
LASTING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.INCONSISTENT_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)


class Taker(Protocol):
    """Called from the follower's thread only."""

    def take(self, offset: int, key: str, value: bytes | None) -> None:
        """One record. An exception means that it cannot be decoded."""

    def start_over(self) -> None:
        """The topic was deleted and made again: it is read from its beginning, and its old records are gone."""

    def rest(self) -> None:
        """Between two polls, a few times a second at least."""


class Follower:
    def __init__(self, connection: KafkaConnection, topic: str, taker: Taker) -> None:
        self.topic = topic
        self.bad_records = 0
        self.last_bad = ""  # where the last one is, and what is wrong with it
        self.last_bad_at = float("-inf")  # on the monotonic clock
        self._connection = connection
        self._taker = taker
        self._consumer: Consumer | None = None
        self._reached = 0  # the offset after the last record that was taken
        self._reads_again = False
        self._is_new = False
        self._attempt = 0
        self._quiet_until = 0.0
        self._current = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"follower-{topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    @property
    def problem(self) -> str:
        """Empty: every record could be decoded."""
        if not self.bad_records:
            return ""
        return f"{self.bad_records:,} records cannot be decoded and are skipped; the last one at {self.last_bad}"

    @property
    def is_current(self) -> bool:
        return self._current.is_set()

    def wait_until_current(self, timeout_seconds: float) -> bool:
        return self._current.wait(timeout_seconds)

    def read_again(self) -> None:
        """From the beginning on, for a taker that had no room for everything. To be called by the taker."""
        self._reads_again = True

    def first_offset(self) -> int:
        """The oldest record that the topic still has, 0 if that is not known. To be called by the taker."""
        if self._consumer is None:
            return 0
        try:
            return range_of(self._consumer, self.topic)[0]
        except Unavailable as error:
            logger.debug("topic %s: %s", self.topic, error.message)
            return 0

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
                continue
            except Exception as error:
                logger.warning("topic %s cannot be followed and is tried again: %s", self.topic, error)
            self._current.clear()
            self._stopping.wait(min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(self._attempt, 10)))
            self._attempt += 1

    def _follow(self) -> None:
        """Returns when it is stopped, or is to read again."""
        first, end = await_range(self._connection, self.topic, self._stopping)
        if self._reads_again:
            self._reached, self._reads_again = 0, False
        elif self._is_new or end < self._reached:
            self._reached, self._is_new = 0, False
            self._taker.start_over()
        self._consumer = self._connection.consumer(**{"enable.partition.eof": True})
        try:
            start = self._reached or OFFSET_BEGINNING
            self._consumer.assign([TopicPartition(self.topic, 0, start)])
            self._reached = max(self._reached, first)  # retention may have emptied the topic
            while not self._stopping.is_set() and not self._reads_again:
                if self._reached >= end and not self.is_current:
                    self._catch_up()
                self._take(self._consumer)
                self._taker.rest()
        finally:
            if self._reads_again:
                self._current.clear()
            close_aside(self._consumer)
            self._consumer = None

    def _catch_up(self) -> None:
        self._attempt = 0
        self._current.set()

    def _take(self, consumer: Consumer) -> None:
        """Takes what has come."""
        first = consumer.poll(POLL_SECONDS)  # returns at once; consume would wait until it has all it asked for
        for message in [] if first is None else [first, *consumer.consume(500, 0)]:
            error = message.error()
            if error is None:
                if message.offset() < self._reached:
                    self._is_new = True
                    raise Unavailable("it was deleted and made again")
                self._hand_over(message.offset(), message.key(), message.value())
                self._reached = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # The last offsets may have no records for us: markers of transactions, and compacted records.
                self._reached = max(self._reached, message.offset())
                self._catch_up()
            elif error.fatal() or error.code() in LASTING:
                raise KafkaException(error)
            else:
                logger.debug("topic %s: %s", self.topic, error)

    def _hand_over(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        try:
            self._taker.take(offset, (key or b"").decode(), value)
        except Exception as error:
            self.bad_records += 1
            reason = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
            self.last_bad, self.last_bad_at = f"offset {offset}: {reason}", time.monotonic()
            if self.last_bad_at >= self._quiet_until:
                self._quiet_until = self.last_bad_at + QUIET_SECONDS
                message = "topic %s: %d records could not be decoded and are skipped; the last one at %s"
                logger.warning(message, self.topic, self.bad_records, self.last_bad)
