"""Text from others in Spark's SQL means exactly this text, whatever it is."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.errors import Rejected
from penstock.event.model import Event
from penstock.filter.check import problems, require_valid
from penstock.filter.matching import matching
from penstock.filter.sql_text import attribute_name, literal
from penstock.pipeline.trial import try_filters

SPECIAL = "'\"\\`$%_{}()[];-/*#\n\r\t\0\x1a\x7f\u0085\u2028\ufeffa1ä😀"
texts = st.text(st.one_of(st.sampled_from(SPECIAL), st.characters(exclude_categories=["Cs"])), max_size=30)
hostile_names = st.text(
    st.one_of(st.sampled_from(SPECIAL), st.characters(exclude_categories=["Cs"])), min_size=1
).filter(lambda name: not all(each in "abcdefghijklmnopqrstuvwxyz0123456789" for each in name))
CALL = "x') OR java_method('java.lang.System', 'getProperty', 'user.home') IS NOT NULL OR ('"
OPENINGS = ["'", "\\'", "\\", "''", "\\\\'", "${env:HOME}", "${spark.app.id}", "\\u0027", "\n--", "/*", CALL]


@given(st.lists(texts, min_size=100, max_size=100))
@settings(max_examples=5, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_every_text_comes_back_as_it_was(spark: SparkSession, given_texts: list[str]) -> None:
    """Kept promise: a literal is one value, in the SQL of a column and in a whole statement."""
    asked = [*given_texts, *OPENINGS]
    columns = ", ".join(f"{literal(text)} AS c{place}" for place, text in enumerate(asked))
    (row,) = spark.sql(f"SELECT {columns}").collect()
    assert list(row) == asked
    (row,) = (
        spark.range(1).selectExpr(*(f"{literal(text)} AS c{place}" for place, text in enumerate(asked))).collect()
    )
    assert list(row) == asked


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(Rejected, match="surrogate"):
        literal("a\ud800")


def shapes(name: str) -> list[dict[str, Any]]:
    """Filters of all dialects that take names."""
    flat = [{dialect: {name: "a"}} for dialect in ("exact", "prefix", "suffix", "attributes")]
    return [*flat, {"attributes": {name: ""}}, *({"any": [{"not": each}]} for each in flat[:3])]


@given(st.one_of(hostile_names, st.sampled_from([*OPENINGS, "type ", "Type", "a_b", "é", "type\n", ""])))
@settings(max_examples=300)
def test_an_invalid_name_never_becomes_sql(name: str) -> None:
    """Kept promise: names are checked where SQL is made, so the origin of a filter does not matter."""
    for each in shapes(name):
        with pytest.raises(Rejected, match="name"):
            matching([[each]])
        with pytest.raises(Rejected, match="name"):
            require_valid([each])
    with pytest.raises(Rejected):
        attribute_name(name)


@given(texts)
@settings(max_examples=300)
def test_a_path_into_the_data_is_one_literal(text: str) -> None:
    """Kept promise: whatever stands between the brackets, the path is refused or a literal of the statement."""
    expression = f"data['{text}'] = 'a'"
    if problems([{"penstock.dev/cesql-data": expression}], "filters"):
        return
    (path,) = matching([[{"penstock.dev/cesql-data": expression}]]).paths
    assert "'" not in path[3:-2]
    assert "\\" not in path


@pytest.mark.parametrize("text", [*OPENINGS, "a\u202eb"])
def test_a_hostile_value_is_only_compared(spark: SparkSession, text: str) -> None:
    """Kept promise: a value matches itself and nothing else, in every dialect that takes values."""
    quoted = text.replace("'", "\\'")
    filters: list[dict[str, Any]] = [{dialect: {"note": text}} for dialect in ("exact", "prefix", "suffix")]
    if not text.endswith("\\") and "\\'" not in text:
        filters.append({"cesql": f"note = '{quoted}'"})
    events = [
        Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "note": note}, None)
        for note in (text, "other")
    ]
    for each in filters:
        assert [verdict.matched for verdict in try_filters(spark, [each], events)] == [True, False], each
