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
