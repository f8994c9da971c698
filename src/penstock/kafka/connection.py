"""How to reach a Kafka cluster: one value from which every client is made.

Clients are created where they are used and after any fork: librdkafka's threads do not survive one.
"""

import logging
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from penstock.errors import Unavailable

logger = logging.getLogger("penstock.kafka")


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
            "reconnect.backoff.ms": 50,
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
        return AdminClient(self.client_config(), logger=logger)

    def check(self, timeout_seconds: float = 5.0) -> None:
        """Raises Unavailable, naming the address, when no broker answers."""
        try:
            self.admin().list_topics(timeout=timeout_seconds)
        except Exception as error:
            raise Unavailable(
                f"Kafka at {self.bootstrap_servers} does not answer: {error}",
                hint="is it running? `penstock up` starts one; --bootstrap-servers names another",
            ) from error
