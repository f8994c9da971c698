"""LIKE matches what the specification says, in a time that is linear in the value."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.filter.check import problems
from penstock.filter.like import LONGEST_PIECE, like
from penstock.pipeline.evaluate import Asked, evaluate
from tests.processor import processes_of, processor_seconds

LONG = 64 * 1024
pieces = st.lists(
    st.sampled_from(["a", "b", "ab", "%", "%", "_", "\\%", "\\_", "\\", "😀", "ä", ".", "(", "^", "\n"])
)
patterns = pieces.map("".join)
values = st.text(st.sampled_from("aab%_\\😀ä.(^\n"), max_size=12)


def expected(pattern: str, value: str) -> bool:
    """By a regular expression of Python's, which tries everything."""
    tokens = re.findall(r"\\[%_]|.", pattern, re.DOTALL)
    meaning = {"%": ".*", "_": ".", "\\%": "%", "\\_": "_"}
    return re.fullmatch("".join(meaning.get(each, re.escape(each)) for each in tokens), value, re.DOTALL) is not None


@given(patterns, values)
@settings(max_examples=3000)
def test_the_first_place_of_each_piece_is_as_good_as_any(pattern: str, value: str) -> None:
    """Kept promise: the expression for the JVM means the same; Python's expressions have atomic groups too."""
    asked = like("value", pattern)
    kind, text = (asked.split(" ", 2)[1], asked) if asked.startswith("value ") else (asked.partition("(")[0], asked)
    quoted = text[text.index("'") + 1 : text.rindex("'")]
    meant = quoted.encode("latin-1", "backslashreplace").decode("unicode-escape")
    found = {
        "=": lambda: value == meant,
        "startswith": lambda: value.startswith(meant),
        "endswith": lambda: value.endswith(meant),
        "contains": lambda: meant in value,
        "RLIKE": lambda: re.search(meant.replace("\\z", "\\Z"), value) is not None,
    }[kind]()
    assert found == expected(pattern, value)


