"""How to reach a Kafka cluster: one value from which every client is made.

Clients are created where they are used and after any fork: librdkafka's threads do not survive one.
"""

import logging
import threading
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import Producer as Producer  # for annotations elsewhere
from confluent_kafka.admin import AdminClient

from penstock.errors import Unavailable

logger = logging.getLogger("penstock.kafka")

QUIET_SECONDS = 10.0


class OncePerWhile(logging.Filter):
    """While Kafka is away every client says so several times a second; one line in ten seconds is enough."""

    def __init__(self) -> None:
        super().__init__()
        self._next_at = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith("FAIL "):
            return True
        if record.created < self._next_at:
            return False
        self._next_at = record.created + QUIET_SECONDS
        return True


logger.addFilter(OncePerWhile())


def close_aside(consumer: Consumer) -> None:
    """Closes it without waiting: while a broker dies that may take long, and nobody needs to see its end."""
    threading.Thread(target=consumer.close, name="closing", daemon=True).start()


@dataclass(frozen=True)
class KafkaConnection:
    """Where the cluster is. Security settings join here when they come."""

    bootstrap_servers: str
    client_id: str = "penstock"

    def client_config(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.client_id,
            "socket.nagle.disable": True,  # a quiet producer waits up to 40 ms otherwise
            "log_level": 3,
            "reconnect.backoff.ms": 200,  # it does not grow while all brokers are away
            "reconnect.backoff.max.ms": 1000,
        }

    def producer(self, **overrides: Any) -> Producer:
        """An idempotent producer that acknowledges only what all in-sync replicas hold."""
        return Producer(
            {
                **self.client_config(),
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                **overrides,
            },
            logger=logger,
        )

    def lasting_producer(self, **overrides: Any) -> Producer:
        """For the life of a process, where a record that comes twice does no harm and a fatal error would."""
        lasting = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
        return self.producer(**lasting, **overrides)

    def consumer(self, **overrides: Any) -> Consumer:
        """A consumer for assigned partitions; it never joins a group and never commits."""
        return Consumer(
            {
                **self.client_config(),
                "group.id": "penstock-unused",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "queued.max.messages.kbytes": 8192,
                "fetch.wait.max.ms": 1000,  # data is answered at once; this is only how often an idle one asks
                **overrides,
            },
            logger=logger,
        )

    def admin(self) -> AdminClient:
        """For topics and offsets. Not for groups: see ``kafka/groups.py``."""
        return AdminClient(self.client_config(), logger=logger)

    def group_client_config(self) -> dict[str, Any]:
        """The same for kafka-python, with which ``kafka/groups.py`` asks."""
        return {"bootstrap_servers": self.bootstrap_servers, "client_id": self.client_id}

    def check(self, timeout_seconds: float = 5.0) -> None:
        """Raises Unavailable, naming the address, when no broker answers."""
        try:
            self.admin().list_topics(timeout=timeout_seconds)
        except Exception as error:
            raise Unavailable(
                f"Kafka at {self.bootstrap_servers} does not answer: {error}",
                hint="is it running? `penstock up` starts one; --bootstrap-servers names another",
            ) from error
