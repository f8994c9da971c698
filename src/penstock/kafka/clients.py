"""Clients that a process keeps: the first request of a new one costs tenths of a second, sometimes seconds."""

from functools import cached_property

from confluent_kafka.admin import AdminClient

from penstock.kafka.connection import KafkaConnection
from penstock.kafka.groups import Groups


class Clients:
    """Each is made when it is first needed, and may be shared by threads."""

    def __init__(self, connection: KafkaConnection) -> None:
        self.connection = connection

    @cached_property
    def admin(self) -> AdminClient:
        return self.connection.admin()

    @cached_property
    def groups(self) -> Groups:
        return Groups(self.connection)

    def close(self) -> None:
        """What was made of them; librdkafka's end with their last reference."""
        if "groups" in self.__dict__:
            self.groups.close()
        self.__dict__.pop("admin", None)
