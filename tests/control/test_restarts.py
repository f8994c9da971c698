"""A controller that is killed anywhere and started again comes to the same end."""

from collections.abc import Callable
from typing import Any

from penstock.contract.model import CONTRACT_TOPIC, Agreement, encode
from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import put
from tests.control.conftest import TOPIC, Running, produce, starts
from tests.control.objects import broker, trigger
from tests.waiting import until


class Killed:
    """A ledger whose first write is the last thing that a controller does."""

    def __init__(self, _connection: KafkaConnection) -> None:
        pass

    def write(self, *_arguments: Any) -> None:
        raise Unavailable("killed")

    def forget(self, *_arguments: Any) -> None:
        raise Unavailable("killed")

    def close(self) -> None:
        pass


def test_a_start_that_was_decided_outlives_a_kill(run: Callable[..., Running], kafka: KafkaConnection) -> None:
    first = run(ledger_at=Killed)
    first.apply(broker())
    first.ready("Broker", "orders")
    produce(kafka, TOPIC, 2)
    uid = first.apply(trigger())["metadata"]["uid"]
    until(lambda: "penstock.dev/start-positions" in str(first.get("Trigger", "audit")))
    assert first.agreement("Trigger/default/audit") is None  # never in the contract before the ledger has its start
    first.stop()
    produce(kafka, TOPIC, 8)
    second = run()
    second.ready("Trigger", "audit")
    assert starts(kafka, uid) == {0: 1, 1: 1}


def test_a_restart_changes_nothing(run: Callable[..., Running]) -> None:
    first = run()
    first.apply(broker())
    first.apply(trigger())
    before = [first.ready("Broker", "orders"), first.ready("Trigger", "audit")]
    first.stop()
    second = run()
    until(lambda: len([r for r in second.ingress.at("/default/orders") if r.method == "GET"]) > 3)
    assert [second.get("Broker", "orders"), second.get("Trigger", "audit")] == before
    assert second.changes == []


def test_what_nobody_applied_leaves_the_contract(run: Callable[..., Running], kafka: KafkaConnection) -> None:
    run().stop()
    put(kafka.producer(), CONTRACT_TOPIC, "Broker/default/ghost", encode(Agreement(uid="x", generation=1)))
    again = run()
    until(lambda: again.agreement("Broker/default/ghost") is None)
