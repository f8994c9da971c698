"""The rules of CloudEvents 1.0 and of its HTTP binding, one row each."""

from typing import Any

import pytest

from penstock.errors import Rejected
from penstock.event import http
from penstock.event.model import Event
from tests.event.events import MINIMAL


def binary(body: bytes = b"", content_type: bytes | None = None, **attributes: bytes | None) -> Event:
    """The event of a request in binary mode; an attribute of None is left out."""
    given = {name: value.encode() for name, value in MINIMAL.items()} | attributes
    headers = [(b"ce-" + name.encode(), value) for name, value in given.items() if value is not None]
    if content_type is not None:
        headers.append((b"content-type", content_type))
    [event] = http.decode(headers, body)
    return event


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
@pytest.mark.parametrize("value", [None, b"", b"  ", b'""'])
def test_required_attributes(name: str, value: bytes | None) -> None:
    """A required attribute that is missing or empty is named in the refusal."""
    attributes: dict[str, Any] = {name: value}
    with pytest.raises(Rejected, match=name):
        binary(**attributes)


@pytest.mark.parametrize("name", ["a", "1", "traceparent", "a2b", "x" * 40, "partitionkey"])
def test_extension_names(name: str) -> None:
    """Lower-case letters and digits make a name, also beyond the advised 20 characters."""
    assert binary(**{name: b"v"}).attributes[name] == "v"


@pytest.mark.parametrize("name", ["", "a-b", "a_b", "A", "é", "a.b", "data", "data_base64", "datacontenttype", "²"])
def test_names_that_are_none(name: str) -> None:
    """Other names are refused, and so are data and datacontenttype, which have places of their own."""
    with pytest.raises(Rejected):
        binary(**{name: b"v"})


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),  # the binding's example
        (b"Euro%20%e2%82%ac%20%f0%9f%98%80", "Euro € 😀"),  # lower case must be accepted
        (b"%41%7e", "A~"),  # encoded without need
        (b"%2541", "%41"),  # one round only
        (b"%zz 100% %4", "%zz 100% %4"),  # encodes nothing, so it stands for itself
        (b'"hello world"', "hello world"),
        (b'"a \\"b\\" \\\\c\\d"', 'a "b" \\cd'),
        (b'"%22%20"', '" '),  # unquote first, decode then
        (b"%22a%22", '"a"'),  # a decoded quote is no quote
        (b'" a "', " a "),
        (b'""', ""),
        (b"", ""),
        (b" \t ", ""),
        (b"  a b\t", "a b"),
        (b'"', '"'),
        (b'"a" and "b"', '"a" and "b"'),  # not one quoted string, so as it is
        (b'"a\\"', '"a\\"'),
        (b'a"b', 'a"b'),
        (b"a\\b(c),d", "a\\b(c),d"),  # neither escapes nor comments outside quotes
        ("naïve €".encode(), "naïve €"),  # not encoded, but beyond doubt
        (b"%EF%BB%BFa", "\ufeffa"),
    ],
)
def test_header_values(raw: bytes, value: str) -> None:
    """A header value is unquoted, then percent-decoded once."""
    assert binary(x=raw).attributes["x"] == value


@pytest.mark.parametrize(
    "raw",
    [
        b"%C0%A0",  # overlong, the binding's example
        b"%E2%82",  # a character cut short
        b"%E2%82a%AC",  # a character split
        b"\xe2%82%AC",  # half of it encoded
        b"%ED%A0%80",  # a surrogate
        b"%FF",
        b"\xff",
        b"\xe9",  # Latin-1
        b"a\tb",
        b"a\x00b",
        b"a\r\nx: y",
        b"%0A",
        b"%00",
        b"%7F",
        b"%C2%85",  # a control character beyond ASCII
        b"%EF%BF%BE",  # U+FFFE
        b"%EF%B7%90",  # U+FDD0
        b"%F4%8F%BF%BF",  # U+10FFFF
        b'"a\\\nb"',
    ],
)
def test_header_values_refused(raw: bytes) -> None:
    """What is not UTF-8, and characters that no CloudEvents string may hold, are refused and named."""
    with pytest.raises(Rejected, match="'x'"):
        binary(x=raw)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
        ('"50%"', "%2250%25%22"),
        ("!#$&'()*+,-./:;<=>?@[\\]^_`{|}~", "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"),
        ("\x7f\n", "%7F%0A"),
        ("", ""),
    ],
)
def test_percent_encoding(value: str, encoded: str) -> None:
    """Space, quote, percent and all beyond visible ASCII are encoded in upper case, nothing else is."""
    assert http.percent_encode_header(value) == encoded


