"""Doubled headers at the ingress: none of them decides what is stored. Attributes have a longest size and a largest
number."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from penstock.contract.telemetry import RECEIVED
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.receiver.heads import STAND_ONCE
from tests.receiver.running import EVENT, PARTITIONS, Answer, Receiver, count, give_address, records, running
from tests.waiting import until

NAME = "headers"
PATH, TOPIC = f"/tests/{NAME}", f"receiver-{NAME}"
DATA = b'{"amount": 17}'
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
VALUES = {
    "host": "here",
    "content-length": str(len(DATA)),
    "content-type": "application/json",
    "content-encoding": "identity",
    "transfer-encoding": "chunked",
    "traceparent": TRACE,
    "expect": "100-continue",
    "te": "trailers",
}
DECIDE = (
    *sorted(name.decode() for name in STAND_ONCE),
    *EVENT,
    "ce-time",
    "ce-subject",
    "ce-dataschema",
    "ce-partitionkey",
    "ce-note",
    "ce-knativearrivaltime",
    "ce-traceparent",
    "CE-Note",
    "Content-Type",
)
HARMLESS = (
    "accept",
    "accept-encoding",
    "baggage",
    "b3",
    "cache-control",
    "connection",
    "cookie",
    "forwarded",
    "ce",
    "kafka-ce_id",
    "penstock-received",
    "prefer",
    "via",
    "x-forwarded-for",
    "x-request-id",
)


@pytest.fixture(scope="module")
def receiver(kafka: KafkaConnection) -> Iterator[Receiver]:
    give_address(kafka, NAME)
    with running(kafka) as one:
        yield one


def head(*lines: str, id_: str = "1") -> bytes:
    given = ["Host: here", *(f"{name}: {value}" for name, value in {**EVENT, "ce-id": id_}.items())]
    given += ["Content-Type: application/json", f"Content-Length: {len(DATA)}"]
    doubled = {line.partition(":")[0].lower() for line in lines}
    others = [line for line in given if line.partition(":")[0].lower() not in doubled]
    return "\r\n".join((f"POST {PATH} HTTP/1.1", *others, *lines)).encode() + b"\r\n\r\n"


@pytest.mark.parametrize("name", dict.fromkeys(DECIDE))
@pytest.mark.parametrize("same", [True, False], ids=["the same twice", "two values"])
def test_a_doubled_header_that_decides_what_is_stored_is_400(
    receiver: Receiver, kafka: KafkaConnection, name: str, same: bool
) -> None:
    """Neither the first nor the last one wins: the event is refused, and nothing is stored."""
    before = count(kafka, TOPIC)
    first = VALUES.get(name.lower(), EVENT.get(name, "first"))
    answer = receiver.raw(head(f"{name}: {first}", f"{name}: {first if same else first + 'x'}") + DATA)
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert count(kafka, TOPIC) == before


@pytest.mark.parametrize("name", HARMLESS)
def test_a_doubled_header_that_is_taken_changes_nothing_of_the_event(
    receiver: Receiver, kafka: KafkaConnection, name: str
) -> None:
    """What may be there twice is a list, or is not read: the record is the one of an event without it."""
    value = "keep-alive" if name == "connection" else "first"
    lines = (f"{name}: {value}", f"{name}: {value}x")
    assert receiver.raw(head(id_=f"{name}-plain") + DATA).status == 202
    assert receiver.raw(head(*lines, id_=f"{name}-doubled") + DATA).status == 202
    assert stored(kafka, f"{name}-doubled") == stored(kafka, f"{name}-plain")


def test_lines_of_tracestate_are_joined(receiver: Receiver, kafka: KafkaConnection) -> None:
    """It is a list, of which each proxy may add a line: all of it is stored, in order."""
    lines = (f"traceparent: {TRACE}", "tracestate: a=1", "tracestate: b=2")
    assert receiver.raw(head(*lines, id_="tracestate") + DATA).status == 202
    headers = [dict(each.headers()) for each in records(kafka, TOPIC)]
    assert [each["tracestate"] for each in headers if each["ce_id"] == b"tracestate"] == [b"a=1,b=2"]


def stored(kafka: KafkaConnection, id_: str) -> tuple[Any, ...]:
    """The only record of that event, without its id and the time at which it came."""
    [found] = [each for each in records(kafka, TOPIC) if dict(each.headers())["ce_id"] == id_.encode()]
    headers = sorted(each for each in found.headers() if each[0] not in ("ce_id", RECEIVED))
    return found.key(), found.value(), headers


# -- the longest attribute


def sent(receiver: Receiver, mode: str, note: str, path: str = PATH) -> Answer:
    if mode == "binary":
        return receiver.send(path, DATA, ce_note=note)
    body = f'{{"specversion":"1.0","id":"1","source":"/s","type":"t","note":"{note}","data":"{"d" * 1000}"}}'
    if mode == "batched":
        headers = {"Content-Type": "application/cloudevents-batch+json"}
        return receiver.ask("POST", path, f"[{body}]".encode(), headers)
    return receiver.ask("POST", path, body.encode(), {"Content-Type": "application/cloudevents+json"})


@pytest.mark.parametrize("limit", [64 * 1024, 300])
def test_an_attribute_is_as_long_as_the_setting_allows_and_no_longer(kafka: KafkaConnection, limit: int) -> None:
    """As many bytes as attribute_limit_bytes are taken in every mode; for one more the answer names the attribute."""
    give_address(kafka, NAME)
    settings = {} if limit == 64 * 1024 else {"attribute_limit_bytes": limit}
    with running(kafka, head_limit_bytes=300_000, **settings) as receiver:
        for mode in ("binary", "structured", "batched"):
            for fits, longer in (("n" * limit, "n" * (limit + 1)), ("é" * (limit // 2), "é" * (limit // 2) + "n")):
                before = count(kafka, TOPIC)
                assert sent(receiver, mode, fits).status == 202, mode
                assert count(kafka, TOPIC) == before + 1
                refused = sent(receiver, mode, longer)
                assert (refused.status, "'note'" in refused.error) == (400, True), mode
                assert count(kafka, TOPIC) == before + 1


# -- the largest number of attributes

OWN = ("knativekafkapartition", "knativekafkaoffset", "knativebrokerttl", "knativeerrordest", "knativeerrordata")


def sent_with(receiver: Receiver, mode: str, number: int, *more: str) -> Answer:
    """An event with so many attributes, the four required ones and the content type among them."""
    names = [*(f"n{each}" for each in range(number - 5)), *more]
    if mode == "binary":
        return receiver.send(PATH, DATA, **{f"ce_{name}": "1" for name in names})
    given = {name.removeprefix("ce-"): value for name, value in EVENT.items()} | dict.fromkeys(names, "1")
    body = msgspec.json.encode({**given, "datacontenttype": "application/json", "data": {"a": 1}})
    if mode == "batched":
        headers = {"Content-Type": "application/cloudevents-batch+json"}
        plain = msgspec.json.encode({name.removeprefix("ce-"): value for name, value in EVENT.items()})
        return receiver.ask("POST", PATH, b"[" + plain + b"," + body + b"]", headers)
    return receiver.ask("POST", PATH, body, {"Content-Type": "application/cloudevents+json"})


@pytest.mark.parametrize("limit", [256, 20])
def test_an_event_has_as_many_attributes_as_are_allowed_and_no_more(kafka: KafkaConnection, limit: int) -> None:
    """As many as attribute_limit are taken in every mode, those that Penstock adds not counted. One more is 400, and
    nothing is stored: the answer has the number, the limit and the setting, and in a batch the place of the event."""
    give_address(kafka, NAME)
    settings = {} if limit == 256 else {"attribute_limit": limit}
    with running(kafka, header_limit=1_000, **settings) as receiver:
        until(lambda: receiver.send(PATH).status == 202, "the address")
        for mode in ("binary", "structured", "batched"):
            assert sent_with(receiver, mode, limit).status == 202, mode
            assert sent_with(receiver, mode, limit, *OWN).status == 202, mode
            before = count(kafka, TOPIC)
            for refused in (sent_with(receiver, mode, limit + 1), sent_with(receiver, mode, limit, "knativeother")):
                assert refused.status == 400, mode
                assert f"the event has {limit + 1} attributes; at most {limit} are taken" in refused.error.replace(
                    ",", ""
                )
                assert "PENSTOCK_ATTRIBUTE_LIMIT" in refused.error
                assert ("event 1 of the batch" in refused.error) == (mode == "batched")
            assert count(kafka, TOPIC) == before


# -- a topic that is made anew


def test_the_first_event_of_a_topic_made_anew_with_fewer_partitions_is_stored(kafka: KafkaConnection) -> None:
    """A topic is deleted and made anew with one partition: the first event afterwards gets 202 and is stored."""
    path, topic = give_address(kafka, "anew")
    admin = kafka.admin()
    with running(kafka) as receiver:
        until(lambda: receiver.send(path, DATA).status == 202, "the address")
        for number in range(20):  # over all partitions
            assert receiver.send(path, DATA, ce_id=f"old-{number}", ce_partitionkey=str(number)).status == 202
        assert all(topics.latest_offsets(admin, topic, PARTITIONS).values())
        topics.delete(admin, [topic])
        until(lambda: not topics.describe(admin, [topic]), "the topic is gone")
        topics.create_missing(admin, [topics.TopicSpec(topic, 1)])
        for number in range(20):
            answer = receiver.send(path, DATA, ce_id=f"new-{number}", ce_partitionkey=str(number))
            assert answer.status == 202, (number, answer)
            assert sum(topics.latest_offsets(admin, topic, 1).values()) == number + 1
