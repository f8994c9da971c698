"""Filters tried on the last events of a broker: what is wrong with them, and which events they are tried on."""

from typing import Any

import pytest

from penstock.contract.telemetry import RECEIVED
from penstock.control.answers import error_response
from penstock.control.store import Invalid
from penstock.control.trials import Trials, newest_of
from penstock.errors import Rejected, Unavailable
from penstock.kafka.connection import KafkaConnection
from tests.control.conftest import TOPIC, Running
from tests.control.objects import broker

KEY = "Broker/default/orders"


@pytest.fixture
def world(running: Running) -> Any:
    running.apply(broker())
    running.ready("Broker", "orders")
    return running.controller.world


def produce(kafka: KafkaConnection, ids: list[str]) -> None:
    """Events, the later the newer, spread over two partitions; among them a record that is none."""
    producer = kafka.producer()
    for n, id_ in enumerate(ids):
        attributes = {"specversion": "1.0", "id": id_, "source": "/s", "type": "order.created"}
        headers = [("ce_" + name, value.encode()) for name, value in attributes.items()]
        stamp = (RECEIVED, b"%d" % (1_700_000_000_000_000 + n * 1000))
        producer.produce(TOPIC, b"{}", partition=n % 2, headers=[*headers, stamp], timestamp=1_700_000_000_000 + n)
    producer.produce(TOPIC, b"no event", partition=0, timestamp=1_699_999_999_000)
    assert producer.flush(10) == 0


@pytest.mark.parametrize(
    ("filters", "field", "column"),
    [
        ([{"cesql": "type LIKE"}], "filters[0].cesql", 10),
        ([{"exact": {"type": "a"}}, {"any": [{"cesql": "tpye == 'a'"}]}], "filters[1].any[0].cesql", 7),
        ([{"cesql": "NOSUCH(type)"}], "filters[0].cesql", 1),
        ([{"exact": {"Type": "a"}}], "filters[0].exact.Type", None),
        ({"exact": {"type": "a"}}, "filters", None),
    ],
)
def test_a_bad_filter_is_named_with_its_column(world: Any, filters: Any, field: str, column: int | None) -> None:
    """Kept promise: the field and, in an expression, the column are told, as a 422 shows them."""
    with pytest.raises(Invalid) as found:
        Trials().run(world, {"filters": filters, "of": KEY})
    (problem,) = found.value.problems
    assert (problem.field, problem.column) == (field, column)
    shown = bytes(error_response(422, "the filter is invalid", None, found.value.problems).body).decode()
    assert (f'"column":{column}' in shown) == (column is not None)


def test_the_newest_events_of_all_partitions_are_tried(world: Any, kafka: KafkaConnection) -> None:
    """Kept promise: the last ones by time, with their place and receipt; what is no event is passed over."""
    produce(kafka, [f"e{n}" for n in range(30)])
    found = newest_of(world, KEY, 20)
    assert [each.event.attributes["id"] for each in found] == [f"e{n}" for n in range(29, 9, -1)]
    row = found[0].row
    assert (row["of"], row["place"], row["partition"]) == (KEY, TOPIC, 1)
    assert row["received"] == "2023-11-14T22:13:20.029Z"
    assert len(newest_of(world, KEY, 100)) >= 30


def test_without_a_dispatcher_it_is_said_who_is_missing(world: Any, kafka: KafkaConnection) -> None:
    produce(kafka, ["one"])
    with pytest.raises(Unavailable, match="the dispatcher, which is"):
        Trials().run(world, {"cesql": "true", "of": KEY})


@pytest.mark.parametrize(
    "asked", [{"of": "Broker/default/nowhere"}, {"of": None}, {"of": KEY, "latest": 0}, {"events": "none"}]
)
def test_what_cannot_be_asked_is_refused(world: Any, asked: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        Trials().run(world, {"cesql": "true", **asked})
