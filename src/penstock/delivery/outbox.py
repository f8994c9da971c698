"""What deliveries need of Kafka: a place to put records and to hear when they are safe.

``kafka.outbox.KafkaOutbox`` is the real one. Owned by the delivering thread, which calls ``settle`` while something
is waiting; the calls back come from there.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.event.kafka import Record

Stored = Callable[[str | None], None]  # None: Kafka has all of them; else what went wrong


class Outbox(Protocol):
    waiting: int  # sendings that Kafka has not answered

    def send(self, topic: str, records: Sequence[Record], stored: Stored) -> None:
        """Hands the records over; ``stored`` is called once, later, from ``settle``."""

    def settle(self) -> None:
        """Calls back for what was answered."""
