"""CESQL through the real Spark: every case of the table, in as few queries as the evaluator makes of them."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from penstock.filter.cesql_syntax import Unreadable, parse
from penstock.pipeline.evaluate import Asked, evaluate

MINIMAL = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
LINE = re.compile(r"(?P<expression>.*) → (?P<result>.*?)(?: ! (?P<error>\w+))?(?: with (?P<event>\{.*\}))?")


class Case(NamedTuple):
    expression: str
    event: dict[str, Any]
    expected: tuple[Any, str | None]


def cases() -> list[Case]:
    found = []
    for line in Path(__file__).with_name("cesql_cases.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        parts = LINE.fullmatch(line)
        assert parts, line
        event = MINIMAL | json.loads(parts["event"] or "{}")
        found.append(Case(parts["expression"], event, (json.loads(parts["result"]), parts["error"])))
    return found


def test_every_case_of_the_table(spark: SparkSession) -> None:
    """Kept promise: value and error of every expression are what the specification says."""
    table = cases()
    assert len(table) > 500
    answers = evaluate(spark, [Asked(case.expression, case.event) for case in table])
    wrong = [
        f"{case.expression} with {case.event}: {(answer.result, answer.error)} instead of {case.expected}"
        for case, answer in zip(table, answers, strict=True)
        if (type(answer.result), answer.result, answer.error) != (type(case.expected[0]), *case.expected)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("a = 'x", "the text that begins here has no end\n  a = 'x\n      ^"),
        ("a LIKE 5", "'5' is not expected here\n  a LIKE 5\n         ^"),
        ("a =", "the expression ends too early\n  a =\n     ^"),
        ("", "the expression is empty\n  \n  ^"),
        ("a &", "'&' means nothing here\n  a &\n    ^"),
        ("a = 1 AND\nb ! 2", "'!' means nothing here\n  b ! 2\n    ^"),
        ("x = 2147483648", "this is no 32-bit integer\n  x = 2147483648\n      ^"),
    ],
)
def test_what_cannot_be_read_is_pointed_at(expression: str, told: str) -> None:
    """Kept promise: the message shows the line and puts a caret under the place."""
    with pytest.raises(Unreadable) as failure:
        parse(expression)
    assert failure.value.message == told


@pytest.mark.parametrize("expression", ["(" * 5000, "NOT " * 3000 + "TRUE", "a" * 20_000, "1 + " * 4000 + "1"])
def test_monsters_are_refused_or_read_but_never_fatal(expression: str) -> None:
    """Kept promise: no expression brings the controller down."""
    try:
        parse(expression)
    except Unreadable:
        return
