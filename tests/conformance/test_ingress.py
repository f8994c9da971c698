"""What a sender is told: which events are taken, which are not, and that what was taken is handed on as it was."""

import base64
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from tests.conformance.sending import ask, attributes_of, binary, ids
from tests.conformance.stage import Stage

STRUCTURED = {"content-type": "application/cloudevents+json"}
BATCHED = {"content-type": "application/cloudevents-batch+json"}
TOO_LARGE = 32 * 1024 * 1024


@dataclass(frozen=True)
class Valid:
    """An event as it is sent, and as it has to arrive."""

    headers: dict[str, str]
    body: bytes
    attributes: dict[str, str]
    data: bytes


def in_binary(name: str, data: bytes = b"", content_type: str = "", **attributes: str) -> Valid:
    headers = binary(name, **attributes) | ({"content-type": content_type} if content_type else {})
    expected = {"specversion": "1.0", "id": name, "source": "/conformance", "type": "test"} | attributes
    return Valid(headers, data, expected | ({"datacontenttype": content_type} if content_type else {}), data)


def in_json(name: str, expected_data: bytes, written: str = "", **expected: str) -> Valid:
    """``written`` stands in the JSON object behind the required attributes."""
    required = {"specversion": "1.0", "id": name, "source": "/conformance", "type": "test"}
    text = json.dumps(required)[:-1] + (f", {written}" if written else "") + "}"
    return Valid(STRUCTURED, text.encode(), required | expected, expected_data)


VALID = {
    "no-data": in_binary("no-data"),
    "json": in_binary("json", b'{"a": [1, 2.50, "\\u00e4"] }', "application/json"),
    "json-with-charset": in_binary("json-with-charset", b'"x"', "application/json; charset=utf-8"),
    "text": in_binary("text", "Grüße".encode(), "text/plain; charset=utf-8"),
    "xml": in_binary("xml", b"<a> <b/></a>", "application/xml"),
    "octets": in_binary("octets", bytes(range(256)), "application/octet-stream"),
    "no-content-type": in_binary("no-content-type", b"who knows"),
    "not-what-it-says": in_binary("not-what-it-says", b"{no json", "application/json"),
    "64-kilobytes": in_binary("64-kilobytes", b"x" * 65_000, "text/plain"),
    "all-attributes": in_binary(
        "all-attributes",
        b"{}",
        "application/json",
        subject="order/7",
        dataschema="https://schemas.example.com/order",
        time="2026-02-28T23:59:59.123456789+05:30",
    ),
    "absolute-source": in_binary("absolute-source", source="https://example.com/a?b=c#d"),
    "urn-source": in_binary("urn-source", source="urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"),
    "extensions": in_binary("extensions", myextension="value", n1="5", flag="true", partitionkey="a"),
    "long-name": in_binary("long-name", averylongnameofanextensionattribute="value"),
    "beyond-ascii": in_binary("beyond-ascii", subject="Grüße aus 東京 😀", city="é"),
    "quotes-and-percent": in_binary("quotes-and-percent", subject='100 % "sure" \\ maybe'),
    "spaces-inside": in_binary("spaces-inside", subject="a  b"),
    "structured-json": in_json(
        "structured-json", b'{"x":[1,null]}', '"datacontenttype":"application/json","data":{"x":[1,null]}',
        datacontenttype="application/json",
    ),
    "structured-string": in_json(
        "structured-string", b'"text"', '"datacontenttype":"application/json","data":"text"',
        datacontenttype="application/json",
    ),
    "structured-text": in_json(
        "structured-text", b"<a/>", '"datacontenttype":"text/xml","data":"<a/>"', datacontenttype="text/xml"
    ),
    "structured-octets": in_json(
        "structured-octets", b"\x00\xff", f'"data_base64":"{base64.b64encode(bytes([0, 255])).decode()}"'
    ),
    "structured-no-data": in_json("structured-no-data", b"", '"subject":"s"', subject="s"),
    "structured-extensions": in_json(
        "structured-extensions", b"", '"n":-5,"flag":true,"text":"ä","none":null', n="-5", flag="true", text="ä"
    ),
    "structured-escapes": in_json("structured-escapes", b"", '"subject":"\\u00e4\\ud83d\\ude00"', subject="ä😀"),
    "version-0.3": Valid(
        {"ce-specversion": "0.3", "ce-id": "version-0.3", "ce-source": "/conformance", "ce-type": "test"},
        b"old",
        {"id": "version-0.3", "source": "/conformance", "type": "test"},
        b"old",
    ),
    "structured-0.3": Valid(
        STRUCTURED,
        b'{"specversion":"0.3","id":"structured-0.3","source":"/conformance","type":"test",'
        b'"datacontentencoding":"base64","datacontenttype":"text/plain","data":"b2xk"}',
        {"id": "structured-0.3", "source": "/conformance", "type": "test", "datacontenttype": "text/plain"},
        b"old",
    ),
}  # fmt: skip

GOOD = '{"specversion":"1.0","id":"%s","source":"/conformance","type":"test"}'


def without(name: str) -> dict[str, str]:
    return {header: value for header, value in binary("x").items() if header != f"ce-{name}"}


