"""Is a filter well formed? Called when a trigger is applied, so that nothing invalid reaches the stream.

In: the ``filters`` list or the ``filter.attributes`` map of a resource. Out: every problem, by field.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.errors import Rejected
from penstock.filter.cesql_functions import check_functions
from penstock.filter.cesql_sql import AttributeSql, truth
from penstock.filter.cesql_syntax import DATA_DIALECT, Unreadable, parse
from penstock.filter.matching import matching
from penstock.filter.sql_text import NAME
from penstock.filter.work import MOST_WORK, work_of

VALUE_DIALECTS = ("exact", "prefix", "suffix")  # a map of attribute name to text
LIST_DIALECTS = ("all", "any")  # a list of filters
EXPRESSION_DIALECTS = ("cesql", DATA_DIALECT)
DIALECTS = (*VALUE_DIALECTS, *LIST_DIALECTS, "not", *EXPRESSION_DIALECTS)
LONGEST_SQL = 64 * 1024  # of all filters of one resource
LONGEST_EXPRESSIONS = 64 * 1024  # of one resource, together: reading them takes a second
LONGEST_VALUE = 10_000
MOST = 100  # filters in one list
READS_TEXT = re.compile(r"\bLIKE\b|\w\s*\(", re.IGNORECASE)  # a LIKE, or a function
DEEPEST = 20  # nesting beyond this is a mistake, and would strain the compiler


class Problem(NamedTuple):
    field: str
    message: str
    column: int | None = None  # of an expression, where it cannot be read; the first is 1


def problems(filters: Any, where: str) -> list[Problem]:
    """What is wrong with a ``filters`` list found at ``where`` (for instance ``spec.filters``)."""
    if not isinstance(filters, Sequence) or isinstance(filters, str):
        advice = "; begin each of them with a dash" if isinstance(filters, Mapping) else ""
        return [Problem(where, f"must be a list of filters{advice}")]
    if len(filters) > MOST:
        return [Problem(where, f"has more than {MOST} filters")]
    if sum(map(len, _expressions(filters))) > LONGEST_EXPRESSIONS:
        return [Problem(where, f"the expressions have more than {LONGEST_EXPRESSIONS} characters together")]
    found = [p for i, each in enumerate(filters) for p in _filter_problems(each, f"{where}[{i}]", 0)]
    return found or _size_problems(filters, where)


def _expressions(filters: Sequence[Any]) -> Iterator[str]:
    """All expressions, at any depth that is allowed."""
    level = list(filters)
    for _ in range(DEEPEST + 1):
        pairs = [pair for each in level if isinstance(each, Mapping) for pair in each.items()]
        yield from (body for dialect, body in pairs if dialect in EXPRESSION_DIALECTS and isinstance(body, str))
        level = [body for dialect, body in pairs if dialect == "not"]
        level += [each for _, body in pairs if isinstance(body, list) for each in body]


def _size_problems(filters: Sequence[Any], where: str) -> list[Problem]:
    try:
        found = matching([filters])
    except Rejected as error:
        return [Problem(where, error.message)]
    if found.sql_length > LONGEST_SQL:
        return [Problem(where, "the filters are too complex: Spark could not compile them")]
    read = (parse(each, with_data=True) for each in _expressions(filters) if READS_TEXT.search(each))
    if work_of((column.sql for step in found.steps for column in step), read) > MOST_WORK:
        return [
            Problem(where, "the filters could take seconds for one event; use fewer functions and shorter patterns")
        ]
    return []


def attributes_problems(attributes: Any, where: str) -> list[Problem]:
    """What is wrong with ``filter.attributes``: an empty value there means that the attribute is present."""
    return _value_map_problems(attributes, where, may_be_empty=True)


def require_valid(filters: Sequence[Mapping[str, Any]]) -> None:
    """Raises Rejected. For filters that do not come from a resource, but from a contract record or a question."""
    found: list[Problem] = []
    for place, each in enumerate(filters):
        if set(each) == {"attributes"}:
            found += attributes_problems(each["attributes"], f"filters[{place}].attributes")
    found += problems([each for each in filters if "attributes" not in each or len(each) > 1], "filters")
    if found:
        raise Rejected(f"{found[0].field}: {found[0].message}")


def _filter_problems(each: Any, where: str, depth: int) -> list[Problem]:
    if depth > DEEPEST:
        return [Problem(where, f"filters are nested more than {DEEPEST} deep")]
    if not isinstance(each, Mapping) or len(each) != 1:
        advice = "; make each a filter of its own, since all of them must match" if _is_several(each) else ""
        return [Problem(where, f"must have exactly one of {', '.join(DIALECTS)}{advice}")]
    dialect, body = next(iter(each.items()))
    inside = f"{where}.{dialect}"
    if dialect in VALUE_DIALECTS:
        return _value_map_problems(body, inside, may_be_empty=False)
    if dialect in LIST_DIALECTS:
        if not isinstance(body, Sequence) or isinstance(body, str) or not 0 < len(body) <= MOST:
            return [Problem(inside, f"must be a list of 1 to {MOST} filters")]
        return [p for i, inner in enumerate(body) for p in _filter_problems(inner, f"{inside}[{i}]", depth + 1)]
    if dialect == "not":
        return _filter_problems(body, inside, depth + 1)
    if dialect in EXPRESSION_DIALECTS:
        return _expression_problems(body, inside, with_data=dialect == DATA_DIALECT)
    return [Problem(where, f"unknown dialect {dialect!r}; known are {', '.join(DIALECTS)}")]


def _is_several(each: Any) -> bool:
    return isinstance(each, Mapping) and len(each) > 1 and all(dialect in DIALECTS for dialect in each)


def _expression_problems(text: Any, where: str, *, with_data: bool) -> list[Problem]:
    if not isinstance(text, str) or not _is_text(text):
        return [Problem(where, "must be a CESQL expression, as text")]
    try:
        node = parse(text, with_data=with_data)
        check_functions(text)
        truth(node, AttributeSql)  # its SQL must stay within bounds
    except Unreadable as error:
        return [Problem(where, error.message, error.position + 1)]
    except Rejected as error:
        return [Problem(where, error.message)]
    return []


def _value_map_problems(values: Any, where: str, *, may_be_empty: bool) -> list[Problem]:
    if not isinstance(values, Mapping) or (not values and not may_be_empty):
        return [Problem(where, "must be a map of attribute name to text, with at least one entry")]
    found = []
    for name, value in values.items():
        at = f"{where}.{name}"
        if not isinstance(name, str) or not NAME.match(name):
            found.append(Problem(at, "attribute names have only lower-case letters a-z and digits"))
        if not isinstance(value, str):
            found.append(Problem(at, f'the value must be text; write "{value}" in quotes'))
        elif len(value) > LONGEST_VALUE or not _is_text(value):
            found.append(Problem(at, f"the value must be valid text of at most {LONGEST_VALUE} characters"))
        elif not value and not may_be_empty:
            found.append(Problem(at, "the value must not be empty"))
    return found


def _is_text(value: str) -> bool:
    """Half a pair of surrogates is none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
