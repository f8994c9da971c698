"""Promises of the dispatcher's round, without Kafka and Spark."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from penstock.contract.model import Subscription
from penstock.pipeline.dispatch import Dispatcher


class Subscriptions(tuple[Subscription, ...]):
    """While it is read, the contract gets another entry, as from the table's thread."""

    contract: dict[str, tuple[Subscription, ...]]

    def __iter__(self) -> Iterator[Subscription]:
        self.contract["later"] = ()
        return super().__iter__()


def test_a_change_of_the_contract_does_not_disturb_the_start() -> None:
    """Kept promise: the dispatcher starts although the contract changes at the same moment."""
    nothing: Any = SimpleNamespace(start=lambda: None)
    found = Subscriptions([Subscription("uid", "Trigger", "default", "t", "orders", "g", "http://a/")])
    found.contract = {"first": found, "second": ()}
    dispatcher = object.__new__(Dispatcher)  # without a Spark session
    dispatcher._table = dispatcher._images = nothing
    dispatcher._contract = found.contract
    dispatcher._has_beaten = threading.Event()
    dispatcher.beat = dispatcher._has_beaten.set  # type: ignore[method-assign]
    stopping = threading.Event()
    stopping.set()  # waits for nothing
    dispatcher.start(stopping)
    assert dispatcher._first_topics == {"orders"}
