"""What one request, one event or one slow reader can make the controller hold in memory."""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from penstock.contract.model import HOME
from penstock.control import json_content, stored_objects, tail
from penstock.control.events import Place, Stored, whole_event
from penstock.event.model import Event
from penstock.kafka.latest import Found

MEGABYTE = 1024 * 1024
PLACE = Place("Broker/default/orders", "orders", HOME)


def allocated(work: Callable[[], Any]) -> int:
    """The most bytes that Python holds at a time while it does this."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def stored(data: bytes | None = None, **attributes: str) -> Stored:
    known = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}
    return Stored(PLACE, Found(0, 7, 1_700_000_000_000, data, ()), Event(known, data))


def long_path() -> dict[str, Any]:
    """As JSON it has 80 kB: long names in each other, and inside them a list of numbers."""
    value: Any = [0] * 20_000
    for _ in range(60):
        value = {"k" * 300: value}
    return {"spec": value}


def test_checking_a_document_takes_no_more_memory_than_the_document() -> None:
    """A long name above a long list is not repeated for each item."""
    value = long_path()
    assert allocated(lambda: json_content.problems(value)) < MEGABYTE


@pytest.mark.parametrize("wide", [[0] * 300_000, {str(n): 0 for n in range(100_000)}], ids=["list", "object"])
def test_checking_a_wide_document_takes_next_to_no_memory(wide: Any) -> None:
    """Items that are still to be checked are not copied."""
    assert allocated(lambda: json_content.problems({"spec": wide})) < MEGABYTE


def test_a_long_path_is_cut_in_its_message() -> None:
    """A problem names its field in a few hundred characters, with its beginning and its end."""
    deep = {"spec": {"n" * 10_000: {"o" * 10_000: {"note": ["\ud800"] * 100}}}}
    found = json_content.problems(deep)
    assert len(found) == json_content.MOST_PROBLEMS
    assert all(len(each.field) <= json_content.LONGEST_PATH + 1 for each in found)
    assert found[0].field.startswith("spec.nnn")
    assert found[0].field.endswith("ooo.note[0]")


def test_a_stored_document_with_a_long_path_is_read_in_little_memory() -> None:
    """Reading the stored resources takes as much memory as parsing them."""
    raw = json.dumps(long_path()).encode()

    def read() -> None:
        with pytest.raises(stored_objects.Unreadable):
            stored_objects.read("Broker/default/orders", raw)

    assert allocated(read) < 8 * MEGABYTE


def test_showing_an_event_takes_no_more_memory_than_its_data() -> None:
    """An event whose JSON has a long name above a long list is shown in a few megabytes."""
    event = stored(json.dumps(long_path()).encode())
    assert allocated(lambda: whole_event(event)) < 8 * MEGABYTE


def test_a_tail_does_not_parse_data_that_it_cuts() -> None:
    """The data of a large event costs a tail only the part that it shows."""
    event = stored(json.dumps([0] * 300_000).encode())
    assert allocated(lambda: tail._shown(event)) < MEGABYTE
    shown = tail._shown(event)
    assert (shown["is_cut"], len(shown["data"])) == (True, tail.LONGEST_DATA)
    assert tail._shown(stored(b'{"a": 1}'))["data"] == {"a": 1}
    assert tail._shown(stored(b"\xff"))["data"] == "\ufffd"
