"""The acknowledged producer: records in, and for each request of them one call when Kafka has all or has failed.

Called by the receiver, on its event loop; the calls back come on that loop too. librdkafka reports from a thread
of ours that polls it; the loop is woken once for all reports that came together.

    send ──(once a turn)──▶ librdkafka ──▶ Kafka ──▶ poll thread ──(one wake-up)──▶ done(None or the error)
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.errors import PenstockError, Rejected, Unavailable
from penstock.event.kafka import Record
from penstock.kafka.connection import PARTITION_GONE, KafkaConnection

logger = logging.getLogger("penstock.kafka")

Done = Callable[[PenstockError | None], None]

POLL_SECONDS = 1.0
PROBE_SECONDS = 1.0
MOST_ATTEMPTS = 3
RECORD_OVERHEAD_BYTES = 256 * 1024  # the head of a request, escaped and framed, beside its body


class TooLarge(Rejected):
    """The record is larger than the topic allows; sending it again changes nothing."""


@dataclass(frozen=True)
class ProducerLimits:
    events: int
    bytes: int
    body_bytes: int
    delivery_timeout_seconds: float


_counting = threading.Lock()  # the records of a batch are counted on two threads when not all were taken


class _Request:
    """Records that are reported on together."""

    __slots__ = ("attempts", "done", "records", "topic")

    def __init__(self, topic: str, records: Sequence[Record], done: Done) -> None:
        self.topic = topic
        self.records = records
        self.done = done
        self.attempts = 0


class _Ticket:
    """One attempt: how many records of a request Kafka has not yet reported on."""

    __slots__ = ("_finished", "error", "gone", "request", "waiting")

    def __init__(self, request: "_Request", finished: list["_Ticket"]) -> None:
        self.waiting = len(request.records)
        self.gone: list[Record] = []  # records that were not written, since their partition is gone
        self.error: KafkaError | None = None
        self.request = request
        self._finished = finished

    def report(self, error: KafkaError | None, _message: Any) -> None:
        """Called for each record: by librdkafka's poll, or at once for what it did not take."""
        with _counting:
            if error is not None and (self.error is None or self.error.code() in PARTITION_GONE):
                self.error = error
            self.waiting -= 1
            if self.waiting == 0:
                self._finished.append(self)

    def report_of(self, record: Record) -> Callable[[KafkaError | None, Any], None]:
        """The same for one of several records: only those that were not written are sent again."""

        def report(error: KafkaError | None, message: Any) -> None:
            if error is not None and error.code() in PARTITION_GONE:
                self.gone.append(record)
            self.report(error, message)

        return report


class _Line:
    """One librdkafka producer and the thread that polls it. A fatal error ends it; the next one replaces it."""

    def __init__(self, owner: "AcknowledgedProducer") -> None:
        self._owner = owner
        self.stopping = False
        self.finished: list[_Ticket] = []
        self.producer: Producer = owner.connect(self._on_error)
        self._thread = threading.Thread(target=self._poll, name="kafka-acknowledgements", daemon=True)
        self._thread.start()

    def abandon(self) -> None:
        """Fails what it still holds and lets it end; its tickets are reported all the same."""
        self.stopping = True
        self.producer.purge(in_queue=True, in_flight=True, blocking=False)

    def _poll(self) -> None:
        poll, wake = self.producer.poll, self._owner.wake
        while not self.stopping or len(self.producer) > 0:
            poll(POLL_SECONDS)
            if self.finished:
                wake(self)
        if self.finished:
            wake(self)

    def _on_error(self, error: KafkaError) -> None:
        """Called by poll with what concerns no single record."""
        if error.fatal():
            self._owner.wake_with(self._owner.replace, self, error.str())
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._owner.wake_with(self._owner.on_all_brokers_down, error.str())
        else:
            logger.debug("producer: %s", error.str())


