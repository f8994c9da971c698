"""A compacted topic as a table: read it whole, follow it, put into it.

The contract, the resources and the reports are such tables. They have one partition, so that the order of
changes is the order of offsets.
"""

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.errors import Rejected, Unavailable
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.follow import Follower

Change = Callable[[str, bytes | None], None]


class Table:
    """The latest value of every key of a compacted topic, kept current by a thread.

    ``on_change(key, value)`` is called from that thread for every record, in order; a value of None means the
    key was removed. ``wait_until_current`` returns when all that was in the topic at the start has been seen. A
    record that ``on_change`` raises for is counted and reported by ``follower``, and skipped.
    """

    def __init__(self, connection: KafkaConnection, topic: str, on_change: Change | None = None) -> None:
        self.topic = topic
        self.values: dict[str, bytes] = {}
        self._connection = connection
        self._on_change = on_change
        self._of_before: set[str] | None = None  # keys of the topic before it was made again
        self.follower = Follower(connection, topic, self)

    def start(self) -> "Table":
        self.follower.start()
        return self

    @property
    def is_current(self) -> bool:
        """Everything that was there has been seen, and the topic is followed."""
        return self.follower.is_current

    def wait_until_current(self, timeout_seconds: float = 30.0) -> None:
        if not self.follower.wait_until_current(timeout_seconds):
            raise Unavailable(
                f"topic {self.topic} at {self._connection.bootstrap_servers} could not be read "
                f"within {timeout_seconds:g} s",
                hint="is Kafka running, and the controller, which creates this topic?",
            )

    def stop(self) -> None:
        self.follower.stop()

    # ── for the follower ──────────────────────────────────────────────────────────────────────────

    def take(self, _offset: int, key: str, value: bytes | None) -> None:
        if self._of_before is not None:
            self._of_before.discard(key)
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        if self._on_change is not None:
            self._on_change(key, value)

    def start_over(self) -> None:
        """Keys that are not in the new topic are removed once it has been read, so a key in both never disappears."""
        self._of_before = set(self.values)

    def rest(self) -> None:
        if self._of_before is None or not self.is_current:
            return
        gone, self._of_before = self._of_before, None
        for key in gone:
            self.take(-1, key, None)


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