@given(st.lists(patterns, min_size=30, max_size=30), st.lists(values, min_size=40, max_size=40))
@settings(max_examples=5, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_like_means_what_it_meant(spark: SparkSession, asked: list[str], given_values: list[str]) -> None:
    """Kept promise: the first place of each piece is as good as any other."""
    frame = spark.createDataFrame(
        [(place, each) for place, each in enumerate(given_values)], "place int, value string"
    )
    columns = [f"{like('value', pattern)} AS c{number}" for number, pattern in enumerate(asked)]
    wrong = [
        (pattern, given_values[row.place])
        for row in frame.selectExpr("place", *columns).collect()
        for number, pattern in enumerate(asked)
        if row[f"c{number}"] != expected(pattern, given_values[row.place])
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("note LIKE '%a%a%b'", "a" * LONG),
        ("note LIKE '%a%a%a%a%a%a%b%'", "a" * LONG),
        ("note LIKE '%_a%_a%_b_'", "a" * LONG),
        ("note LIKE 'a%" + "a" * (LONGEST_PIECE - 1) + "%b'", "a" * LONG),
        ("note LIKE '" + "_" * 200 + "%b'", "a" * LONG),
        ("note LIKE '%" + "a_" * (LONGEST_PIECE // 2) + "%b'", "a" * LONG),
        ("note LIKE '" + "%a" * 90 + "%b'", "a" * LONG),
        ("TRIM(note) = 'x'", "x" + " " * LONG + "x"),
        ("TRIM(note) = 'x'", "x " * (LONG // 2) + "x"),
        ("TRIM(note) = 'x'", " " * LONG + "x" + " " * LONG),
        ("INT(note) = 1", "1" * LONG + "x"),
        ("INT(note) = 1", "0" * LONG),
        ("UPPER(LOWER(note)) = 'x'", "\u0130" * (LONG // 2)),
        ("note IN ('a', 'b') OR BOOL(note)", "t" * LONG),
        ("SUBSTRING(note, -3, 2) = 'aa'", "ä" * (LONG // 2)),
        ("LENGTH(CONCAT_WS(note, note, note, note)) = 1", "ä" * (LONG // 2)),
    ],
)
def test_no_value_of_64_kb_takes_long(spark: SparkSession, expression: str, value: str) -> None:
    """Kept promise: ten times the value takes ten times as long, not a hundred; no event stalls its partition."""
    assert not problems([{"cesql": expression}], "filters")

    def seconds(text: str) -> float:
        event: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "note": text}
        began = processor_seconds(*processes_of(spark))
        evaluate(spark, [Asked(expression, event)])
        return processor_seconds(*processes_of(spark)) - began

    short = min(seconds(value[: len(value) // 10]) for _ in range(2))
    long = min(seconds(value) for _ in range(2))
    assert long < 12 * short + 10, f"{long:.2f} s, {short:.2f} s for a tenth"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("note LIKE '%" + "a" * (LONGEST_PIECE + 1) + "%'", "LIKE takes at most"),
        ("note LIKE '" + "%a" * 200 + "'", "at most 99 %"),
        ("LENGTH(CONCAT(" + "note, " * 20 + "note)) > 1", "CONCAT could make a text"),
        ("CONCAT_WS('" + "x" * 5000 + "', " + ", ".join(["'a'"] * 2000) + ") = note", "CONCAT_WS could make a text"),
        ("LENGTH(CONCAT(" * 8 + "a" + ", a, a))" * 8 + " > 1", "CONCAT"),
        (" OR ".join(f"(a{n} LIKE '%{'x' * 200}{n}%y')" for n in range(60)), "could take seconds"),
    ],
)
def test_what_could_take_long_is_refused_with_its_field(expression: str, reason: str) -> None:
    """Kept promise: a filter that could take more than a bounded time for one event is never in force."""
    found = problems([{"cesql": expression}], "spec.filters")
    assert len(found) == 1
    assert found[0].field.startswith("spec.filters")
    assert reason in found[0].message


def test_an_attribute_may_have_the_name_of_a_dialect() -> None:
    """Kept promise: only expressions are read as such, not the values that attributes are compared with."""
    assert not problems([{"exact": {"cesql": "I LIKE it a lot"}}, {"not": {"prefix": {"all": "LIKE"}}}], "filters")


def test_a_pattern_counts_more_where_its_text_may_be_longer() -> None:
    """Kept promise: a LIKE over a text of the data, or over many joined texts, keeps to the same bound."""
    dialect, pattern = "penstock.dev/cesql-data", f"'%{'a' * 230}%b_%'"

    def reasons(text: str, number: int) -> list[str]:
        several = [{dialect: f"{text} NOT LIKE {pattern[:-1]}{n}'"} for n in range(number)]
        return [each.message for each in problems([{"all": several}], "spec.filters")]

    assert not reasons("subject", 20)
    assert not reasons("data.a", 1)
    assert not reasons("CONCAT(subject, subject)", 10)
    for text, number in (
        ("data.a", 3),
        (f"CONCAT({', '.join(['data.a'] * 8)})", 1),
        ("CONCAT(subject, subject)", 20),
    ):
        (reason,) = reasons(text, number)
        assert "could take seconds" in reason


@pytest.mark.parametrize(
    ("call", "most"),
    [("LOWER(subject)", 200), ("LOWER(TRIM(UPPER(data.a)))", 20), (f"TRIM(CONCAT({', '.join(['note'] * 8)}))", 40)],
)
def test_a_function_counts_more_where_its_text_may_be_longer(call: str, most: int) -> None:
    """Kept promise: functions over a text of the data, or over many joined texts, keep to the same bound."""

    def reasons(number: int) -> list[str]:
        several = [{"penstock.dev/cesql-data": f"{call} = '{n}'"} for n in range(number)]
        asked = [{"any": several[begin : begin + 60]} for begin in range(0, number, 60)]
        return [found.message for found in problems(asked, "spec.filters")]

    assert not reasons(most)
    if call != "LOWER(subject)":
        (reason,) = reasons(4 * most)
        assert "could take seconds" in reason


def test_expressions_of_one_resource_have_a_limit_together() -> None:
    """Kept promise: a trigger with long expressions does not keep the controller busy."""
    many = [{"any": [{"cesql": f"note = '{'x' * 10_000}'"}] * 5}] * 10
    (found,) = problems(many, "spec.filters")
    assert "characters together" in found.message


@pytest.mark.parametrize("count", [1, 30, 100])
def test_honest_filters_are_taken(count: int) -> None:
    """Kept promise: the limits are far from what people write."""
    asked = [{"cesql": f"LOWER(subject) LIKE '%order-{n}%' AND amount > {n}"} for n in range(count)]
    assert not problems([{"any": asked}], "spec.filters")
