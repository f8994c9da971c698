"""Explain shows what became of this event, and nothing of an event at the same offset of a former topic."""

from typing import Any

import pytest

from penstock.contract.model import HOME
from penstock.control.events import Place, Stored
from penstock.control.explain import is_about
from penstock.event.model import Event
from penstock.kafka.dead_letter_index import Indexed
from penstock.kafka.latest import Found

WRITTEN = 1_700_000_000.0
EVENT = Stored(
    Place("Broker/default/orders", "orders", HOME),
    Found(0, 7, int(WRITTEN * 1000), b"{}", ()),
    Event({"specversion": "1.0", "id": "e7", "source": "/s", "type": "t"}, b"{}"),
)


def letter(**changes: Any) -> Indexed:
    known: dict[str, Any] = {
        "record": 3, "id": "e7", "source": "/s", "type": "t", "kind": "Trigger", "namespace": "default",
        "name": "audit", "uid": "u", "topic": "orders", "partition": 0, "offset": 7, "outcome": "given up",
        "reason": "status 500", "code": 500, "attempts": 1, "time": WRITTEN + 1, "redriven": 0.0, "answer": "",
    }  # fmt: skip
    return Indexed(**known | changes)


@pytest.mark.parametrize(
    ("changes", "is_its_own"),
    [
        ({"topic_id": "now"}, True),
        ({"topic_id": "now", "time": WRITTEN - 3600}, True),  # clocks may be wrong, ids are not
        ({"topic_id": "before"}, False),
        ({"topic_id": "now", "offset": 8}, False),
        ({"topic_id": "now", "partition": 1}, False),
        ({}, True),  # of a former version: by its time and the id of the event
        ({"time": WRITTEN - 19 * 60}, False),
        ({"id": "another"}, False),
    ],
)
def test_a_dead_letter_is_matched_by_topic_id_and_never_from_before_the_event(
    changes: dict[str, Any], is_its_own: bool
) -> None:
    assert is_about(letter(**changes), EVENT, "now") is is_its_own


def test_letters_of_two_topics_of_one_subscription_do_not_replace_each_other() -> None:
    keys = {letter(topic_id=each).key for each in ("one", "two", "")}
    assert len(keys) == 3
    assert "u/0/7" in keys  # as former versions wrote it
