"""Numbers and times from outside: invalid numbers, and times that no date can show, are refused or ignored."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from penstock.contract.model import HOME
from penstock.contract.moments import LATEST_SECONDS, iso
from penstock.contract.questions import Search, decode_search
from penstock.contract.telemetry import RECEIVED
from penstock.control import dead_letters, events, times
from penstock.control.events import Place, Stored
from penstock.errors import Misconfigured, Rejected
from penstock.event.model import Event
from penstock.kafka import tuning
from penstock.kafka.latest import Found
from penstock.pipeline import search
from penstock.pipeline.wanted import Wanted
from tests.pipeline.test_wanted import BINARY, Message

NO_NUMBERS = ["²", "③", "٣", "1" * 5000, "-1", "1e3", " 5", "5\n", 1.5, True]
ORDERS = Place("Broker/default/orders", "orders", HOME)
EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, None)
NO_MOMENTS = [1e308, -1e308, 1e12, -1.0, LATEST_SECONDS + 1]


def empty() -> Any:
    """A world without resources."""
    return SimpleNamespace(store=SimpleNamespace(list=lambda _kind: []), contract=SimpleNamespace(keys=list))


def question(asked: Mapping[str, Any]) -> Search:
    return events.question(empty(), asked)


@pytest.mark.parametrize("given", NO_NUMBERS, ids=lambda each: repr(each)[:12])
def test_what_is_no_number_is_refused_with_its_field(given: Any) -> None:
    """A digit of another script, a number of 5,000 digits or a flag gets 400 with the field, in a short message."""
    with pytest.raises(Rejected, match=r"^latest is ") as latest:
        question({"latest": given})
    with pytest.raises(Rejected, match=r"^code is ") as code:
        dead_letters.wanted_of({"code": given})
    assert len(latest.value.message) < 200
    assert len(code.value.message) < 200


def test_numbers_are_taken_as_text_and_as_numbers() -> None:
    """A query has text, a body has numbers."""
    assert [question({"latest": each}).latest for each in (7, "7", None)] == [7, 7, 50]
    assert [dead_letters.wanted_of({"code": each}).code for each in (503, "503", 0, None)] == [503, 503, 0, None]


def test_a_setting_of_kafka_with_foreign_digits_is_refused() -> None:
    """Kafka's client never gets a number that it cannot read."""
    for value in ("²", "٣", "1" * 5000):
        with pytest.raises(Misconfigured, match=r"linger\.ms"):
            tuning.producer_settings({"linger.ms": value})
    assert tuning.producer_settings({"linger.ms": "5"})


@pytest.mark.parametrize("field", ["since", "until"])
@pytest.mark.parametrize("seconds", NO_MOMENTS)
def test_a_time_that_no_date_can_show_is_refused_with_its_field(field: str, seconds: float) -> None:
    """The admin API and the dispatcher's port answer 400 to such a search."""
    with pytest.raises(Rejected, match=f"^{field} is "):
        question({field: seconds})
    with pytest.raises(Rejected, match=f"{field} is "):
        decode_search(msgspec.json.encode({"topics": [], field: seconds}))


@pytest.mark.parametrize("text", ["1900-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_date_beyond_what_can_be_shown_is_refused(text: str) -> None:
    """A time in an annotation or a question is between 1970 and 9999, whatever its time zone."""
    with pytest.raises(ValueError, match="1970 and 9999"):
        times.epoch_of(text)
    assert times.epoch_of("9999-12-31T23:59:59Z") == LATEST_SECONDS


@pytest.mark.parametrize("stamp", [b"9" * 5000, b"\xc2\xb2", b"", b"soon", b"-1"])
def test_a_stamp_of_a_sender_does_not_end_a_search(stamp: bytes) -> None:
    """An event whose receive time is no number has the time of its record, in searches and in lists."""
    looking = Wanted(Search(topics=()))
    looking.take([Message({**BINARY, RECEIVED: stamp}, time_ms=1000), Message(BINARY, time_ms=2000)])
    assert [each["received_ms"] for each in looking.newest()] == [2000, 1000]
    stored = Stored(
        Place("Broker/default/orders", "orders", HOME), Found(0, 1, 1000, None, ((RECEIVED, stamp),)), EVENT
    )
    assert stored.received == 1.0


@pytest.mark.parametrize("milliseconds", [2**63 - 1, -(2**63), -1])
def test_a_record_of_any_time_can_be_shown(milliseconds: int) -> None:
    """A producer may write any number as the time of a record; its event is found and shown."""
    looking = Wanted(Search(topics=()))
    looking.take([Message(BINARY, time_ms=max(milliseconds, 0))])
    [row] = looking.newest()
    placed = search._placed({**row, "topic": "orders"}, HOME)
    assert placed["received"][:4] in ("9999", "1970")
    stored = Stored(ORDERS, Found(0, 1, milliseconds, None, ()), EVENT)
    assert stored.row()["received"][:4] in ("9999", "1970")
    assert iso(float(milliseconds))
