"""CESQL expressions evaluated for single events, outside of any stream, by the same SQL that filters a topic.

In: pairs of expression and event. Out: for each its value and the name of the error, if there was one. Called by
``penstock cesql`` and the tests.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from penstock.errors import Rejected
from penstock.event.json_form import LARGEST_INTEGER, SMALLEST_INTEGER
from penstock.filter.cesql_sql import Answer, AttributeSql, answer
from penstock.filter.cesql_syntax import parse
from penstock.filter.cesql_values import ERRORS, FIRST_ERROR
from penstock.filter.sql_text import attribute_name

AT_ONCE = 40  # expressions in one query: its generated code grows with them
DATA = ("data", "data_base64")  # no attributes


class Asked(NamedTuple):
    expression: str
    event: Mapping[str, Any]  # in CloudEvents' JSON format


class Answered(NamedTuple):
    result: bool | int | str
    error: str | None


def evaluate(session: SparkSession, asked: Sequence[Asked]) -> list[Answered]:
    """One answer for each, in the same order."""
    found: dict[int, Answered] = {}
    compiled: dict[str, Compiled] = {}
    readable = []
    for position, (expression, _) in enumerate(asked):
        try:
            if expression not in compiled:
                compiled[expression] = _compiled(expression)
            readable.append(position)
        except Rejected:
            found[position] = Answered(False, "parse")
    for begin in range(0, len(readable), AT_ONCE):
        positions = readable[begin : begin + AT_ONCE]
        found |= _evaluate(session, {position: asked[position] for position in positions}, compiled)
    return [found[position] for position in range(len(asked))]


class Compiled(NamedTuple):
    answer: Answer
    attributes: frozenset[str]  # those it looks at


def _compiled(expression: str) -> Compiled:
    used: set[str] = set()

    def attribute(name: str) -> AttributeSql:
        used.add(attribute_name(name))
        return AttributeSql(f"text_{name}", f"tag_{name}")

    return Compiled(answer(parse(expression), attribute), frozenset(used))


def _evaluate(
    session: SparkSession, asked: Mapping[int, Asked], compiled: Mapping[str, Compiled]
) -> dict[int, Answered]:
    """A row for each event, with a column for each attribute that any of the expressions looks at."""
    numbers = {text: n for n, text in enumerate(dict.fromkeys(each.expression for each in asked.values()))}
    names = sorted(set().union(*(compiled[expression].attributes for expression in numbers)))
    columns = [f"{kind}_{name} string" for name in names for kind in ("text", "tag")]
    rows = []
    for position, (expression, event) in asked.items():
        values = [part for name in names for part in _text_and_tag(None if name in DATA else event.get(name))]
        rows.append((position, numbers[expression], *values))
    cases = " ".join(
        f"WHEN {n} THEN named_struct('value', {a.value}, 'type', {a.type}, 'error', {a.error})"
        for n, a in ((n, compiled[expression].answer) for expression, n in numbers.items())
    )
    events = session.createDataFrame(rows, ", ".join(["position int", "number int", *columns]))
    query = events.selectExpr("position", f"CASE number {cases} END AS answer")
    return {row.position: Answered(_value(row.answer), _error(row.answer.error)) for row in query.collect()}


def _text_and_tag(value: Any) -> tuple[str | None, str | None]:
    """An attribute as the SQL wants it: as text, with its type."""
    if value is None:
        return None, None
    if isinstance(value, bool):
        return str(value).lower(), "b"
    if isinstance(value, int) and SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        return str(value), "i"
    return str(value), "s"


def _error(number: int | None) -> str | None:
    return None if number is None else ERRORS[number - FIRST_ERROR]


def _value(given: Any) -> bool | int | str:
    text: str = given.value
    if given.type == "boolean":
        return text == "true"
    return int(text) if given.type == "integer" else text
