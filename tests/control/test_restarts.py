"""A controller that is killed anywhere and started again comes to the same end."""

from collections.abc import Callable
from typing import Any

from penstock.contract.model import CONTRACT_TOPIC, Agreement, encode
from penstock.control.kinds import condition
from penstock.errors import Unavailable
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.table import put
from tests.control.conftest import TOPIC, Running, produce, starts
from tests.control.objects import broker, trigger
from tests.waiting import until


class Killed:
    """A ledger that cannot be written: whatever a controller does behind that is never done."""

    def __init__(self) -> None:
        self.writes = 0  # that were tried

    def write(self, *_arguments: Any) -> None:
        self.writes += 1
        raise Unavailable("killed")

    def forget(self, *_arguments: Any) -> None:
        raise Unavailable("killed")

    def close(self) -> None:
        pass


def test_a_start_that_was_decided_outlives_a_kill(run: Callable[..., Running], kafka: KafkaConnection) -> None:
    """Kept promise: a start is decided once, and nobody is served or called Ready before the ledger has it."""
    killed = Killed()
    first = run(ledger_at=lambda _: killed)
    first.apply(broker())
    first.ready("Broker", "orders")
    produce(kafka, TOPIC, 2)
    uid = first.apply(trigger())["metadata"]["uid"]
    until(lambda: "penstock.dev/start-positions" in str(first.get("Trigger", "audit")))
    until(lambda: killed.writes >= 2, "it was tried again")  # and all that comes behind it had its chance
    assert first.agreement("Trigger/default/audit") is None  # never in the contract before the ledger has its start
    unserved = first.get("Trigger", "audit")
    assert unserved is not None
    assert condition(unserved, "Ready")["status"] != "True"
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
