"""Promises of the attributes that are added to a dead letter: they are bounded, and no sink refuses the event because
of them."""

import base64
from typing import Any

import pytest

from penstock.contract.model import Delivery, Subscription
from penstock.delivery.client import Answer, Post
from penstock.delivery.dead_letter import dead_letter, for_sink, verdict
from penstock.delivery.forms import are_wide, binary_lines, event_of
from penstock.delivery.lane import Attempt
from penstock.delivery.posts import post_of
from penstock.delivery.row import Row
from penstock.event.attributes import DEFAULT_LIMITS, check_lengths, check_number
from penstock.event.http import decode
from penstock.event.model import Event
from tests.delivery.loop import MakeSink, lane, running
from tests.delivery.outbox import KeptOutbox
from tests.sink import Answer as SinkAnswer

REQUIRED = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "order"}
PLACE = {"knativekafkapartition": "3", "knativekafkaoffset": "7"}
MOST_HEADER_BYTES, MOST_HEADERS = 8_192, 100  # what many servers take, the request line and other headers included
OTHERS_BYTES, OTHERS = 200, 6  # Host, User-Agent and so on
LARGEST_BODY = 1024 * 1024  # of the ingress
WORST = {f"kne-e{each}": "v" * 1024 for each in range(100)}
URL = "http://127.0.0.1:1/a" + "%FF" * 2_000


def answer(headers: dict[str, str], body: bytes = b"\xff" * 5_000) -> Answer:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return Answer(400, body, "", 0.0, f"HTTP/1.1 400 Bad Request\r\n{lines}\r\n".encode())


def row(number: int, length: int, body: bytes = b"hello") -> Row:
    """An event with so many attributes, each with so long a value, as the worker has it."""
    more = {f"n{each}": "v" * length for each in range(number - len(REQUIRED))}
    lines, data = binary_lines(Event({**REQUIRED, **more, **PLACE}, body))
    made = Row(7, (0,), lines, data)
    made.is_wide = are_wide(lines)
    return made


def dead_letter_of(event: Row, said: Answer, url: str = URL, **delivery: Any) -> Post:
    target = lane(url, delivery=Delivery(dead_letter_url="http://127.0.0.1:1/d", **delivery))
    attempt = Attempt(target, [event])
    attempt.verdict = for_sink(verdict(target.subscription, said, 1), event, 16)
    return post_of(attempt, lambda _: None, 0.0)


def taken(post: Post) -> Event:
    """The event as an ingress takes it."""
    fields = [(name.lower(), value) for name, _, value in (line.partition(b":") for line in post.headers) if value]
    (event,) = decode(fields, post.body)
    check_number(event.attributes, DEFAULT_LIMITS.number)
    check_lengths(event.attributes, DEFAULT_LIMITS.each_bytes)
    return event


@pytest.mark.parametrize("format_", ["binary", "json"])
@pytest.mark.parametrize(
    ("number", "length"),
    [
        (4, 0),
        (10, 100),
        (64, 90),
        (69, 90),
        (70, 90),
        (80, 10),
        (86, 1),
        (88, 1),
        (90, 1),
        (200, 1),
        (256, 1),
        (256, 65_536),
        (5, 6_000),
        (5, 6_900),
        (5, 65_536),
    ],
)
def test_an_event_near_the_limits_is_taken_as_a_dead_letter(number: int, length: int, format_: str) -> None:
    """Kept promise: whatever the subscriber answered, the ingress of a dead letter sink takes the event. It is whole,
    and in binary mode its headers are no more than many servers take."""
    event = row(number, length)
    post = dead_letter_of(event, answer(WORST), format=format_)
    found = taken(post)
    assert found.attributes["knativeerrorcode"] == "400"
    assert URL.startswith(found.attributes["knativeerrordest"])
    assert found.data == b"hello"
    for name, value in event_of(event).attributes.items():
        assert found.attributes[name] == value
    assert sum(map(len, post.headers)) + OTHERS_BYTES <= MOST_HEADER_BYTES
    assert len(post.headers) + OTHERS <= MOST_HEADERS


def test_an_event_near_the_longest_body_is_taken_as_a_dead_letter() -> None:
    """Kept promise: to a large event that travels as JSON only the address and the status are added."""
    large = b'{"a":"%b"}' % (b"d" * (LARGEST_BODY - 8_000))
    event = row(6, 3_600, large)
    event.headers.append(b"content-type:application/json")
    assert event.is_wide
    post = dead_letter_of(event, answer(WORST))
    assert len(post.body) <= LARGEST_BODY
    added = taken(post).attributes.keys() - event_of(event).attributes.keys()
    assert added == {"knativeerrordest", "knativeerrorcode"}


