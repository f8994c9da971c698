"""Limits that an operator sets, and what happens to the request or the connection that is beyond them."""

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.kafka.connection import KafkaConnection
from tests.attacks.admin_port import JSON, AdminPort, admin_port
from tests.attacks.reconciling import Reconciling, fields, reconciling
from tests.control.objects import broker, channel, config_map, sink, trigger
from tests.receiver.running import EVENT, Answer, Receiver, give_address, read_answer, running
from tests.waiting import until

PATH = "/tests/limits"
MOST_RESOURCES, MOST_PARTITIONS = 60, 8
PATIENCE_SECONDS = 90.0  # for an answer that comes after a timeout of the receiver


@pytest.fixture(scope="module")
def controller(kafka: KafkaConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reconciling]:
    environment = {
        "PENSTOCK_MOST_RESOURCES": str(MOST_RESOURCES),
        "PENSTOCK_MOST_PARTITIONS": str(MOST_PARTITIONS),
        "PENSTOCK_DEFAULT_PARTITIONS": "1",
    }
    with reconciling(kafka, tmp_path_factory.mktemp("limits"), environment) as made:
        yield made


# -- resources


def in_namespace(number: int) -> dict[str, Any]:
    resource = config_map("limited", a="b")
    resource["metadata"]["namespace"] = f"limited-{number}"
    return resource


def test_all_namespaces_together_hold_so_many_resources_and_no_more(controller: Reconciling) -> None:
    """Kept promise: most_resources counts in all namespaces; a change is no further resource, and room comes back."""
    with contextlib.ExitStack() as stack:
        number = 0
        while (answer := controller.post(in_namespace(number))).status == 201:
            stack.enter_context(controller.applied(in_namespace(number)))
            number += 1
            assert number <= MOST_RESOURCES
        assert number > 0
        assert answer.status == 403
        assert "most_resources" in answer.error["hint"]
        assert "most_resources_in_namespace" not in answer.error["hint"]
        changed = in_namespace(0)
        changed["data"] = {"a": "changed"}
        assert controller.post(changed).status == 200
    controller.wait_for_the_end()
    with controller.applied(in_namespace(number)):
        pass


@pytest.mark.parametrize(
    "wide",
    [
        channel("limited-channel", numPartitions=MOST_PARTITIONS + 1),
        sink("limited-sink", topic="limited", numPartitions=MOST_PARTITIONS + 1),
    ],
)
def test_a_topic_has_as_many_partitions_as_the_setting_allows(controller: Reconciling, wide: dict[str, Any]) -> None:
    """Kept promise: most_partitions itself is accepted as a number of partitions, and one more is refused."""
    answer = controller.post(wide)
    assert (answer.status, fields(answer)) == (422, ["spec.numPartitions"])
    assert f"at most {MOST_PARTITIONS}" in answer.error["problems"][0]["message"]
    wide["spec"]["numPartitions"] = MOST_PARTITIONS
    with controller.applied(wide):
        pass


