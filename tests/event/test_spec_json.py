"""The rules of the JSON format, one row each."""

import base64
import json
from typing import Any

import pytest

from penstock.errors import Rejected
from penstock.event import http
from penstock.event.json_form import decode_batch, decode_event, encode_event
from penstock.event.model import Event
from tests.event.events import MINIMAL


def text_of(members: str = "", **attributes: Any) -> bytes:
    """An event as JSON, with further members as they are to be written."""
    return (json.dumps(MINIMAL | attributes)[:-1] + (", " + members if members else "") + "}").encode()


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"v"', "v"),
        ('""', ""),
        ("true", "true"),
        ("false", "false"),
        ("0", "0"),
        ("5", "5"),
        ("2147483647", "2147483647"),
        ("-2147483648", "-2147483648"),
        ('"2147483648"', "2147483648"),
        ('"\\u20ac \\ud83d\\ude00"', "€ 😀"),
        ('"\\ud800\\udead"', "\U000102ad"),  # the spec's example of a proper pair
        ("null", None),
    ],
)
def test_extension_values(written: str, value: str | None) -> None:
    """Values become their canonical text; null is the same as leaving the attribute out."""
    assert decode_event(text_of(f'"x": {written}')).attributes.get("x") == value


@pytest.mark.parametrize(
    "written",
    [
        "2147483648",
        "-2147483649",
        "9" * 5000,
        "1.5",
        "1.0",
        "1e3",
        "{}",
        '{"a": {"b": 1}}',
        "[]",
        '["a"]',
        '"\\udead"',  # the spec's example of a lone surrogate
        '"\\ud800a"',
        '"\\u0000"',
        '"\\n"',
        '"\\u007f"',
        '"\\ufffe"',
    ],
)
def test_extension_values_refused(written: str) -> None:
    """Numbers that are not whole or beyond 32 bits, objects, arrays and forbidden characters are refused."""
    with pytest.raises(Rejected):
        decode_event(text_of(f'"x": {written}'))


@pytest.mark.parametrize("name", ["", "A", "a-b", "a_b", "data_base65", "é", "DATA"])
def test_names_refused(name: str) -> None:
    """Only lower-case letters and digits make a name, data and data_base64 apart."""
    with pytest.raises(Rejected, match="attribute name"):
        decode_event(text_of(**{name: "v"}))


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
@pytest.mark.parametrize("value", [None, "", 1, True, 1.0, {}, []])
def test_required_attributes(name: str, value: Any) -> None:
    """A required attribute is a string that is not empty; no number is turned into one."""
    with pytest.raises(Rejected, match=name):
        decode_event(text_of(**{name: value}))


@pytest.mark.parametrize("name", ["subject", "time", "dataschema", "datacontenttype"])
def test_optional_attributes(name: str) -> None:
    """An optional attribute may be null, and must be a good string otherwise."""
    assert decode_event(text_of(f'"{name}": null')) == Event(MINIMAL)
    for bad in ('""', "1", "false", "{}"):
        with pytest.raises(Rejected, match=name):
            decode_event(text_of(f'"{name}": {bad}'))


@pytest.mark.parametrize(
    "written",
    [
        "{}",
        '{ "a" :\n1.0 ,"a":2e+5}',
        "[1,\t2 ]",
        '"text"',
        '"\\u0061\\/"',
        '"{\\"a\\": 1}"',
        "null",
        "true",
        "-0",
        "1e400",
        "123456789012345678901234567890",
        '"ü"',
    ],
)
@pytest.mark.parametrize("content_type", [None, "application/json", "text/json", "A/B+JSON; charset=utf-8"])
def test_json_data(written: str, content_type: str | None) -> None:
    """JSON data keeps the bytes it was written with, null included; without a type it is application/json."""
    event = decode_event(text_of(f'"data": \n{written} ', datacontenttype=content_type))
    assert event.data == written.encode()
    assert event.content_type == (content_type or "application/json")
    assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize(
    ("content_type", "written", "data"),
    [
        ("application/xml", '"<much wow=\\"xml\\"/>"', b'<much wow="xml"/>'),
        ("text/plain", '"ü \\u20ac"', "ü €".encode()),
        ("text/plain; charset=iso-8859-1", '"ü"', b"\xfc"),
        ('text/plain; charset="UTF-16LE"', '"ü"', b"\xfc\x00"),
        ("text/plain", '""', b""),
        ("text/plain", "null", None),
        ("text/plain", '{"a": 1}', b'{"a": 1}'),
        ("application/jsonx", '"a"', b"a"),
    ],
)
def test_other_data(content_type: str, written: str, data: bytes | None) -> None:
    """Data of other types is the text of the member, in the charset of its type."""
    assert decode_event(text_of(f'"data": {written}', datacontenttype=content_type)).data == data


@pytest.mark.parametrize("charset", ["iso-8859-1", "idna", "rot13", "windows-9999", "nonsense", "us-ascii"])
def test_charsets_refused(charset: str) -> None:
    """Text that its charset cannot hold, or a charset we do not know, is refused with the way out."""
    with pytest.raises(Rejected, match="charset") as refused:
        decode_event(text_of('"data": "€"', datacontenttype=f"text/plain; charset={charset}"))
    assert "data_base64" in str(refused.value.hint)


@pytest.mark.parametrize("content_type", [None, "application/json", "image/png"])
@pytest.mark.parametrize("data", [b"", b"\x00\xff", b'{"a": 1}'])
def test_data_base64(content_type: str | None, data: bytes) -> None:
    """Data in base64 is bytes, and no type is assumed for it."""
    event = decode_event(text_of(data_base64=base64.b64encode(data).decode(), datacontenttype=content_type))
    assert event.data == data
    assert event.content_type == content_type