def test_what_is_added_is_bounded() -> None:
    """Kept promise: address, data and extensions have a longest size, and extensions a largest number."""
    subscription = Subscription("u", "Trigger", "n", "t", "topic", "g", URL)
    many = {f"kne-e{each}": "v" for each in range(1_000)}
    for headers, extensions in ((many, 16), (WORST, 3)):
        found = verdict(subscription, answer(headers), 1).attributes
        assert len(found["knativeerrordest"]) == 512
        assert base64.b64decode(found["knativeerrordata"]) == b"\xff" * 1024
        assert len([name for name in found if not name.startswith("knativeerror")]) == extensions
    failed = verdict(subscription, Answer(0, b"", "x" * 100_000, 0.0), 1)
    assert len(failed.reason) == 1024
    assert len(base64.b64decode(failed.attributes["knativeerrordata"])) == 1024


@pytest.mark.parametrize("data", [b"hello", None])
def test_an_extension_replaces_an_attribute_also_an_empty_one(data: bytes | None) -> None:
    """Kept promise: no attribute stands twice in a dead letter, which an ingress would refuse."""
    lines, body = binary_lines(Event({**REQUIRED, "note": "", "other": "kept"}, data))
    post = dead_letter_of(Row(7, (0,), lines, body), answer({"kne-note": "late"}))
    names = [line.split(b":")[0].split(b";")[0] for line in post.headers]
    assert names.count(b"ce-note") == 1
    assert (taken(post).attributes["note"], taken(post).attributes["other"]) == ("late", "kept")


def test_what_is_added_reads_as_it_was_said() -> None:
    """Kept promise: values follow the HTTP binding, so that a percent sign or a quote in them changes nothing."""
    said = {"kne-why": 'too late, 50 % or "%FF"', "kne-quoted": '"a"'}
    for format_ in ("binary", "json"):
        found = taken(dead_letter_of(row(4, 0), answer(said), "http://127.0.0.1:1/%FF", format=format_)).attributes
        assert found["knativeerrordest"] == "http://127.0.0.1:1/%FF"
        assert (found["why"], found["quoted"]) == (said["kne-why"], said["kne-quoted"])


def test_an_event_about_an_event_keeps_to_the_bounds_too() -> None:
    """Kept promise: the same where the attributes are in the body, since the data is itself an event."""
    more = {f"n{each}": "v" for each in range(251)}
    inner = Event({**REQUIRED, **more, "datacontenttype": "application/cloudevents+json"}, b'{"a":1}')
    lines, body = binary_lines(inner)
    found = taken(dead_letter_of(Row(7, (0,), lines, body), answer(WORST)))
    assert found.attributes.items() >= inner.attributes.items()
    assert found.attributes["knativeerrorcode"] == "400"


def test_a_reply_with_a_very_long_name_leaves_a_short_reason(sink: MakeSink) -> None:
    """Kept promise: the record of a dead letter cannot become too large because of what a subscriber answered."""
    subscriber, outbox = sink(), KeptOutbox()
    reply = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","%b":1.5}' % (b"a" * 500_000)
    said = SinkAnswer(200, reply, {"content-type": "application/cloudevents+json"})
    subscriber.answer("/a", with_=lambda _: said)
    with running(lane(subscriber.url + "/a", reply_topic="orders"), outbox=outbox) as rows:
        rows.offer(Row(0, (0,), row(4, 0).headers, b"hello"))
    ((_, record),) = outbox.stored
    assert len(record.value or b"") < 10_000


def test_the_record_of_a_dead_letter_is_the_event_and_no_more_than_a_little() -> None:
    """Kept promise: nothing that a subscriber answers makes the record much larger than its event."""
    subscription = Subscription("u", "Trigger", "n", "t", "topic", "g", URL)
    event = row(10, 100)
    _, plain = dead_letter(subscription, "id", event, verdict(subscription, answer({}, b""), 1), "given up", 0.0)
    _, worst = dead_letter(subscription, "id", event, verdict(subscription, answer(WORST), 1), "given up", 0.0)
    assert len(worst) - len(plain) < 10_000
