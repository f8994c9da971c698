"""An outbox that keeps what it is given; a test says when and how it is answered."""

from collections.abc import Sequence

from penstock.delivery.outbox import Stored
from penstock.event.kafka import Record


class KeptOutbox:
    def __init__(self) -> None:
        self.waiting = 0
        self.stored: list[tuple[str, Record]] = []
        self.errors: list[str | None] = []  # the answers to come, then all is well
        self.is_away = False
        self._sent: list[tuple[str, Sequence[Record], Stored]] = []

    def send(self, topic: str, records: Sequence[Record], stored: Stored) -> None:
        self.waiting += 1
        self._sent.append((topic, records, stored))

    def settle(self) -> None:
        if self.is_away:
            return
        sent, self._sent = self._sent, []
        for topic, records, stored in sent:
            self.waiting -= 1
            error = self.errors.pop(0) if self.errors else None
            if error is None:
                self.stored += [(topic, record) for record in records]
            stored(error)