@pytest.mark.parametrize(
    "time",
    [
        "2018-04-05T17:31:00Z",
        "2018-04-05T17:31:00.123456789Z",
        "2018-04-05t17:31:00.1z",
        "2018-04-05T17:31:00-00:00",
        "2018-04-05T17:31:00.000+14:00",
        "2016-12-31T23:59:60Z",
        "2024-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
    ],
)
def test_times(time: str) -> None:
    """An RFC 3339 time is kept as it is written, nanoseconds, case and offset included."""
    assert binary(time=time.encode()).attributes["time"] == time


@pytest.mark.parametrize(
    "time",
    [
        "",
        "2018-04-05",
        "2018-04-05 17:31:00Z",
        "2018-04-05T17:31:00",
        "2018-04-05T17:31Z",
        "2018-04-05T17:31:00.Z",
        "2018-13-05T17:31:00Z",
        "2018-04-31T17:31:00Z",
        "2023-02-29T17:31:00Z",
        "2018-04-05T24:00:00Z",
        "2018-04-05T17:31:00+24:00",
        "2018-04-05T17:31:00+0100",
        "٢٠١٨-04-05T17:31:00Z",
        "1522949460",
        "yesterday",
    ],
)
def test_times_refused(time: str) -> None:
    """What is no RFC 3339 time is refused, days that the month has not included."""
    with pytest.raises(Rejected, match="time"):
        binary(time=time.encode())


URI_REFERENCES = [
    "https://github.com/cloudevents",
    "mailto:cncf-wg-serverless@lists.cncf.io",
    "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
    "cloudevents/spec/pull/123",
    "/sensors/tn-1234567/alerts",
    "1-555-123-4567",
    "//user:pw@[2001:db8::1]:8080/a?b=c/?#d/?",
    "#a",
    "?a:b",
    "./a:b",
    "a/b:c",
    "file:///etc/hosts",
    "%41",
    "*",
]
NO_URI_REFERENCES = [
    "a b",
    "/ü",
    "<a>",
    "/a%",
    "/a%4",
    "/a%zz",
    ":a",
    "1:2",
    "a#b#c",
    "/[a]",
    "//a:b:c",
    "a\\b",
    "{a}",
    '"',
    "^",
]


@pytest.mark.parametrize("source", URI_REFERENCES)
def test_sources(source: str) -> None:
    """A source is a URI reference, absolute or not."""
    assert binary(source=http.percent_encode_header(source).encode()).attributes["source"] == source


@pytest.mark.parametrize("source", NO_URI_REFERENCES)
def test_sources_refused(source: str) -> None:
    """A source that RFC 3986 does not know as a reference is refused."""
    with pytest.raises(Rejected, match="source"):
        binary(source=http.percent_encode_header(source).encode())


@pytest.mark.parametrize("schema", ["https://example.com/a.json", "urn:a:b", "http://json-schema.org/schema#"])
def test_schemas(schema: str) -> None:
    """A dataschema is an absolute URI."""
    assert binary(dataschema=schema.encode()).attributes["dataschema"] == schema


@pytest.mark.parametrize("schema", ["", "/a", "//example.com/a", "a.json", "#a", "https://a b", "1a:b"])
def test_schemas_refused(schema: str) -> None:
    """A relative or empty dataschema is refused."""
    with pytest.raises(Rejected, match="dataschema"):
        binary(dataschema=http.percent_encode_header(schema).encode())


def test_empty_values() -> None:
    """An extension may be an empty string; a subject must not."""
    assert binary(x=b"").attributes["x"] == ""
    with pytest.raises(Rejected, match="subject"):
        binary(subject=b"")


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "TEXT/Plain; CharSet=utf-8",
        'multipart/mixed; boundary="a b;c%20"',
        "application/vnd.a+json;q=1 ; b",
        "x-unknown/whatever",
        "application/x-www-form-urlencoded;",
        "application/cloudevent+json",
    ],
)
def test_content_types(content_type: str) -> None:
    """Data of any type is taken, and its type kept as written: neither unquoted nor percent-decoded."""
    event = binary(b"\x00\xff", content_type.encode())
    assert event == Event({**MINIMAL, "datacontenttype": content_type}, b"\x00\xff")


