"""One receiver for all tests that do no harm to it, with an address of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from penstock.kafka.connection import KafkaConnection
from tests.receiver.running import Receiver, give_address, running


@dataclass(frozen=True)
class Address:
    path: str
    topic: str


@pytest.fixture(scope="package")
def address(kafka: KafkaConnection) -> Address:
    return Address(*give_address(kafka, "shared"))


@pytest.fixture(scope="package")
def receiver(kafka: KafkaConnection, address: Address) -> Iterator[Receiver]:
    """The one that these tests share, with the default timeouts of ``running``."""
    with running(kafka) as one:
        yield one
