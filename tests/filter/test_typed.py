"""Where values have types: JSON data under its own dialect, and extensions of structured records."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.filter.check import problems
from penstock.filter.matching import matching
from penstock.pipeline.filter_errors import errors_by_place
from penstock.pipeline.handover import handed_over, parse_row
from tests.filter.records import RECORD
from tests.processor import processes_of, processor_seconds

DIALECT = "penstock.dev/cesql-data"
DATA = {
    "order": {"amount": 120.5, "count": 3, "Count": 4, "paid": True, "ref": "A-1", "none": None, "big": 12345678901},
    "lines": [{"sku": "PEN"}, {"sku": "INK"}],
    "a name": {"x.y": 5},
    "whole": 12.0,
    "text": "7",
}
# Each with what it comes to for DATA: a match or not, or the name of an error.
CASES: dict[str, bool | str] = {
    "data.order.amount > 100": True,
    "data.order.amount > 120": True,
    "data.order.amount < 121": True,
    "data.order.amount <= 120": False,
    "100 < data.order.amount": True,
    "data.order.amount > data.order.count": True,
    "data.order.amount = '120.5'": True,
    "data.order.amount + 1 > 100": "cast",
    "data.order.count = 3": True,
    "data.order.Count = 4": True,
    "data.order.count + 1 = 4": True,
    "data.order.count = '3'": True,
    "data.order.count != 3": False,
    "data.order.big > 2147483647": True,
    "data.order.big = '12345678901'": True,
    "data.order.paid": True,
    "data.order.paid = TRUE": True,
    "NOT data.order.paid": False,
    "data.order.ref": False,
    "data.order.ref LIKE 'A-%'": True,
    "data.order.ref > 5": "cast",
    "data.order.none = 'x'": "missingAttribute",
    "data.order.missing = 'x'": "missingAttribute",
    "data.missing.deeper > 5": "missingAttribute",
    "data.order.ref.deeper = 'x'": "missingAttribute",
    "EXISTS data.order.ref": True,
    "EXISTS data.order.none": False,
    "NOT EXISTS data.nothing": True,
    "data.lines[1].sku = 'INK'": True,
    "data.lines[2].sku = 'INK'": "missingAttribute",
    "data['a name']['x.y'] = 5": True,
    'data["a name"]["x.y"] IN (4, 5)': True,
    "data.whole = 12": True,
    "data.text > 6": True,
    "data.text = 7": True,
    "LENGTH(data.lines) > 10": True,
    "type = 't' AND data.order.count = 3": True,
    "type = 'u' AND data.nothing = 3": False,
    "EXISTS data.coupon AND data.coupon = 'x'": False,
}


def asked(spark: SparkSession, value: bytes, headers: dict[str, bytes], filters: list[Any]) -> list[bool | str]:
    rows = [(0, 0, value, list(headers.items()))]
    (packed,) = handed_over(spark.createDataFrame(rows, RECORD), matching([each] for each in filters)).collect()
    parsed = parse_row(bytes(packed.row))
    errors = errors_by_place(parsed.errors)
    return [errors.get(place) or place in parsed.row.matched for place in range(len(filters))]


BINARY = {"ce_specversion": b"1.0", "ce_id": b"1", "ce_source": b"/s", "ce_type": b"t"}
ENVELOPE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
STRUCTURED = {"content-type": b"application/cloudevents+json"}


@pytest.mark.parametrize("content_type", [b"application/json", b"application/vnd.x+json; charset=utf-8", None])
def test_paths_into_json_data(spark: SparkSession, content_type: bytes | None) -> None:
    """Kept promise: JSON's own types, and a missing attribute where there is nothing."""
    headers = BINARY | ({"content-type": content_type} if content_type else {})
    answers = asked(spark, json.dumps(DATA).encode(), headers, [{DIALECT: each} for each in CASES])
    assert dict(zip(CASES, answers, strict=True)) == CASES


def test_paths_into_the_data_of_structured_records(spark: SparkSession) -> None:
    value = json.dumps(ENVELOPE | {"data": DATA}).encode()
    answers = asked(spark, value, STRUCTURED, [{DIALECT: each} for each in CASES])
    assert dict(zip(CASES, answers, strict=True)) == CASES


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        (b"text/plain", b'{"n": 5}'),
        (b"application/json", b'{"n": 5'),
        (b"application/json", b""),
        (b"application/json", b"\xff\xfe"),
        (b"application/json", b"[" * 5000),
        (b"application/json", b"5"),
    ],
)
def test_data_that_is_no_json_has_no_paths(spark: SparkSession, content_type: bytes, data: bytes) -> None:
    """Kept promise: it counts as a missing attribute, and nothing stops."""
    filters = [{DIALECT: "data.n = 5"}, {DIALECT: "EXISTS data.n"}, {DIALECT: "type = 't'"}]
    assert asked(spark, data, BINARY | {"content-type": content_type}, filters) == ["missingAttribute", False, True]


