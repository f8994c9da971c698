"""Filters as Spark columns: the JVM decides, in generated code, and Python never evaluates a filter.

In: the filters of a subscription, as the contract carries them, and a function that gives the column of an
attribute (null when the event lacks it). Out: a Boolean column that is never null. Called by ``pipeline``.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own idiom

AttributeColumn = Callable[[str], Column]


def matches(filters: Iterable[Mapping[str, Any]], attribute: AttributeColumn) -> Column:
    """All of them must match; no filter at all matches everything."""
    return _every(_column(each, attribute) for each in filters)


def _column(each: Mapping[str, Any], attribute: AttributeColumn) -> Column:
    dialect, body = next(iter(each.items()))
    match dialect:
        case "attributes":  # the older form: an empty value asks only that the attribute is there
            return _every(_equal(attribute(k), v) if v else attribute(k).isNotNull() for k, v in body.items())
        case "exact":
            return _every(_equal(attribute(k), v) for k, v in body.items())
        case "prefix":
            return _every(_present(attribute(k).startswith(F.lit(v))) for k, v in body.items())
        case "suffix":
            return _every(_present(attribute(k).endswith(F.lit(v))) for k, v in body.items())
        case "all":
            return _every(_column(inner, attribute) for inner in body)
        case "any":
            return reduce(lambda a, b: a | b, (_column(inner, attribute) for inner in body))
        case "not":
            return ~_column(body, attribute)
    raise ValueError(f"a filter of dialect {dialect!r} passed the check but cannot be compiled")


def _every(columns: Iterable[Column]) -> Column:
    return reduce(lambda a, b: a & b, columns, F.lit(True))


def _equal(column: Column, value: str) -> Column:
    return column.eqNullSafe(F.lit(value))


def _present(condition: Column) -> Column:
    """A missing attribute makes the condition null, which counts as no match, also under ``not``."""
    return F.coalesce(condition, F.lit(False))
