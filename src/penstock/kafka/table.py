"""A compacted topic as a table: read it whole, follow it, put into it.

The contract, the resources and the reports are such tables. They have one partition, so that the order of
changes is the order of offsets.
"""

import logging
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from penstock.errors import Rejected, Unavailable
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ends import await_end

logger = logging.getLogger("penstock.kafka")

Change = Callable[[str, bytes | None], None]
POLL_SECONDS = 0.2


class Table:
    """The latest value of every key of a compacted topic, kept current by a thread.

    ``on_change(key, value)`` is called from that thread for every record, in order; a value of None means the
    key was removed. ``wait_until_current`` returns when all that was in the topic at the start has been seen.
    """

    def __init__(self, connection: KafkaConnection, topic: str, on_change: Change | None = None) -> None:
        self.topic = topic
        self.values: dict[str, bytes] = {}
        self._connection = connection
        self._on_change = on_change
        self._current = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"table-{topic}", daemon=True)

    def start(self) -> "Table":
        self._thread.start()
        return self

    @property
    def is_current(self) -> bool:
        return self._current.is_set()

    def wait_until_current(self, timeout_seconds: float = 30.0) -> None:
        if not self._current.wait(timeout_seconds):
            raise Unavailable(
                f"topic {self.topic} at {self._connection.bootstrap_servers} could not be read "
                f"within {timeout_seconds:g} s",
                hint="is Kafka running, and the controller, which creates this topic?",
            )

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def _follow(self) -> None:
        end = await_end(self._connection, self.topic, self._stopping)
        consumer = self._connection.consumer()
        try:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            reached = 0
            while not self._stopping.is_set():
                if reached >= end:
                    self._current.set()
                reached = max(reached, self._take(consumer))
        finally:
            consumer.close()

    def _take(self, consumer: Consumer) -> int:
        """Takes what has come and returns the offset behind it."""
        reached = 0
        first = consumer.poll(POLL_SECONDS)  # returns at once; consume would wait until it has all it asked for
        for message in [] if first is None else [first, *consumer.consume(500, 0)]:
            if message.error() is not None:
                logger.debug("table %s: %s", self.topic, message.error())
                continue
            reached = message.offset() + 1
            key = (message.key() or b"").decode()
            value = message.value()
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
            if self._on_change is not None:
                try:
                    self._on_change(key, value)
                except Exception:
                    logger.exception("table %s: the record of %s was not understood and is skipped", self.topic, key)
        return reached


def put(producer: Producer, topic: str, key: str, value: bytes | None, timeout_seconds: float = 10.0) -> int:
    """Writes one record; returns its offset once Kafka has it. Raises Unavailable or, for its size, Rejected."""
    outcome: list[tuple[KafkaError | None, int]] = []
    try:
        producer.produce(
            topic,
            key=key.encode(),
            value=value,
            partition=0,
            on_delivery=lambda error, message: outcome.append((error, -1 if error else message.offset())),
        )
    except KafkaException as error:
        if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise Rejected(f"topic {topic}: the record of {key} is too large") from error
        raise Unavailable(f"topic {topic}: the record of {key} was not taken: {error.args[0].str()}") from error
    except BufferError as error:
        raise Unavailable(f"topic {topic}: too much is waiting to be written") from error
    deadline = time.monotonic() + timeout_seconds
    while not outcome and time.monotonic() < deadline:
        producer.poll(0.05)
    if not outcome:
        raise Unavailable(f"topic {topic}: Kafka did not acknowledge the record of {key} in {timeout_seconds:g} s")
    refusal, offset = outcome[0]
    if refusal is not None:
        raise Unavailable(f"topic {topic}: the record of {key} was not written: {refusal.str()}")
    return offset
