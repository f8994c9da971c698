"""Every answer of the ingress table: who asks what gets which code."""

import pytest

from penstock.contract.telemetry import RECEIVED
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from tests.receiver.conftest import Address
from tests.receiver.running import EVENT, Receiver, give_address, ids, read_answer, records, take_address
from tests.waiting import until


def test_accepted_means_written(receiver: Receiver, address: Address, kafka: KafkaConnection) -> None:
    """202 means the record is in Kafka, with the event's headers, key, data and trace."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    answer = receiver.send(
        address.path, b'{"a": 1}', ce_id="written", ce_subject="order-7", traceparent=trace, tracestate="x=1"
    )
    assert (answer.status, answer.body) == (202, b"")
    [record] = [each for each in records(kafka, address.topic) if ids([each]) == {"written"}]
    assert record.key() == b"order-7"
    assert record.value() == b'{"a": 1}'
    headers = dict(record.headers())
    assert abs(int(headers.pop(RECEIVED)) / 1e6 - record.timestamp()[1] / 1e3) < 60
    assert headers == {
        "ce_specversion": b"1.0",
        "ce_id": b"written",
        "ce_source": b"/tests",
        "ce_type": b"test.sent",
        "ce_subject": b"order-7",
        "content-type": b"application/json",
        "traceparent": trace.encode(),
        "tracestate": b"x=1",
    }


def test_structured_route(receiver: Receiver, kafka: KafkaConnection) -> None:
    """A route that asks for structured records gets them, and a new address works without a restart."""
    path, topic = give_address(kafka, "structured", content_mode="structured", is_foreign=True)
    until(lambda: receiver.send(path).status == 202, "the new address")
    record = records(kafka, topic)[-1]
    assert dict(record.headers()) == {"content-type": b"application/cloudevents+json"}
    assert b'"test.sent"' in record.value()


def test_structured_request(receiver: Receiver, address: Address, kafka: KafkaConnection) -> None:
    """An event in structured mode becomes a binary record."""
    body = b'{"specversion":"1.0","id":"from-json","source":"/tests","type":"t","data":{"x":[1, 2]}}'
    answer = receiver.ask("POST", address.path, body, {"Content-Type": "application/cloudevents+json"})
    assert answer.status == 202
    [record] = [each for each in records(kafka, address.topic) if ids([each]) == {"from-json"}]
    assert record.value() == b'{"x":[1, 2]}'


def test_batch(receiver: Receiver, address: Address, kafka: KafkaConnection) -> None:
    """All of a batch is accepted when all are written; with one wrong event none is, and its index is named."""
    good = '{"specversion":"1.0","id":"%s","source":"/tests","type":"t"}'
    batched = {"Content-Type": "application/cloudevents-batch+json"}
    body = f"[{good % 'batch-a'},{good % 'batch-b'}]".encode()
    assert receiver.ask("POST", address.path, body, batched).status == 202
    body = f'[{good % "batch-c"},{{"specversion":"1.0"}}]'.encode()
    answer = receiver.ask("POST", address.path, body, batched)
    assert answer.status == 400
    assert answer.error.startswith("event 1 of the batch")
    assert receiver.ask("POST", address.path, b"[]", batched).status == 202
    found = ids(records(kafka, address.topic))
    assert {"batch-a", "batch-b"} <= found
    assert "batch-c" not in found


def test_largest_event(receiver: Receiver, address: Address, kafka: KafkaConnection) -> None:
    """A body of just the limit, with large attributes beside it, is accepted and stored whole."""
    body = b"z" * 1024 * 1024
    assert receiver.send(address.path, body, ce_id="largest", ce_long="y" * 50_000).status == 202
    assert [r.value() for r in records(kafka, address.topic) if ids([r]) == {"largest"}] == [body]


def test_one_trailing_slash(receiver: Receiver, address: Address) -> None:
    """One slash at the end of an address is ignored, two are not."""
    assert receiver.send(address.path + "/").status == 202
    assert receiver.send(address.path + "//").status == 404
    assert receiver.send(address.path + "?x=y").status == 202


def test_unknown_address(receiver: Receiver) -> None:
    """404 says which address is not known, also to a probe."""
    answer = receiver.send("/tests/nobody")
    assert answer.status == 404
    assert "/tests/nobody" in answer.error
    assert receiver.ask("GET", "/tests/nobody", headers={"K-Network-Probe": "probe"}).status == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_other_methods(receiver: Receiver, address: Address, method: str) -> None:
    """405 says what is allowed."""
    answer = receiver.ask(method, address.path)
    assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")
    assert answer.error


def test_options(receiver: Receiver, address: Address) -> None:
    """OPTIONS tells what is allowed and completes a webhook's handshake."""
    plain = receiver.ask("OPTIONS", address.path)
    assert (plain.status, plain.headers["allow"]) == (200, "POST, OPTIONS")
    assert "webhook-allowed-origin" not in plain.headers
    handshake = receiver.ask("OPTIONS", address.path, headers={"WebHook-Request-Origin": "example.com"})
    assert handshake.headers["webhook-allowed-origin"] == "example.com"


def test_probes(receiver: Receiver, address: Address) -> None:
    """A probe of a known address answers 200 and gives its hash back; health needs no address."""
    probe = receiver.ask("GET", address.path, headers={"K-Network-Probe": "probe", "K-Network-Hash": "abc"})
    assert (probe.status, probe.headers["k-network-hash"]) == (200, "abc")
    assert receiver.ask("GET", "/healthz").status == 200
    assert receiver.ask("POST", "/healthz").status == 405


def test_answers_in_order(receiver: Receiver, address: Address) -> None:
    """Requests sent one behind the other on one connection are answered in their order."""
    head = "".join(f"{name}: {value}\r\n" for name, value in EVENT.items())
    good = f"POST {address.path} HTTP/1.1\r\nHost: h\r\n{head}Content-Length: 0\r\n\r\n".encode()
    unknown = b"POST /nobody HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"
    with receiver.connect() as connection:
        connection.sendall((good + unknown) * 100)
        assert [read_answer(connection).status for _ in range(200)] == [202, 404] * 100


def test_expect_continue(receiver: Receiver, address: Address) -> None:
    """A sender that asks first is told to go on, or is refused before it sends its body."""
    head = "".join(f"{name}: {value}\r\n" for name, value in EVENT.items())
    asking = f"{head}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n".encode()
    with receiver.connect() as connection:
        connection.sendall(f"POST {address.path} HTTP/1.1\r\nHost: h\r\n".encode() + asking)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert read_answer(connection).status == 202
    assert receiver.raw(b"POST /nobody HTTP/1.1\r\nHost: h\r\n" + asking).status == 404


def test_address_removed(receiver: Receiver, kafka: KafkaConnection) -> None:
    """When a resource goes, its address is unknown again; a topic that goes first gets 503, and nothing crashes."""
    path, topic = give_address(kafka, "passing")
    until(lambda: receiver.send(path).status == 202, "the new address")
    topics.delete(kafka.admin(), [topic])
    refused = until(lambda: answer if (answer := receiver.send(path)).status != 202 else None, "the refusal")
    assert (refused.status, "retry-after" in refused.headers) == (503, True)
    take_address(kafka, "passing")
    until(lambda: receiver.send(path).status == 404, "the end of the address")
