"""A compacted topic that the controller alone writes: read once, then written through.

Used for the resources and for the contract. When Kafka did not acknowledge a write, the record may or may not be
there: the topic is then doubtful until it has been read again.
"""

import contextlib
from typing import Any

from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import Table, put

# Shorter than the patience of a write, so that a write that is given up cannot arrive later.
GIVE_UP_MS = 5_000
PATIENCE_SECONDS = 10.0


class Records:
    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        self.topic = topic
        self.is_doubtful = False
        self.problems: dict[str, str] = {}  # records that are not entries of a table at all
        self._connection = connection
        self._producer: Any = None

    def load(self, timeout_seconds: float = 30.0) -> dict[str, bytes]:
        """All that the topic holds now."""
        table = Table(self._connection, self.topic).start()
        try:
            table.wait_until_current(timeout_seconds)
        finally:
            table.stop()
        self.is_doubtful = False
        bad = table.follower
        self.problems = {f"Topic/{self.topic}": bad.problem} if bad.problem else {}
        return dict(table.values)

    def put(self, key: str, value: bytes | None) -> None:
        """Returns when Kafka has the record; None removes the key. Raises Unavailable."""
        if self._producer is None:
            self._producer = self._open()
        try:
            put(self._producer, self.topic, key, value, PATIENCE_SECONDS)
        except Unavailable as error:
            self._producer = None  # a producer that failed may be past saving (fatal errors of idempotence)
            self.is_doubtful = True
            hint = "whether it is stored is not known; the same again, once Kafka answers, does no harm"
            raise Unavailable(error.message, hint=hint) from error

    def _open(self) -> Any:
        producer = self._connection.producer(**{"message.timeout.ms": GIVE_UP_MS})
        # A client that has asked for the topic is connected: its first write takes 30 ms instead of 500.
        with contextlib.suppress(Exception):
            producer.list_topics(self.topic, timeout=5.0)
        return producer