def test_extensions_keep_the_types_that_a_format_carries(spark: SparkSession) -> None:
    """Kept promise: in the JSON format an integer is an integer; in headers everything is text."""
    expressions: dict[str, Any] = {
        "n": (False, False),
        "b": (True, False),
        "b = TRUE": (True, True),
        "n = 5": (True, True),
    }
    expressions |= {"b AND TRUE": (True, True), "NOT b": (False, False)}
    expressions |= {"NOT n": ("cast", "cast"), "s AND TRUE": ("cast", "cast"), "n IN (5, 6)": (True, "cast")}
    filters = [{"cesql": each} for each in expressions]
    typed = json.dumps(ENVELOPE | {"n": 5, "b": True, "s": "5"}).encode()
    texts = BINARY | {"ce_n": b"5", "ce_b": b"true", "ce_s": b"5"}
    found = zip(asked(spark, typed, STRUCTURED, filters), asked(spark, b"", texts, filters), strict=True)
    assert dict(zip(expressions, found, strict=True)) == expressions | {"n IN (5, 6)": (True, True)}


@pytest.mark.parametrize("path", ["data.", "data.a..b", "data[x]", "data['it''s']", "data.a-b.c", "data['a?b']"])
def test_odd_paths_are_refused_or_harmless(spark: SparkSession, path: str) -> None:
    """Kept promise: what the check lets through never fails in a stream."""
    each = {DIALECT: f"{path} = 5"}
    if not problems([each], "filters"):
        asked(spark, b"{}", BINARY, [each])


@pytest.mark.parametrize("name", ["select", "1", "null", "case", "data", "end", "a" * 100])
def test_any_name_can_be_an_attribute(spark: SparkSession, name: str) -> None:
    """Kept promise: words of SQL mean nothing in a filter."""
    filters = [{"exact": {name: "x"}}, {"prefix": {name: "x"}}, {"attributes": {name: ""}}]
    assert asked(spark, b"{}", BINARY | {f"ce_{name}": b"x"}, filters) == [True, True, True]


@pytest.mark.parametrize(
    "each",
    [
        {DIALECT: "data.a[99999999999] = 1"},
        {"cesql": "\u0130d = 'x'"},
        {"cesql": "\u017fubject = 'x'"},
        {"exact": {"type": "x" * 60_000}},
        {"exact": {"type": "\ud800"}},
        {"prefix": {"type": "\ud800"}},
        {"any": [{"exact": {"type": "x"}}] * 200},
        {"cesql": "a = (" * 40 + "a" + ")" * 40},
        {DIALECT: "CONCAT(" + ", ".join(f"data.a{n}" for n in range(1300)) + ") = 'x'"},
        {"cesql": "CONCAT(" + ", ".join(f"a{n}" for n in range(2300)) + ") = 'x'"},
    ],
    ids=str,
)
def test_what_would_strain_spark_is_refused(each: dict[str, Any]) -> None:
    """Kept promise: no single trigger can stop the stream of its neighbours."""
    assert problems([each], "filters")


NESTED = {
    "objects": '{"a":' * 990 + "1" + "}" * 990,
    "lists": "[" * 990 + "]" * 990,
    "both": '[{"a":' * 490 + "1" + "}]" * 490,
    "beyond": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "beyond lists": "[" * 100_000,
    "names": json.dumps([{f"name{n}": n} for n in range(50_000)]),
    "wide": json.dumps({f"name{n}": n for n in range(50_000)}),
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_no_data_ends_spark_or_takes_long(spark: SparkSession, text: str) -> None:
    """Kept promise: an event with nested data does not match. Before, it ended the process or took a minute."""
    filters = [{DIALECT: expression} for expression in ("data.x > 5", "data.x.a.a = 'b'", "data.x LIKE '%z'")]
    began = processor_seconds(*processes_of(spark))
    for value in (
        f'{{"x": {text}}}',
        f'{{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {{"x": {text}}}}}',
    ):
        headers = STRUCTURED if "specversion" in value else BINARY | {"content-type": b"application/json"}
        assert True not in asked(spark, value.encode(), headers, filters)
    attribute = f'{{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "x": {text}}}'
    assert True not in asked(spark, attribute.encode(), STRUCTURED, [{"cesql": "x > 5"}, {"cesql": "x"}])
    assert processor_seconds(*processes_of(spark)) - began < 100  # it took several minutes
