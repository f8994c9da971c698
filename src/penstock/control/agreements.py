"""The contract topic as the controller sees it: what it has agreed with the data plane."""

import logging
import threading
from collections.abc import Mapping

import msgspec

from penstock.contract.model import CONTRACT_TOPIC, Agreement, Subscription, decode_agreement, encode
from penstock.control.loops import Map
from penstock.control.records import Records
from penstock.kafka.connection import KafkaConnection

logger = logging.getLogger("penstock.control")


class Contract:
    def __init__(self, connection: KafkaConnection) -> None:
        self._records = Records(connection, CONTRACT_TOPIC)
        self._values: dict[str, bytes] = {}
        self._unreadable: dict[
            str, str
        ] = {}  # by key: the reason; they are replaced when their resource is reconciled
        self._agreements: dict[str, tuple[bytes, Agreement]] = {}  # decoded once
        self._map: Map | None = None
        self._lock = threading.Lock()

    def load(self) -> None:
        with self._lock:
            self._load()

    def _load(self) -> None:
        self._values, self._unreadable, self._map = self._records.load(), {}, None
        for key, value in list(self._values.items()):
            try:
                self._decoded(key, value)
            except (msgspec.DecodeError, RecursionError) as error:
                logger.warning("the contract record of %s cannot be read and is skipped: %s", key, error)
                self._unreadable[key] = f"its contract record cannot be read and is skipped: {error}"
                del self._values[key]

    def problems(self) -> Mapping[str, str]:
        """Records that cannot be read, by key."""
        return self._records.problems | self._unreadable

    def keys(self) -> list[str]:
        return [*self._values, *self._unreadable]

    def map(self, ingress_url: str) -> Map:
        """Of all that is agreed; drawn anew when something has changed."""
        with self._lock:
            if self._map is None:
                self._map = Map([self._decoded(key, value) for key, value in self._values.items()], ingress_url)
            return self._map

    def subscriptions(self, key: str) -> tuple[Subscription, ...]:
        """What is agreed for a resource."""
        with self._lock:
            value = self._values.get(key)
            return self._decoded(key, value).subscriptions if value is not None else ()

    def agreements(self) -> dict[str, Agreement]:
        """All of them, by key of the resource."""
        with self._lock:
            return {key: self._decoded(key, value) for key, value in self._values.items()}

    def _decoded(self, key: str, value: bytes) -> Agreement:
        if key not in self._agreements or self._agreements[key][0] is not value:
            self._agreements[key] = value, decode_agreement(value)
        return self._agreements[key][1]

    def set(self, key: str, agreement: Agreement) -> None:
        """Durable when it returns. Nothing is written when nothing changed, so it may be called at every look."""
        self._write(key, encode(agreement))

    def remove(self, key: str) -> None:
        self._write(key, None)

    def _write(self, key: str, value: bytes | None) -> None:
        with self._lock:
            if self._records.is_doubtful:
                self._load()
            if self._values.get(key) == value and key not in self._unreadable:
                return
            self._records.put(key, value)
            self._unreadable = {each: why for each, why in self._unreadable.items() if each != key}
            self._map = None
            if value is None:
                self._values.pop(key, None)
                self._agreements.pop(key, None)
            else:
                self._values[key] = value
