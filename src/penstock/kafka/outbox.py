"""Records that a worker produces besides the ledger: replies, and what was not delivered.

A producer is made with the first record, since most workers never need one. It does not give up while Kafka is away:
what waits here is bounded by what may be in flight.
"""

import functools
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException

from penstock.event.kafka import Record
from penstock.kafka.connection import KafkaConnection, Producer

Stored = Callable[[str | None], None]
FLUSH_SECONDS = 2.0
LARGEST_BYTES = 4 * 1024 * 1024  # the largest event, in base64 and with its reason


class KafkaOutbox:
    """A ``delivery.outbox.Outbox``."""

    def __init__(self, connection: KafkaConnection) -> None:
        self.waiting = 0
        self._connection = connection
        self._producer: Producer | None = None
        self._answered: list[tuple[Stored, str | None]] = []

    def send(self, topic: str, records: Sequence[Record], stored: Stored) -> None:
        if self._producer is None:
            # One that a fatal error does not end: what comes twice does no harm here.
            self._producer = self._connection.lasting_producer(
                **{"message.timeout.ms": 0, "allow.auto.create.topics": False, "message.max.bytes": LARGEST_BYTES}
            )
        self.waiting += 1
        ticket = _Ticket(len(records), functools.partial(self._settled, stored))
        for key, value, headers in records:
            try:
                self._producer.produce(topic, value, key, headers=headers, on_delivery=ticket.report)
            except (BufferError, KafkaException) as error:
                ticket.report(KafkaError(KafkaError._FAIL, str(error)), None)

    def settle(self) -> None:
        if self._producer is not None:
            self._producer.poll(0)
        answered, self._answered = self._answered, []
        for stored, error in answered:
            self.waiting -= 1
            stored(error)

    def close(self) -> None:
        """What is not answered by now stays unanswered: it is sent again by whoever delivers next."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(FLUSH_SECONDS)

    def _settled(self, stored: Stored, error: str | None) -> None:
        self._answered.append((stored, error))


class _Ticket:
    """The records of one sending that Kafka has not answered."""

    def __init__(self, waiting: int, done: Stored) -> None:
        self._waiting = waiting
        self._done = done
        self._error: str | None = None

    def report(self, error: KafkaError | None, _message: object) -> None:
        self._waiting -= 1
        if error is not None:
            self._error = error.str()
        if not self._waiting:
            self._done(self._error)