class AcknowledgedProducer:
    """Sends records and says when Kafka has them (acks=all, idempotent)."""

    def __init__(
        self,
        connection: KafkaConnection,
        limits: ProducerLimits,
        on_all_brokers_down: Callable[[str], None],
        chosen: Mapping[str, str] | None = None,  # settings, see tuning.py
    ) -> None:
        self._chosen = dict(chosen or {})
        self.on_all_brokers_down = on_all_brokers_down
        self._connection = connection
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._line = _Line(self)
        self._outbox: list[_Request] = []

    def send(self, topic: str, records: Sequence[Record], done: Done) -> None:
        """Takes the records of a request. ``done`` is called once, later, with None only if Kafka has all of them.

        librdkafka gets them at the end of this turn of the loop, with all that other connections sent in it: its
        thread is woken once for all, and they go to Kafka together.
        """
        if not self._outbox:
            self._loop.call_soon(self._hand_over)
        self._outbox.append(_Request(topic, records, done))

    def _hand_over(self) -> None:
        outbox, self._outbox = self._outbox, []
        for request in outbox:
            try:
                self._produce(request)
            except Exception:  # from the callback of one request; the others must still be produced
                logger.exception("the callback of an event that was not produced has failed")

    def _produce(self, request: _Request) -> None:
        line, topic, records = self._line, request.topic, request.records
        ticket = _Ticket(request, line.finished)
        report, produce = ticket.report, line.producer.produce
        request.attempts += 1
        taken = 0
        try:
            for record in records:
                key, value, headers = record
                on_delivery = report if len(records) == 1 else ticket.report_of(record)
                produce(topic, value, key, headers=headers, on_delivery=on_delivery)
                taken += 1
        except Exception as error:  # whatever it is: whoever sent the request gets an answer
            reason = _kafka_error(error)
            if taken == 0 and reason.code() == KafkaError._UNKNOWN_TOPIC and request.attempts < MOST_ATTEMPTS:
                self._produce_when_known(request)
                return
            if taken == 0:
                request.done(_explained(reason))
            for record in records[taken:] if taken else ():
                # Some of a batch are on their way: the answer waits for them. If they are sent again, so is it.
                ticket.report_of(record)(reason, None)
            if reason.fatal():
                self.replace(line, reason.str())

    def _produce_when_known(self, request: _Request) -> None:
        """Sends it again after a metadata request: until then, a topic that was created again is unknown."""
        line = self._line

        def look() -> None:
            with contextlib.suppress(KafkaException):  # the next attempt reports it
                line.producer.list_topics(request.topic, timeout=PROBE_SECONDS)

        def again(_: object) -> None:
            if line.stopping:
                request.done(Unavailable("the producer has ended"))
            else:
                self._produce(request)

        self._loop.run_in_executor(None, look).add_done_callback(again)

    def led_topics(self) -> frozenset[str]:
        """The topics whose partitions all have a leader. Blocks up to a second; raises when Kafka is away."""
        found = self._line.producer.list_topics(timeout=PROBE_SECONDS).topics
        return frozenset(
            name
            for name, topic in found.items()
            if topic.error is None and all(partition.leader >= 0 for partition in topic.partitions.values())
        )

    def flush(self, timeout_seconds: float) -> int:
        """Waits until everything is reported; returns how many records are not."""
        return int(self._line.producer.flush(timeout_seconds))

    def end(self, timeout_seconds: float) -> int:
        """The same, and then it is over. Blocks; whoever waits for a report gets one."""
        left = self.flush(timeout_seconds)
        self._line.abandon()
        return left

    def replace(self, line: _Line, reason: str) -> None:
        """After a fatal error (the idempotent sequence is broken) only a new producer goes on."""
        if line is self._line:
            logger.error("the producer is replaced: %s", reason)
            self._line = _Line(self)
            line.abandon()

    def connect(self, on_error: Callable[[KafkaError], None]) -> Producer:
        limits = self._limits
        return self._connection.producer(
            **self._chosen
            | {
                "error_cb": on_error,
                # What comes while two requests are under way goes out together. In two short runs on a busy machine
                # this saved a tenth to a fifth of the receiver's CPU per event; a distant Kafka may want more.
                "max.in.flight.requests.per.connection": 2,
                "message.timeout.ms": int(limits.delivery_timeout_seconds * 1000),
                "queue.buffering.max.messages": limits.events + 1000,
                "queue.buffering.max.kbytes": 2 * limits.bytes // 1024 + 1024,
                "message.max.bytes": limits.body_bytes + RECORD_OVERHEAD_BYTES,
                "allow.auto.create.topics": False,  # a topic that was deleted must not come back by a late event
                "socket.connection.setup.timeout.ms": 2000,
            }
        )

    def wake(self, line: _Line) -> None:
        """On the poll thread: hands over all reports that came together."""
        finished = line.finished[:]
        del line.finished[: len(finished)]
        self.wake_with(self._settle, finished)

    def _settle(self, finished: list[_Ticket]) -> None:
        for ticket in finished:
            request, error = ticket.request, ticket.error
            try:
                if error is not None and request.attempts < MOST_ATTEMPTS and self._is_worth_another(error):
                    request.records = ticket.gone or request.records
                    self._produce(request)
                else:
                    request.done(None if error is None else _explained(error))
            except Exception:
                logger.exception("an acknowledgement could not be handed over")

    def _is_worth_another(self, error: KafkaError) -> bool:
        """A producer that is ending would not report on an attempt."""
        return error.code() in PARTITION_GONE and not self._line.stopping

    def wake_with(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            logger.debug("the event loop has ended")  # nobody is left to be told


def _kafka_error(error: Exception) -> KafkaError:
    if isinstance(error, KafkaException):
        found: KafkaError = error.args[0]
        return found
    if isinstance(error, BufferError):
        return KafkaError(KafkaError._QUEUE_FULL)
    logger.error("a record cannot be produced", exc_info=error)
    return KafkaError(KafkaError._INVALID_ARG)


def _explained(error: KafkaError) -> PenstockError:
    if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
        return TooLarge("the event is larger than its topic allows", hint="see max.message.bytes of the topic")
    return Unavailable(f"Kafka did not take the event: {error.str()}")
