"""What workers count, summed up: read from the telemetry topic, shown by the metrics.

The sums begin with what the topic still holds when the controller starts, as counters may.
"""

import threading
from collections import Counter

from penstock.contract.telemetry import TELEMETRY_TOPIC, decode_telemetry
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import Table


class Counts:
    def __init__(self, connection: KafkaConnection) -> None:
        self._lock = threading.Lock()
        self._filter_errors: Counter[tuple[str, str]] = Counter()
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._bad_records: Counter[str] = Counter()
        self._table = Table(connection, TELEMETRY_TOPIC, self._take)

    def start(self) -> "Counts":
        self._table.start()
        return self

    def stop(self) -> None:
        self._table.stop()

    def filter_errors(self) -> dict[tuple[str, str], int]:
        """How often the filters of a subscription failed, by its uid and the name of the error."""
        with self._lock:
            return dict(self._filter_errors)

    def outcomes(self) -> dict[tuple[str, str], int]:
        """What became of deliveries, by the uid of the subscription and the name of the outcome."""
        with self._lock:
            return dict(self._outcomes)

    def bad_records(self) -> dict[str, int]:
        """How many records were no events, by topic."""
        with self._lock:
            return dict(self._bad_records)

    def _take(self, _key: str, value: bytes | None) -> None:
        if value is None:
            return
        told = decode_telemetry(value)
        with self._lock:
            for uid, counts in told.filter_errors.items():
                for error, count in counts.items():
                    self._filter_errors[uid, error] += count
            for uid, served in told.served.items():
                for outcome, count in served.outcomes.items():
                    self._outcomes[uid, outcome] += count
            self._bad_records.update(told.bad_records)