@pytest.mark.parametrize(
    "content_type", [b"", b"json", b"a/", b"/b", b"a/b c", b"a b/c", "a/b; c=é".encode(), b"a/b\xff", b"a/b;\x00"]
)
def test_content_types_refused(content_type: bytes) -> None:
    """What is no media type is refused."""
    with pytest.raises(Rejected, match="datacontenttype"):
        binary(b"", content_type)


def test_content_type_without_blanks_around() -> None:
    """Blanks around a header value are not part of it."""
    assert binary(b"", b" text/plain \t").content_type == "text/plain"


def test_no_content_type() -> None:
    """Without Content-Type nothing is assumed about the data."""
    assert binary(b"{}") == Event(MINIMAL, b"{}")


def test_empty_body_is_no_data() -> None:
    """HTTP cannot tell empty data from none; the type may stand without data."""
    assert binary(b"", b"text/plain").data is None


@pytest.mark.parametrize("doubled", [b"ce-id", b"ce-x", b"content-type"])
def test_doubled_headers(doubled: bytes) -> None:
    """A header that occurs more than once is refused rather than one of them chosen."""
    headers = [(b"ce-" + name.encode(), value.encode()) for name, value in MINIMAL.items()]
    with pytest.raises(Rejected, match=f"{doubled.decode()} occurs more than once"):
        http.decode([*headers, (doubled, b"a/b"), (b"accept", b"*"), (b"accept", b"*"), (doubled, b"a/b")], b"")


def test_other_headers_are_let_alone() -> None:
    """Headers that are no attributes may hold anything, and stand as often as they like."""
    headers = [(b"ce-" + name.encode(), value.encode()) for name, value in MINIMAL.items()]
    assert http.decode([(b"via", b"\xff"), *headers, (b"via", b"\x01"), (b"cex", b"1")], b"") == [Event(MINIMAL)]


@pytest.mark.parametrize("version", [b"0.1", b"0.2", b"1", b"1.1", b"2.0", b"one"])
def test_other_versions(version: bytes) -> None:
    """Versions besides 1.0 and 0.3 are refused."""
    with pytest.raises(Rejected, match="not supported"):
        binary(specversion=version)


def test_not_an_event() -> None:
    """A plain request is told what an event needs."""
    for headers in ([], [(b"content-type", b"application/json")], [(b"host", b"a")]):
        with pytest.raises(Rejected, match="no CloudEvent") as refused:
            http.decode(headers, b"{}")
        assert "ce-specversion" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("attributes", "kept"),
    [
        ({"schemaurl": b"https://a/b"}, {"dataschema": "https://a/b"}),
        ({"schemaurl": b"/b"}, {"schemaurl": "/b"}),  # 0.3 allows what 1.0 has no place for
        ({"datacontentencoding": b"base64"}, {"datacontentencoding": "base64"}),  # says nothing about bytes
    ],
)
def test_version_0_3(attributes: dict[str, bytes], kept: dict[str, str]) -> None:
    """An event of version 0.3 becomes one of 1.0, and its body stays as it is."""
    assert binary(b"e30=", specversion=b"0.3", **attributes) == Event(MINIMAL | kept, b"e30=")


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/cloudevents+json",
        b"Application/CloudEvents+JSON ; Charset=UTF-8",
        b'application/cloudevents+json;charset="utf-8"',
        b"application/cloudevents+json; charset=us-ascii",
    ],
)
def test_structured_mode(content_type: bytes) -> None:
    """The content type alone makes a request structured; ce- headers beside it, even odd ones, count for nothing."""
    headers = [
        (b"content-type", content_type),
        (b"ce-id", b"other"),
        (b"ce-datacontenttype", b"a/b"),
        (b"ce-id", b""),
    ]
    assert http.decode(headers, http.encode_structured(Event(MINIMAL))[1]) == [Event(MINIMAL)]


@pytest.mark.parametrize(
    ("content_type", "reason"),
    [
        (b"application/cloudevents", "format is not known"),
        (b"application/cloudevents+avro", "format is not known"),
        (b"application/cloudevents-batch+protobuf", "format is not known"),
        (b"application/cloudevents+json; charset=utf-16", "must be UTF-8"),
        (b"application/cloudevents-batch+json; charset=latin1", "must be UTF-8"),
    ],
)
def test_formats_refused(content_type: bytes, reason: str) -> None:
    """Event formats and charsets that we do not read are refused, not guessed at."""
    headers = [(b"content-type", content_type)] + [(b"ce-" + n.encode(), v.encode()) for n, v in MINIMAL.items()]
    with pytest.raises(Rejected, match=reason):
        http.decode(headers, b"{}")
