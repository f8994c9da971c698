"""The filters of one subscription as conditions in Spark's SQL: all of them must hold.

In: filters as the contract carries them, and how attributes are written in the query at hand. Out: a list of
conditions, taken apart as far as they go, so that ``matching`` can find some of them in a table and compute those
that several subscriptions share only once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

from penstock.event.model import REQUIRED
from penstock.filter.cesql_sql import AttributeSql, truth
from penstock.filter.cesql_syntax import DATA_DIALECT, Attribute, Binary, Constant, In, Node, terms
from penstock.filter.cesql_values import FIRST_ERROR
from penstock.filter.sql_text import literal


class Names(Protocol):
    """How the attributes of an event are written in the query at hand."""

    def text(self, name: str) -> str:
        """Its text, NULL when the event lacks it."""

    def typed(self, name: str) -> AttributeSql:
        """For CESQL, which knows types; a name that begins with $ is a path into the data."""

    def once(self, sql: str) -> str:
        """A column that holds this, for what is needed more than once."""


@dataclass(frozen=True)
class Key:
    """What an event must have for a condition to hold: one of these values in this attribute."""

    attribute: str
    values: frozenset[str]


@dataclass(frozen=True)
class Condition:
    sql: str  # TRUE or FALSE, never NULL
    error: str | None = None  # SQL for the number of its error, NULL when there was none; None: it cannot fail
    truth: str | None = None  # of a CESQL expression that can fail: 0, 1, or the number of its error
    keys: tuple[Key, ...] = ()
    is_all_in_key: bool = False  # its only key says it all


def conditions_of(filters: Iterable[Mapping[str, Any]], names: Names) -> list[Condition]:
    """No filter at all: no condition, and everything matches."""
    return [condition for each in filters for condition in _conditions(each, names)]


def _conditions(each: Mapping[str, Any], names: Names) -> list[Condition]:
    dialect, body = next(iter(each.items()))
    match dialect:
        case "attributes":  # the older form: an empty value asks only that the attribute is there
            return [_equal(name, value, names) if value else _there(name, names) for name, value in body.items()]
        case "exact":
            return [_equal(name, value, names) for name, value in body.items()]
        case "prefix" | "suffix":
            function = "startswith" if dialect == "prefix" else "endswith"
            return [
                Condition(f"coalesce({function}({names.text(name)}, {literal(value)}), FALSE)")
                for name, value in body.items()
            ]
        case "all":
            return conditions_of(body, names)
        case "any":
            return [_either([in_columns(_conditions(inner, names), names) for inner in body])]
        case "not":
            inner = in_columns(_conditions(body, names), names)
            return [Condition(f"(NOT {every(inner)})", errors_of(inner))]
        case "cesql":
            return _cesql(body, names, with_data=False)
    if dialect == DATA_DIALECT:
        return _cesql(body, names, with_data=True)
    raise ValueError(f"a filter of dialect {dialect!r} passed the check but cannot be compiled")


def every(conditions: Sequence[Condition]) -> str:
    return f"({' AND '.join(each.sql for each in conditions)})" if conditions else "TRUE"


def errors_of(conditions: Iterable[Condition]) -> str | None:
    """The first error among them, whether or not the others hold."""
    found = list(dict.fromkeys(each.error for each in conditions if each.error))
    return f"coalesce({', '.join(found)})" if found else None


def _equal(name: str, value: str, names: Names) -> Condition:
    sql = f"({names.text(name)} <=> {literal(value)})"
    return Condition(sql, keys=(Key(name, frozenset([value])),), is_all_in_key=True)


def _there(name: str, names: Names) -> Condition:
    return Condition(f"({names.text(name)} IS NOT NULL)")


def _either(branches: list[list[Condition]]) -> Condition:
    """Has a key when every branch asks for values of the same attribute."""
    sql = f"({' OR '.join(every(branch) for branch in branches)})"
    error = errors_of(condition for branch in branches for condition in branch)
    keys_of_branches = [[key for condition in branch for key in condition.keys] for branch in branches]
    common = reduce(lambda a, b: a & b, ({key.attribute for key in keys} for keys in keys_of_branches))
    keys = []
    for name in sorted(common):
        values = (next(key.values for key in keys if key.attribute == name) for keys in keys_of_branches)
        keys.append(Key(name, frozenset().union(*values)))
    is_all = len(keys) == 1 and all(len(branch) == 1 and branch[0].is_all_in_key for branch in branches)
    return Condition(sql, error, keys=tuple(keys), is_all_in_key=is_all)


def _cesql(text: str, names: Names, *, with_data: bool) -> list[Condition]:
    """The terms that ANDs join. Those that can fail stay together, since a failure depends on their order."""
    found = []
    fallible: list[Node] = []
    joined = terms(text, with_data=with_data)
    is_operand = len(joined) > 1
    for term in joined:
        value = truth(term.node, names.typed, is_operand=is_operand)
        if value.condition is not None:
            key = _key_of(term.node)
            found.append(Condition(value.condition, keys=(key,) if key else (), is_all_in_key=key is not None))
        else:
            fallible.append(term.node)
    if fallible:
        chain = reduce(lambda right, left: Binary("AND", left, right), reversed(fallible))
        found.append(_fallible(truth(chain, names.typed, is_operand=is_operand).sql))
    return found


def _fallible(truth_sql: str) -> Condition:
    error = f"CASE WHEN {truth_sql} >= {FIRST_ERROR} THEN {truth_sql} END"
    return Condition(f"({truth_sql} = 1)", error, truth_sql)


def in_columns(conditions: Sequence[Condition], names: Names) -> list[Condition]:
    """The same, with what can fail in columns of its own: whoever asks for match and error asks twice."""
    return [each if each.truth is None else _fallible(names.once(each.truth)) for each in conditions]


def _key_of(node: Node) -> Key | None:
    """Of ``type = 'a'``, ``type IN ('a', 'b')`` and ORs of such; only of attributes that every event has."""
    match node:
        case Binary("=", Attribute(name), Constant(str(value))) | Binary("=", Constant(str(value)), Attribute(name)):
            return Key(name, frozenset([value])) if name in REQUIRED else None
        case In(Attribute(name), elements, False) if name in REQUIRED:
            values = [each.value for each in elements if isinstance(each, Constant) and isinstance(each.value, str)]
            return Key(name, frozenset(values)) if len(values) == len(elements) else None
        case Binary("OR", left, right):
            a, b = _key_of(left), _key_of(right)
            return Key(a.attribute, a.values | b.values) if a and b and a.attribute == b.attribute else None
    return None
