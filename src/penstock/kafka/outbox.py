"""Records that a worker produces besides the ledger: replies, and what was not delivered.

A producer is made with the first record, since most workers never need one. It does not give up while Kafka is away:
what waits here is bounded by what may be in flight.

Replies go to the cluster of the topic that is served, everything else to home.

Records travel in batches, and Kafka refuses one that is too large for its topic as a whole. So what it refuses goes
once more by itself, and only what is too large then has failed. A record whose partition is gone goes once more, too.
"""

from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException

from penstock.contract.model import DEAD_LETTERS_TOPIC, REPORT_TOPIC
from penstock.errors import PenstockError
from penstock.event.kafka import Record
from penstock.kafka.connection import PARTITION_GONE, KafkaConnection, Producer

Stored = Callable[[str | None], None]
FLUSH_SECONDS = 2.0
LARGEST_BYTES = 4 * 1024 * 1024  # the largest event, in base64 and with its reason
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)

AT_HOME = (DEAD_LETTERS_TOPIC, REPORT_TOPIC)

Report = Callable[[KafkaError | None, object], None]


class KafkaOutbox:
    """A ``delivery.outbox.Outbox``. ``elsewhere`` leads to the cluster of the topic, if that is not home."""

    def __init__(self, home: KafkaConnection, elsewhere: Callable[[], KafkaConnection] | None = None) -> None:
        self.waiting = 0
        self._home = _Way(lambda: home)
        self._replies = _Way(elsewhere) if elsewhere else self._home
        self._answered: list[tuple[Stored, str | None]] = []

    def send(self, topic: str, records: Sequence[Record], stored: Stored) -> None:
        way = self._home if topic in AT_HOME else self._replies
        self.waiting += 1
        ticket = _Ticket(len(records), partial(self._settled, stored))
        try:
            way.send(topic, records, ticket)
        except PenstockError as error:  # without credentials there is no producer
            self._settled(stored, error.message)

    def settle(self) -> None:
        for way in {self._home, self._replies}:
            way.poll()
        answered, self._answered = self._answered, []
        for stored, error in answered:
            self.waiting -= 1
            stored(error)

    def close(self) -> None:
        """What is not answered by now stays unanswered: it is sent again by whoever delivers next."""
        for way in {self._home, self._replies}:
            way.close()

    def _settled(self, stored: Stored, error: str | None) -> None:
        self._answered.append((stored, error))


class _Way:
    """To one cluster."""

    def __init__(self, connect: Callable[[], KafkaConnection]) -> None:
        self._connection = connect
        self._producer: Producer | None = None
        self._one_by_one: Producer | None = None  # made when Kafka has refused a batch

    def send(self, topic: str, records: Sequence[Record], ticket: "_Ticket") -> None:
        """Raises Misconfigured, and sends nothing, when there are no credentials to be had."""
        if self._producer is None:
            self._producer = self._connect()
        for record in records:
            _produce(self._producer, topic, record, partial(self._reported, topic, record, ticket))

    def poll(self) -> None:
        for producer in self._producers():
            producer.poll(0)

    def close(self) -> None:
        for producer in self._producers():
            producer.purge()
            producer.flush(FLUSH_SECONDS)

    def _connect(self, **overrides: int) -> Producer:
        """One that a fatal error does not end: what comes twice does no harm here."""
        settings = {"message.timeout.ms": 0, "allow.auto.create.topics": False, "message.max.bytes": LARGEST_BYTES}
        return self._connection().lasting_producer(**settings, **overrides)

    def _producers(self) -> list[Producer]:
        return [each for each in (self._producer, self._one_by_one) if each is not None]

    def _reported(
        self, topic: str, record: Record, ticket: "_Ticket", error: KafkaError | None, message: object
    ) -> None:
        if error is not None and error.code() in PARTITION_GONE and self._producer is not None:
            _produce(self._producer, topic, record, partial(self._reported_again, topic, record, ticket))
            return
        self._reported_again(topic, record, ticket, error, message)

    def _reported_again(
        self, topic: str, record: Record, ticket: "_Ticket", error: KafkaError | None, message: object
    ) -> None:
        if error is None or error.code() not in TOO_LARGE:
            ticket.report(error, message)
            return
        if self._one_by_one is None:
            self._one_by_one = self._connect(**{"batch.num.messages": 1})
        _produce(self._one_by_one, topic, record, ticket.report)


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
