"""A controller on the real Kafka of this run, with an ingress that answers probes, and the means to watch it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock.contract.model import CONTRACT_TOPIC, Agreement, decode_agreement
from penstock.control.controller import Controller
from penstock.control.kinds import Resource, condition
from penstock.control.records import Records
from penstock.control.settings import ControllerSettings
from penstock.control.world import Ledger
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.ledger import StartPositions, read_ledger
from tests.sink import Answer, Request, Sink
from tests.waiting import until

T = TypeVar("T")

DEADLINE_SECONDS = 20.0
TOPIC = "knative-broker-default-orders"


def echo(request: Request) -> Answer:
    """How a receiver answers a probe of an address that it knows."""
    return Answer(200, headers={"K-Network-Hash": request.headers.get("k-network-hash", "")})


def produce(kafka: KafkaConnection, topic: str, count: int) -> None:
    producer = kafka.producer()
    for n in range(count):
        producer.produce(topic, value=f"event {n}".encode(), partition=n % 2)
    assert producer.flush(10) == 0


def starts(kafka: KafkaConnection, uid: str) -> dict[int, int]:
    """The positions that the ledger holds for a subscription."""
    found = read_ledger(kafka)
    entries = {lane.partition: found.entry(lane) for lane in found.lanes() if lane.subscription_uid == uid}
    return {partition: entry.record.position for partition, entry in sorted(entries.items()) if entry is not None}


@dataclass
class Running:
    """A controller in this process, and the questions that tests ask about it."""

    kafka: KafkaConnection
    ingress: Sink
    secrets_dir: Path
    ledger_at: Callable[[KafkaConnection], Ledger] = StartPositions
    changes: list[tuple[str, Resource]] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = ControllerSettings(
            bootstrap_servers=self.kafka.bootstrap_servers,
            ingress_port=self.ingress.port,
            resync_seconds=0.5,
            default_partitions=2,
            secrets_dir=str(self.secrets_dir),
        )
        self.controller = Controller(settings, lambda *change: self.changes.append(change), self.ledger_at)
        self.controller.start()
        until(lambda: self.controller.is_ready, "the controller")

    def apply(self, resource: dict[str, Any]) -> Resource:
        return self.controller.store.apply(resource)[0]

    def get(self, kind: str, name: str) -> Resource | None:
        return self.controller.store.get(kind, "default", name)

    def condition(self, kind: str, name: str, type_: str, status: str) -> dict[str, Any]:
        """The condition, once it has that status."""

        def look() -> dict[str, Any] | None:
            resource = self.get(kind, name)
            found = condition(resource, type_) if resource else None
            return found if found and found["status"] == status else None

        return until(look, f"{kind} {name} {type_}={status}")

    def ready(self, kind: str, name: str) -> Resource:
        self.condition(kind, name, "Ready", "True")
        resource = self.get(kind, name)
        assert resource is not None
        return resource

    def delete(self, kind: str, name: str) -> None:
        self.controller.store.delete(kind, "default", name)
        until(lambda: self.get(kind, name) is None, f"the end of {kind} {name}")

    def agreement(self, key: str) -> Agreement | None:
        """What the contract topic itself holds."""
        raw = Records(self.kafka, CONTRACT_TOPIC).load().get(key)
        return decode_agreement(raw) if raw else None

    def clear(self) -> None:
        """Removes all that is stored, triggers before brokers."""
        for resource in reversed(self.controller.store.list()):
            self.delete(resource["kind"], resource["metadata"]["name"])

    def stop(self) -> None:
        self.controller.stop()


def _ingress() -> Sink:
    receiver = Sink().start()
    for path in ("/default/orders", "/default/bills", "/default/jobs", "/default/archive"):
        receiver.answer(path, with_=echo)
    return receiver


@pytest.fixture
def run(kafka: KafkaConnection, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts controllers, one after the other; at the end what they keep is removed, since the Kafka is shared."""
    started: list[Running] = []
    ingress = _ingress()

    def start(**with_: Any) -> Running:
        started.append(Running(kafka, ingress, tmp_path, **with_))
        return started[-1]

    yield start
    started[-1].clear()
    started[-1].stop()
    ingress.stop()


@pytest.fixture(scope="module")
def one_for_all(kafka: KafkaConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(kafka, _ingress(), tmp_path_factory.mktemp("secrets"))
    yield running
    running.stop()
    running.ingress.stop()


@pytest.fixture
def running(one_for_all: Running) -> Iterator[Running]:
    """A controller that keeps nothing yet; the tests of a module share it."""
    yield one_for_all
    one_for_all.clear()
