"""The topic of dead letters: read at the places that the index knows, and the second way of an event."""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from time import monotonic, time
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.contract.model import ADDRESSEE, DEAD_LETTERS_TOPIC, DeadLetter, decode_dead_letter, encode
from penstock.errors import Unavailable
from penstock.event.json_form import decode_event
from penstock.event.kafka import KafkaHeaders, encode_record
from penstock.kafka.connection import KafkaConnection, Producer
from penstock.kafka.outbox import LARGEST_BYTES

READ_SECONDS = 60.0
FLUSH_SECONDS = 20.0
FAR_APART = 500  # records that are closer are read one after the other


class DeadLetters:
    """Its producers last as long as it does: a batch would wait half a second for a new one."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._producers: dict[int, tuple[KafkaConnection, Producer]] = {}

    def at(self, offsets: Iterable[int]) -> Iterator[DeadLetter]:
        """The letters whose records are there, with their events. One that has a later word may be gone by now."""
        wanted = deque(sorted(set(offsets)))
        consumer: Consumer = self._connection.consumer(**{"enable.partition.eof": True})
        position = -FAR_APART - 1
        try:
            while wanted:
                if wanted[0] - position > FAR_APART:
                    position = wanted[0]
                    consumer.assign([TopicPartition(DEAD_LETTERS_TOPIC, 0, position)])
                message = _next(consumer)
                if message is None:
                    return  # the end of the topic
                position = message.offset() + 1
                while wanted and wanted[0] < message.offset():
                    wanted.popleft()  # compacted away
                value = message.value()
                if wanted and wanted[0] == message.offset():
                    wanted.popleft()
                    if value is not None:
                        yield decode_dead_letter(value)
        finally:
            consumer.close()

    def redrive(self, letters: Iterable[DeadLetter], topic_at: KafkaConnection | None = None) -> int:
        """Each goes once more to its subscription alone, by way of its topic, and is marked once Kafka has it.

        ``topic_at``: where their topics are, if not where the dead letters are.
        """
        batch = _Batch(self._producer(topic_at or self._connection))
        for letter in letters:
            key, value, headers = encode_record(decode_event(bytes(letter.event)))
            batch.send(letter.topic, key, value, [*headers, (ADDRESSEE, letter.uid.encode())], letter)
        batch.finish()
        marks = _Batch(self._producer(self._connection))
        for letter in batch.taken:
            marked = msgspec.structs.replace(letter, redriven=time())
            marks.send(DEAD_LETTERS_TOPIC, letter.key.encode(), encode(marked), [], letter)
        marks.finish()
        if batch.failure:
            raise Unavailable(f"{len(batch.taken)} were sent again, others were not: {batch.failure}")
        if marks.failure:
            raise Unavailable(f"{len(batch.taken)} were sent again, but not all are marked so: {marks.failure}")
        return len(batch.taken)

    def _producer(self, connection: KafkaConnection) -> Producer:
        if id(connection) not in self._producers:
            self._producers[id(connection)] = connection, connection.producer(**{"message.max.bytes": LARGEST_BYTES})
        return self._producers[id(connection)][1]


def _next(consumer: Consumer) -> Any:
    """The next record, or None at the end of the topic. Raises Unavailable."""
    deadline = monotonic() + READ_SECONDS
    while monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            return message
        if message is not None and message.error().code() == KafkaError._PARTITION_EOF:
            return None
    raise Unavailable(f"the dead letters could not be read within {READ_SECONDS:g} s")


class _Batch:
    """Records that are sent together; afterwards it is known which of them Kafka has."""

    def __init__(self, producer: Producer) -> None:
        self.taken: list[DeadLetter] = []
        self.failure = ""
        self._producer = producer

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: KafkaHeaders, letter: DeadLetter
    ) -> None:
        report = partial(self._report, letter)
        while True:
            try:
                self._producer.produce(topic, value, key, headers=headers, on_delivery=report)
                return
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                self.failure = str(error)
                return

    def finish(self) -> None:
        if self._producer.flush(FLUSH_SECONDS):
            self.failure = f"Kafka did not answer within {FLUSH_SECONDS:g} s"

    def _report(self, letter: DeadLetter, error: KafkaError | None, _message: object) -> None:
        if error is None:
            self.taken.append(letter)
        else:
            self.failure = error.str()
