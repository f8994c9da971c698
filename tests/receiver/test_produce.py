"""The acknowledged producer: every request is reported on once, whatever becomes of the producer beneath it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.errors import PenstockError, Unavailable
from penstock.event.kafka import Record
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.produce import AcknowledgedProducer, ProducerLimits, TooLarge
from tests.receiver.running import count, give_address
from tests.waiting import until

RECORD = Record(b"key", b"value", [("ce_id", b"1")])
LIMITS = ProducerLimits(events=100, bytes=1_000_000, body_bytes=100_000, delivery_timeout_seconds=20.0)
HASTY = replace(LIMITS, delivery_timeout_seconds=2.0)
Headers = list[tuple[str, bytes]]


class Reports:
    """What was reported, in order."""

    def __init__(self, expected: int) -> None:
        self.errors: list[PenstockError | None] = []
        self._expected = expected
        self._all = asyncio.Event()

    def done(self, error: PenstockError | None) -> None:
        self.errors.append(error)
        if len(self.errors) == self._expected:
            self._all.set()

    async def wait(self) -> list[PenstockError | None]:
        await asyncio.wait_for(self._all.wait(), 60)
        return self.errors


def test_replaced_after_a_fatal_error(kafka: KafkaConnection) -> None:
    """After a fatal error a new producer goes on; what the old one held is reported as unknown or written."""
    _, topic = give_address(kafka, "fatal")

    async def story() -> None:
        producer = AcknowledgedProducer(kafka, LIMITS, lambda reason: None)
        held = Reports(20)
        for _ in range(20):
            producer.send(topic, [RECORD], held.done)
        await asyncio.sleep(0)  # a turn of the loop, in which they are handed over
        producer.replace(producer._line, "a test said so")
        assert all(error is None or isinstance(error, Unavailable) for error in await held.wait())
        after = Reports(1)
        producer.send(topic, [RECORD], after.done)
        assert await after.wait() == [None]

    asyncio.run(story())
    assert count(kafka, topic) >= 1


def test_an_answer_that_cannot_be_handed_over_keeps_no_other_event(kafka: KafkaConnection) -> None:
    """Kept promise: when the report about one request fails, those that came with it are produced and reported."""
    _, topic = give_address(kafka, "unreported")

    def fails(error: PenstockError | None) -> None:
        raise ZeroDivisionError

    async def story() -> None:
        producer = AcknowledgedProducer(kafka, LIMITS, lambda reason: None)
        others = Reports(2)
        producer.send(topic, [RECORD], others.done)
        producer.send(topic, [Record(None, b"z" * 900_000, [])], fails)  # refused at once
        producer.send(topic, [RECORD], others.done)
        assert await others.wait() == [None, None]

    asyncio.run(story())


def test_batch_that_does_not_fit(kafka: KafkaConnection) -> None:
    """A batch of which librdkafka took only a part is reported once, when that part is done, and as an error."""
    _, topic = give_address(kafka, "partly")

    async def story() -> None:
        producer = AcknowledgedProducer(kafka, LIMITS, lambda reason: None)
        huge = Record(None, b"z" * 900_000, [])
        reports = Reports(1)
        producer.send(topic, [RECORD, RECORD, huge], reports.done)
        [error] = await reports.wait()
        assert isinstance(error, TooLarge)
        alone = Reports(1)
        producer.send(topic, [huge], alone.done)
        assert isinstance((await alone.wait())[0], TooLarge)

    asyncio.run(story())
    assert count(kafka, topic) == 2


def test_a_topic_that_is_not_there(kafka: KafkaConnection) -> None:
    """A topic that does not exist is reported as unavailable in bounded time, and is not created by the attempt."""

    async def story() -> frozenset[str]:
        producer = AcknowledgedProducer(kafka, HASTY, lambda reason: None)
        reports = Reports(1)
        producer.send("receiver-nowhere", [RECORD], reports.done)
        assert isinstance((await reports.wait())[0], Unavailable)
        return await asyncio.to_thread(producer.led_topics)

    assert "receiver-nowhere" not in asyncio.run(story())


def test_a_topic_made_anew_with_fewer_partitions(kafka: KafkaConnection) -> None:
    """After a topic was created again with fewer partitions, every record is accepted and stored once, also by a
    producer that knew the old one, and also in a batch."""
    topic, admin = "receiver-fewer", kafka.admin()

    async def send(producer: AcknowledgedProducer, number: int) -> list[PenstockError | None]:
        reports = Reports(number + 1)
        records = [RECORD._replace(key=b"%d" % key) for key in range(number)]
        for record in records:
            producer.send(topic, [record], reports.done)
        producer.send(topic, records, reports.done)
        return await reports.wait()

    async def story() -> None:
        topics.create_missing(admin, [topics.TopicSpec(topic, 12)])
        producer = AcknowledgedProducer(kafka, LIMITS, lambda reason: None)
        assert not any(await send(producer, 30))
        [deleted] = admin.delete_topics([topic], operation_timeout=10).values()
        deleted.result()
        await asyncio.to_thread(until, lambda: topic not in producer.led_topics(), "the topic is gone")
        topics.create_missing(admin, [topics.TopicSpec(topic, 1)])
        assert not any(await send(producer, 30))
        producer.end(1.0)

    asyncio.run(story())
    assert sum(topics.latest_offsets(admin, topic, 1).values()) == 60


def test_a_topic_made_anew_after_its_producer_saw_that_it_is_gone(kafka: KafkaConnection) -> None:
    """The first record is accepted, also by a producer that has found out meanwhile that there is no such topic."""
    topic, admin = "receiver-anew", kafka.admin()

    async def sent(producer: AcknowledgedProducer) -> PenstockError | None:
        reports = Reports(1)
        producer.send(topic, [RECORD], reports.done)
        return (await reports.wait())[0]

    async def story() -> None:
        topics.create_missing(admin, [topics.TopicSpec(topic, 2)])
        at_once = {
            "topic.metadata.propagation.max.ms": "1"
        }  # it believes at once that a topic is gone, not only after 30 s
        producer = AcknowledgedProducer(kafka, LIMITS, lambda reason: None, at_once)
        assert await sent(producer) is None
        [deleted] = admin.delete_topics([topic], operation_timeout=10).values()
        deleted.result()
        await asyncio.to_thread(until, lambda: topic not in producer.led_topics(), "the topic is gone")
        deadline = time.monotonic() + 60
        while not _is_refused_at_once(await sent(producer)):
            assert time.monotonic() < deadline
        topics.create_missing(admin, [topics.TopicSpec(topic, 2)])
        assert await sent(producer) is None
        producer.end(1.0)

    asyncio.run(story())


def _is_refused_at_once(error: PenstockError | None) -> bool:
    """librdkafka did not even take the record."""
    return error is not None and "Unable to produce" in error.message


NOT_TAKEN = Record(b"key", b"value", [("ce_id", 1)])  # type: ignore[list-item]  # the client raises TypeError


def test_a_record_that_the_client_cannot_take_is_reported(kafka: KafkaConnection) -> None:
    """Kept promise: whatever the client raises, its sender gets an answer, and those behind it are sent."""
    _, topic = give_address(kafka, "untaken")

    async def story() -> None:
        producer = AcknowledgedProducer(kafka, LIMITS, lambda reason: None)
        alone, batch, behind = Reports(1), Reports(1), Reports(1)
        producer.send(topic, [NOT_TAKEN], alone.done)
        producer.send(topic, [RECORD, NOT_TAKEN, RECORD], batch.done)
        producer.send(topic, [RECORD], behind.done)
        assert await behind.wait() == [None]
        assert isinstance((await alone.wait())[0], Unavailable)
        assert isinstance((await batch.wait())[0], Unavailable)
        producer.end(1.0)

    asyncio.run(story())
    assert count(kafka, topic) == 2


class PartitionGoes:
    """A producer whose first record goes to a partition that is gone, and whose second one finds out at once."""

    def __init__(self, real: Producer) -> None:
        self._real = real
        self._calls = 0

    def produce(
        self, topic: str, value: bytes, key: bytes, *, headers: Headers, on_delivery: Callable[..., None]
    ) -> None:
        self._calls += 1
        error = KafkaError(KafkaError._UNKNOWN_PARTITION)
        if self._calls == 1:
            self._real.produce(topic, value, key, headers=headers, on_delivery=lambda _, m: on_delivery(error, m))
        elif self._calls == 2:
            raise KafkaException(error)
        else:
            self._real.produce(topic, value, key, headers=headers, on_delivery=on_delivery)

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def __len__(self) -> int:
        return len(self._real)


def test_a_record_that_was_not_taken_is_never_reported_as_written(kafka: KafkaConnection) -> None:
    """Kept promise: when a part of a batch is sent again since its partition is gone, so is the part that the client
    refused for the same reason."""
    _, topic = give_address(kafka, "refused")

    async def story() -> None:
        producer = AcknowledgedProducer(kafka, LIMITS, lambda reason: None)
        producer._line.producer = PartitionGoes(producer._line.producer)
        reports = Reports(1)
        producer.send(topic, [RECORD, RECORD, RECORD], reports.done)
        assert await reports.wait() == [None]
        producer.end(1.0)

    asyncio.run(story())
    assert count(kafka, topic) == 1 + 3  # what stands for the lost one was written