@pytest.mark.parametrize("written", ["1", "{}", "true", '"a"', '"a==="', '"AA=A"', '"AA AA"', '"-_-_"', '"ü"'])
def test_data_base64_refused(written: str) -> None:
    """What is not base64 is refused."""
    with pytest.raises(Rejected, match="base64"):
        decode_event(text_of(f'"data_base64": {written}'))


def test_both_data_members() -> None:
    """Both data members are refused; a data_base64 of null is not there."""
    for data in ("{}", "null"):
        with pytest.raises(Rejected, match="both"):
            decode_event(text_of(f'"data": {data}, "data_base64": "AA=="'))
    assert decode_event(text_of('"data": {}, "data_base64": null')).data == b"{}"
    assert decode_event(text_of('"data_base64": null')) == Event(MINIMAL)


def test_binary_data_is_written_in_base64() -> None:
    """Bytes that are no JSON, or have no JSON type, are written as data_base64, JSON as a value."""
    typed = {**MINIMAL, "datacontenttype": "application/json"}
    assert json.loads(encode_event(Event(MINIMAL, b"{}")))["data_base64"] == "e30="
    assert json.loads(encode_event(Event(typed, b'{"a": 1}')))["data"] == {"a": 1}
    for data in (b"", b"{", b" {}", b"1,2", b"1],[2", b'"\xff"', b"\xef\xbb\xbf{}"):
        assert json.loads(encode_event(Event(typed, data)))["data_base64"] == base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("members", "attributes", "data"),
    [
        ('"schemaurl": "https://a/b"', {"dataschema": "https://a/b"}, None),
        ('"schemaurl": "b"', {"schemaurl": "b"}, None),
        ('"schemaurl": "a:b", "dataschema": "c:d"', {"schemaurl": "a:b", "dataschema": "c:d"}, None),
        ('"data": {"a" :1}', {"datacontenttype": "application/json"}, b'{"a" :1}'),
        ('"datacontentencoding": "base64", "data": "AP8="', {}, b"\x00\xff"),
        (
            '"datacontentencoding": "Base64", "data": "AP8=", "datacontenttype": "a/b"',
            {"datacontenttype": "a/b"},
            b"\0\xff",
        ),
        (
            '"datacontentencoding": "8bit", "data": "a", "datacontenttype": "a/b"',
            {"datacontentencoding": "8bit", "datacontenttype": "a/b"},
            b"a",
        ),
        ('"data_base64": "AP8="', {}, b"\x00\xff"),  # of a sender between the versions
    ],
)
def test_version_0_3(members: str, attributes: dict[str, str], data: bytes | None) -> None:
    """An event of version 0.3 becomes one of 1.0 with the same data, whatever it was wrapped in."""
    assert decode_event(text_of(members, specversion="0.3")) == Event(MINIMAL | attributes, data)


def test_version_0_3_base64_refused() -> None:
    """Data that is said to be base64 and is not, is refused."""
    with pytest.raises(Rejected, match="base64"):
        decode_event(text_of('"datacontentencoding": "base64", "data": {}', specversion="0.3"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"1",
        b'"a"',
        b"[]",
        b"{",
        b"{}x",
        text_of()[:-1],
        text_of() + b"}",
        text_of("1: 2"),
        text_of('"data": NaN'),
        text_of('"data": 01'),
        text_of("'x': 1"),
        text_of() + b"\x00",
        b"\xef\xbb\xbf" + text_of(),
        text_of().decode().encode("utf-16"),
        text_of('"x": "?"').replace(b"?", b"\xff"),
        text_of('"data": "?"').replace(b"?", b"\xc0\xa0"),
        text_of('"data": {"?": 1}').replace(b"?", b"\xed\xa0\x80"),
        text_of('"data": ' + "[" * 100_000),
        text_of('"data": ' + "[" * 100_000 + "]" * 100_000),
        text_of('"x": ' + '{"a":' * 100_000 + "1" + "}" * 100_000),
    ],
)
def test_broken_json(body: bytes) -> None:
    """What is not one JSON object in UTF-8, or is nested without end, is refused."""
    with pytest.raises(Rejected):
        decode_event(body)


def test_batches() -> None:
    """A batch is an array of events, each with its own type and data; it may be empty."""
    batch = b" [ " + text_of('"data": 1') + b" , " + text_of('"data": "a"', datacontenttype="text/plain") + b" ] "
    assert [event.data for event in decode_batch(batch)] == [b"1", b"a"]
    assert http.decode([(b"content-type", b"application/cloudevents-batch+json")], b" [ ] ") == []


@pytest.mark.parametrize(
    "wrong", [b"{}", b"1", b"[]", b"null", text_of(time="now"), text_of('"data": {}, "data_base64": ""')]
)
def test_batch_says_which_event(wrong: bytes) -> None:
    """One wrong event makes the whole batch refused, and the refusal says which one."""
    with pytest.raises(Rejected, match="event 2 of the batch"):
        decode_batch(b"[" + b",".join([text_of(), text_of(), wrong, b"2"]) + b"]")


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"null", text_of(), b"[" + text_of(), b"[" + text_of() + b",]", b'["\xff"]']
)
def test_no_batches(body: bytes) -> None:
    """What is not an array is no batch."""
    with pytest.raises(Rejected):
        decode_batch(body)