def test_a_config_map_has_the_same_limit(controller: Reconciling) -> None:
    """Kept promise: a broker's ConfigMap cannot ask for more than the setting allows either."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "too-wide"}
    asked = broker("too-wide", config=reference)
    settings = config_map("too-wide", default_topic_partitions=str(MOST_PARTITIONS + 1))
    with controller.applied(settings, asked):
        refused = controller.condition(asked, "ConfigParsed", "False")
        assert (refused["reason"], f"at most {MOST_PARTITIONS}" in refused["message"]) == ("ConfigInvalid", True)


# -- depth

DEPTHS = (65, 99, 101, 5_000, 100_000)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def with_deep(resource: dict[str, Any], place: str, depth: int) -> bytes:
    """The resource as JSON, with nested lists where it says "deep"."""
    deep = {"annotations": {"note": "deep"}} if place == "metadata" else {"x": "deep"}
    resource[place] = {**resource[place], **deep}
    return json.dumps(resource).replace('"deep"', nested(depth)).encode()


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("place", "field"), [("metadata", "metadata.annotations.note"), ("spec", "spec.x")], ids=["annotation", "spec"]
)
@pytest.mark.parametrize("kind", ["brokers", "triggers"])
def test_deep_json_in_a_resource_is_400_and_says_why(
    controller: Reconciling, kind: str, place: str, field: str, depth: int
) -> None:
    """Kept promise: whatever the depth, the answer names the field or the depth that is allowed, and nothing is
    stored."""
    resource = {"brokers": broker, "triggers": trigger}[kind]("too-deep")
    path = f"/apis/eventing.knative.dev/v1/namespaces/default/{kind}"
    body = with_deep(resource, place, depth)
    for method, where in (("POST", path), ("PUT", f"{path}/too-deep")):
        answer = controller.admin.ask(method, where, JSON, body)
        assert answer.status == 400, answer
        assert "nested more than" in answer.body.decode()
        assert all(each.startswith(field) for each in fields(answer))
    assert controller.get(resource) is None


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_reason_of_a_pause_is_400_and_says_why(controller: Reconciling, depth: int) -> None:
    """Kept promise: the same for the bodies of pause, resume and reset."""
    for verb, field in (("pause", "reason"), ("pause", "until"), ("resume", "x"), ("reset", "to")):
        body = f'{{"{field}": {nested(depth)}}}'.encode()
        answer = controller.admin.ask("POST", f"/api/penstock/triggers/default/too-deep/{verb}", JSON, body)
        assert (answer.status, b"nested more than" in answer.body) == (400, True), (verb, answer)
        assert all(each.startswith(field) for each in fields(answer))


# -- incomplete requests

HEAD = "\r\n".join((f"POST {PATH} HTTP/1.1", "Host: here", *(f"{name}: {value}" for name, value in EVENT.items())))
HALF = HEAD.encode() + b"\r\nX: " + b"y" * 30_000


def answered(connection: socket.socket) -> Answer | None:
    """None: nothing has come yet."""
    connection.setblocking(False)
    try:
        if not connection.recv(1, socket.MSG_PEEK):
            return Answer(0, {}, b"")
    except BlockingIOError:
        return None
    finally:
        connection.settimeout(PATIENCE_SECONDS)
    return read_answer(connection)


def test_of_half_heads_the_oldest_one_gives_way(kafka: KafkaConnection) -> None:
    """Kept promise: beyond unfinished_bytes the oldest half head gets 503; the youngest can be completed."""
    give_address(kafka, "limits")
    with running(kafka, unfinished_bytes=200_000) as receiver, contextlib.ExitStack() as stack:
        until(lambda: receiver.send(PATH).status == 202, "the address")
        first, *others = [half_head(receiver, stack) for _ in range(5)]
        assert answered(first) is None
        while (gone := answered(first)) is None:
            others.append(half_head(receiver, stack))
            assert len(others) < 20
        assert (gone.status, gone.headers["retry-after"]) == (503, "1")
        youngest = others[-1]
        assert answered(youngest) is None
        youngest.sendall(b"\r\nContent-Length: 2\r\n\r\n{}")
        assert read_answer(youngest).status == 202
        assert [each for each in others[-4:-1] if answered(each)] == []


def half_head(receiver: Receiver, stack: contextlib.ExitStack) -> socket.socket:
    """An open connection with a part of a head, which the receiver has read."""
    connection = stack.enter_context(receiver.connect())
    connection.sendall(HALF)
    assert receiver.send(PATH).status == 202  # it reads one connection after the other
    return connection


def test_a_half_head_gets_408_after_the_time_that_is_set(kafka: KafkaConnection) -> None:
    """Kept promise: an incomplete head ends after read_timeout_seconds at the ingress."""
    give_address(kafka, "limits")
    with running(kafka, read_timeout_seconds=1) as receiver, receiver.connect() as connection:
        connection.settimeout(PATIENCE_SECONDS)
        connection.sendall(HALF)
        assert read_answer(connection).status == 408
        assert connection.recv(1) == b""


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminPort]:
    """It needs no Kafka for this."""
    with admin_port(Path(tmp_path_factory.mktemp("half"))) as made:
        yield made


def test_the_admin_port_ends_a_half_head_after_its_time(admin: AdminPort) -> None:
    """Kept promise: an incomplete head ends with 408 and the end of the connection also at the admin port."""
    with contextlib.ExitStack() as stack:
        opened = []
        for half in (b"G", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "):
            there = socket.create_connection(("127.0.0.1", admin.port), PATIENCE_SECONDS)
            opened.append(stack.enter_context(there))
            there.sendall(half)
        for each in opened:
            assert read_answer(each).status == 408
            assert each.recv(1) == b""
    assert admin.ask("GET", "/healthz").status == 200
