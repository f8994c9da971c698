"""The contract topic as the controller sees it: what it has agreed with the data plane."""

import threading

from penstock.contract.model import CONTRACT_TOPIC, Agreement, encode
from penstock.control.records import Records
from penstock.kafka.connection import KafkaConnection


class Contract:
    def __init__(self, connection: KafkaConnection) -> None:
        self._records = Records(connection, CONTRACT_TOPIC)
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def load(self) -> None:
        with self._lock:
            self._values = self._records.load()

    def keys(self) -> list[str]:
        return list(self._values)

    def set(self, key: str, agreement: Agreement) -> None:
        """Durable when it returns. Nothing is written when nothing changed, so it may be called at every look."""
        self._write(key, encode(agreement))

    def remove(self, key: str) -> None:
        self._write(key, None)

    def _write(self, key: str, value: bytes | None) -> None:
        with self._lock:
            if self._records.is_doubtful:
                self._values = self._records.load()
            if self._values.get(key) == value:
                return
            self._records.put(key, value)
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
