"""A record with many headers takes time linear in their number: a user's own topic may hold any record."""

import time
from collections.abc import Callable, Sequence

import pytest

from penstock.contract.model import RecordsAsEvents, Subscription
from penstock.delivery.client import Answer
from penstock.delivery.dead_letter import dead_letter, dead_letter_form, verdict
from penstock.delivery.dress import Dress
from penstock.delivery.forms import batched, structured
from penstock.delivery.row import Row
from penstock.event.kafka import decode_record
from penstock.pipeline.handover import CUT, parse_row, parse_row_of_source

FEW, MANY = 10_000, 40_000
MOST_TIMES = 10.0  # four times the headers; a quadratic step makes it sixteen
EVENT = [b"ce_specversion", b"ce_id", b"ce_source", b"ce_type"]
VALUES = [b"1.0", b"1", b"/s", b"t"]
SOURCE = Subscription(
    uid="u",
    kind="KafkaSource",
    namespace="n",
    name="t",
    topic="orders",
    group="g",
    subscriber_url="http://localhost/",
    records=RecordsAsEvents("/s", "string"),
    extensions={"region": "eu"},
)
NAMES: dict[str, Callable[[int], bytes]] = {
    "attributes": lambda number: b"ce_a%d" % number,
    "an attribute again and again": lambda number: b"ce_a",
    "private": lambda number: b"x%d" % number,
    "private, again and again": lambda number: b"x",
    "traces": lambda number: b"traceparent",
    "places": lambda number: b"ce_knativekafka%d" % number,
}


def packed(names: Sequence[bytes], kind: bytes = b"b") -> bytes:
    """A record with these headers, besides those of an event, as Spark hands it over."""
    keys, values = [*names, *EVENT], [*([b"1"] * len(names)), *VALUES]
    prefix = b"100 3 %b 0 - - %d 2 0" % (kind, len(keys))
    return prefix.ljust(48) + b"\n" + CUT.join([*keys, *values]) + b"{}"


def packed_for_source(names: Sequence[bytes]) -> bytes:
    return packed(names, b"x") + b"0 -1".rjust(32)


def least_seconds(step: Callable[[], object]) -> float:
    """Processor time, not counting what else the machine does."""
    found = []
    for _ in range(3):
        began = time.process_time()
        step()
        found.append(time.process_time() - began)
    return min(found)


def assert_linear(step: Callable[[int], Callable[[], object]]) -> None:
    assert least_seconds(step(MANY)) < MOST_TIMES * least_seconds(step(FEW)) + 0.05


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_four_times_the_headers_take_about_four_times_as_long(name: Callable[[int], bytes]) -> None:
    """Kept promise: a record is taken apart in time linear in the number of its headers, whatever their names."""

    def step(number: int) -> Callable[[], object]:
        row = packed([name(each) for each in range(number)])
        return lambda: parse_row(row)

    assert_linear(step)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_the_same_is_true_of_a_source(name: Callable[[int], bytes]) -> None:
    """Kept promise: a record that is not a CloudEvent becomes one, and is sent, in linear time too."""

    def step(number: int) -> Callable[[], object]:
        row = packed_for_source([name(each) for each in range(number)])
        return lambda: Dress(SOURCE).outgoing(parse_row_of_source(row).row)

    assert_linear(step)


def test_all_forms_of_a_delivery_take_linear_time() -> None:
    """Kept promise: JSON, a batch, a dead letter and its record take time linear in the number of attributes, also
    when the subscriber's answer has as many headers."""

    def step(number: int) -> Callable[[], object]:
        lines = b"".join(b"kne-a%d: 1\r\n" % each for each in range(number // 4))
        found = verdict(SOURCE, Answer(400, b"no", "", 0.0, b"HTTP/1.1 400 Bad\r\n" + lines + b"\r\n"), 1)
        row = parse_row(packed([b"ce_a%d" % each for each in range(number)])).row

        def all_forms() -> None:
            structured(row.headers, row.body)
            batched([Row(row.offset, (), row.headers, row.body)])
            dead_letter_form(row, found, as_json=True)
            dead_letter(SOURCE, "topic", row, found, "given up", 0.0)

        return all_forms

    assert_linear(step)


def test_a_record_is_decoded_in_linear_time() -> None:
    """Kept promise: search, tail and redrive read records in time linear in the number of headers."""

    def step(number: int) -> Callable[[], object]:
        mine = [(f"ce_a{each}", b"1") for each in range(number)]
        own = [(key.decode(), value) for key, value in zip(EVENT, VALUES, strict=True)]
        return lambda: decode_record(b"{}", [*mine, *own])

    assert_linear(step)


def test_an_event_with_more_headers_than_servers_take_travels_as_json() -> None:
    """Kept promise: many servers take 100 headers; private headers of the record do not count."""
    for number, is_wide in ((80, False), (90, True), (5_000, True)):
        assert parse_row(packed([b"ce_a%d" % each for each in range(number)])).row.is_wide is is_wide
        assert not parse_row(packed([b"x%d" % each for each in range(number)])).row.is_wide


def test_a_structured_event_with_long_attributes_travels_as_json() -> None:
    """Kept promise: it counts what the header lines would be, not the headers of the record."""
    for length, is_wide in ((8_000, True), (10, False)):
        event = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","note":"%b"}' % (b"n" * length)
        prefix = b"100 3 s 0 - - 1 %d 0" % len(event)
        headers = b"content-type" + CUT + b"application/cloudevents+json"
        assert parse_row(prefix.ljust(48) + b"\n" + headers + event).row.is_wide is is_wide


def test_of_a_header_that_stands_there_many_times_the_last_one_counts() -> None:
    """Kept promise: it is in the place and has the value of the last one."""
    row = parse_row(packed([b"ce_a", b"ce_id", b"ce_a"])).row
    assert row.headers[:5] == [b"ce-a:1", b"ce-specversion:1.0", b"ce-id:1", b"ce-source:/s", b"ce-type:t"]
