"""Records that a worker produces besides the ledger: replies, and what was not delivered.

A producer is made with the first record, since most workers never need one. It does not give up while Kafka is away:
what waits here is bounded by what may be in flight.

Records travel in batches, and Kafka refuses one that is too large for its topic as a whole. So what it refuses goes
once more by itself, and only what is too large then has failed.
"""

from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException

from penstock.event.kafka import Record
from penstock.kafka.connection import KafkaConnection, Producer

Stored = Callable[[str | None], None]
FLUSH_SECONDS = 2.0
LARGEST_BYTES = 4 * 1024 * 1024  # the largest event, in base64 and with its reason
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)

Report = Callable[[KafkaError | None, object], None]


class KafkaOutbox:
    """A ``delivery.outbox.Outbox``."""

    def __init__(self, connection: KafkaConnection) -> None:
        self.waiting = 0
        self._connection = connection
        self._producer: Producer | None = None
        self._one_by_one: Producer | None = None  # made when Kafka has refused a batch
        self._answered: list[tuple[Stored, str | None]] = []

    def send(self, topic: str, records: Sequence[Record], stored: Stored) -> None:
        if self._producer is None:
            self._producer = self._connect()
        self.waiting += 1
        ticket = _Ticket(len(records), partial(self._settled, stored))
        for record in records:
            _produce(self._producer, topic, record, partial(self._reported, topic, record, ticket))

    def settle(self) -> None:
        for producer in self._producers():
            producer.poll(0)
        answered, self._answered = self._answered, []
        for stored, error in answered:
            self.waiting -= 1
            stored(error)

    def close(self) -> None:
        """What is not answered by now stays unanswered: it is sent again by whoever delivers next."""
        for producer in self._producers():
            producer.purge()
            producer.flush(FLUSH_SECONDS)

    def _connect(self, **overrides: int) -> Producer:
        """One that a fatal error does not end: what comes twice does no harm here."""
        settings = {"message.timeout.ms": 0, "allow.auto.create.topics": False, "message.max.bytes": LARGEST_BYTES}
        return self._connection.lasting_producer(**settings, **overrides)

    def _producers(self) -> list[Producer]:
        return [each for each in (self._producer, self._one_by_one) if each is not None]

    def _reported(
        self, topic: str, record: Record, ticket: "_Ticket", error: KafkaError | None, message: object
    ) -> None:
        if error is None or error.code() not in TOO_LARGE:
            ticket.report(error, message)
            return
        if self._one_by_one is None:
            self._one_by_one = self._connect(**{"batch.num.messages": 1})
        _produce(self._one_by_one, topic, record, ticket.report)

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


def _produce(producer: Producer, topic: str, record: Record, report: Report) -> None:
    try:
        producer.produce(topic, record.value, record.key, headers=record.headers, on_delivery=report)
    except (BufferError, KafkaException) as error:
        report(KafkaError(KafkaError._FAIL, str(error)), None)