INVALID: dict[str, tuple[dict[str, str], bytes]] = {
    "nothing": ({}, b""),
    "plain-json": ({"content-type": "application/json"}, b'{"a": 1}'),
    "no-specversion": (without("specversion"), b""),
    "no-id": (without("id"), b""),
    "no-source": (without("source"), b""),
    "no-type": (without("type"), b""),
    "empty-id": (binary(""), b""),
    "empty-source": (binary("x", source=""), b""),
    "empty-type": (binary("x", ""), b""),
    "unknown-version": (binary("x", specversion="9.9"), b""),
    "wrong-time": (binary("x", time="yesterday"), b""),
    "wrong-name": (binary("x", my_name="x"), b""),
    "broken-json": (STRUCTURED, b'{"specversion":"1.0",'),
    "no-object": (STRUCTURED, b"[1]"),
    "empty-envelope": (STRUCTURED, b""),
    "json-without-id": (STRUCTURED, b'{"specversion":"1.0","source":"/s","type":"t"}'),
    "json-number-as-id": (STRUCTURED, b'{"specversion":"1.0","id":1,"source":"/s","type":"t"}'),
    "json-upper-case-name": (STRUCTURED, (GOOD % "x").encode()[:-1] + b',"MyName":"x"}'),
    "json-object-as-extension": (STRUCTURED, (GOOD % "x").encode()[:-1] + b',"ext":{"a":1}}'),
    "json-data-twice": (STRUCTURED, (GOOD % "x").encode()[:-1] + b',"data":1,"data_base64":"MQ=="}'),
    "json-wrong-base64": (STRUCTURED, (GOOD % "x").encode()[:-1] + b',"data_base64":"%%%"}'),
}


@pytest.fixture(scope="module")
def url(stage: Stage) -> str:
    """A broker with one trigger that wants everything, at the path /taken."""
    address = stage.broker("ingress")
    stage.trigger("taken", "ingress")
    stage.until_ready("Trigger", "taken")
    return address


@pytest.fixture(scope="module")
def statuses(url: str) -> dict[str, int]:
    """All valid events are sent at once: what the sender of each was told."""
    return {name: ask("POST", url, each.body, each.headers).status for name, each in VALID.items()}


@pytest.mark.parametrize("name", VALID)
def test_valid_event_is_accepted(statuses: dict[str, int], name: str) -> None:
    """A ready broker accepts every valid event, with 202."""
    assert statuses[name] == 202


@pytest.mark.parametrize("name", VALID)
def test_event_arrives_as_it_was_sent(stage: Stage, statuses: dict[str, int], name: str) -> None:
    """Data and attributes are not modified on the way; attributes may be added."""
    assert statuses[name] == 202
    request = stage.came("/taken", name)
    found = attributes_of(request)
    assert {each: found.get(each) for each in VALID[name].attributes} == VALID[name].attributes
    assert request.body == VALID[name].data


@pytest.mark.parametrize("name", INVALID)
def test_invalid_event_is_refused(url: str, name: str) -> None:
    """What is not a valid event is answered with 400 and the reason, so that nobody tries it again."""
    headers, body = INVALID[name]
    answer = ask("POST", url, body, headers)
    assert answer.status == 400
    assert answer.body


def test_batch_is_accepted(stage: Stage, url: str) -> None:
    """A batch in JSON is so many events."""
    body = f"[{GOOD % 'batch-1'},{GOOD % 'batch-2'}]".encode()
    assert ask("POST", url, body, BATCHED).status == 202
    stage.came("/taken", "batch-1")
    stage.came("/taken", "batch-2")


def test_batch_with_an_invalid_event_is_refused_whole(stage: Stage, url: str) -> None:
    """All of a batch is accepted or none of it, and the answer says which event was wrong."""
    body = f'[{GOOD % "batch-3"},{{"specversion":"1.0"}}]'.encode()
    answer = ask("POST", url, body, BATCHED)
    assert answer.status == 400
    assert b"1" in answer.body, "the index of the event"
    assert ask("POST", url, (GOOD % "after the batch").encode(), STRUCTURED).status == 202
    stage.came("/taken", "after the batch")
    assert "batch-3" not in ids(stage.subscriber.at("/taken"))


def test_unknown_address(url: str) -> None:
    """Nobody has this address: 404."""
    assert ask("POST", f"{url}-unknown", b"", binary("x")).status == 404


def test_trailing_slash(url: str) -> None:
    """One slash at the end of an address is ignored."""
    assert ask("POST", f"{url}/", b"", binary("slash")).status == 202


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_other_methods(url: str, method: str) -> None:
    """Events come with POST; anything else is answered with 405, which says what is allowed."""
    answer = ask(method, url, b"", binary("x"))
    assert answer.status == 405
    assert "POST" in answer.headers["allow"]


def test_options(url: str) -> None:
    """Who asks with OPTIONS is told that POST is supported."""
    answer = ask("OPTIONS", url)
    assert 200 <= answer.status < 300
    assert "POST" in answer.headers["allow"]


def test_too_large(url: str) -> None:
    """An event larger than the system takes is refused with 413, not with a status that makes senders try again."""
    assert ask("POST", url, b"x" * TOO_LARGE, binary("large") | {"content-type": "text/plain"}).status == 413


def test_network_probe(url: str) -> None:
    """A probe of the mesh is answered by the address itself, with the hash that it brought."""
    answer = ask("GET", url, headers={"K-Network-Probe": "probe", "K-Network-Hash": "a-hash"})
    assert (answer.status, answer.headers.get("k-network-hash")) == (200, "a-hash")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health(url: str, path: str) -> None:
    """An orchestrator can ask the ingress whether it lives and whether it is ready."""
    parts = urlsplit(url)
    assert ask("GET", f"{parts.scheme}://{parts.netloc}{path}").status == 200
