"""CESQL 1.0, the meaning: a tree becomes Spark SQL text, and the JVM evaluates it. The only implementation.

An expression always has a value and perhaps an error. In the SQL of an integer or a string an error is NULL, which
runs through everything around it as CESQL's fail-fast mode wants. A truth is a number, 0 false, 1 true, 2 an error,
and AND, OR, XOR and NOT look their results up in a table of two bits each that is itself a number: so every operand
stands in the SQL once, however deep they are nested, and ``FALSE AND error`` is false while ``error AND FALSE`` is
not. A filter needs no more (``matches``). To tell people the value and the name of the error, ``answer`` builds a
second expression beside the first.

    type = 'a' AND size > 5   ──▶   shiftright(172544, 2 * (3 * coalesce(cast(t = 'a' AS int), 2) + …)) & 3

All attributes that come over HTTP or in Kafka headers are strings. Where a format keeps integers and booleans, the
type is known only for each event, and what depends on it is decided there.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from penstock.errors import Rejected
from penstock.filter.cesql_syntax import Attribute, Binary, Call, Constant, Exists, In, Like, Node, Unary

Type = Literal["boolean", "integer", "string", "any"]

ZERO = {"boolean": "FALSE", "integer": "0", "string": "''", "any": "FALSE"}
LONGEST_SQL = 256 * 1024  # some operands do stand twice; what grows beyond this is nobody's honest filter
REQUIRED = ("specversion", "id", "source", "type")
WHITE = "[\\\\p{{IsWhite_Space}}]+"  # doubled braces: it stands in templates


@dataclass(frozen=True)
class AttributeSql:
    """An attribute in the query at hand: its text, NULL when the event lacks it."""

    text: str
    tag: str | None = None  # SQL for its type, 'i', 'b' or 's'; None: always a string


@dataclass(frozen=True)
class Answer:
    """SQL for what people see."""

    value: str  # text, never NULL
    type: str  # SQL for 'boolean', 'integer' or 'string'
    error: str  # NULL when there was none


@dataclass(frozen=True)
class Value:
    type: Type
    sql: str  # NULL, or of a boolean 2, when there was an error
    error: str | None = None  # SQL that names the first error, NULL when there was none; None: there is never one
    shown: str | None = None  # what people see when this very operation failed, else NULL; None: the type's zero
    tag: str | None = None  # of type any: SQL that gives 'i', 'b' or 's'


def literal(text: str) -> str:
    """Text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def matches(node: Node, attribute: Callable[[str], AttributeSql]) -> str:
    """SQL that is TRUE for the events that pass a filter, and FALSE for all others: never NULL."""
    value = _Compiler(attribute).value(node)
    if value.type in ("integer", "string"):
        return "FALSE"
    if value.type == "any":
        return f"coalesce({value.tag} = 'b' AND {value.sql} = 'true', FALSE)"
    return _bounded(f"({value.sql} = 1)")


def answer(node: Node, attribute: Callable[[str], AttributeSql]) -> Answer:
    value = _Compiler(attribute).value(node)
    shown = [f"cast({each} AS string)" for each in (value.shown, ZERO[value.type]) if each]
    found = f"CASE {value.sql} WHEN 0 THEN FALSE WHEN 1 THEN TRUE END" if value.type == "boolean" else value.sql
    text = _bounded(f"coalesce(cast({found} AS string), {', '.join(shown)})")
    kind = literal(value.type)
    if value.type == "any":
        known = f"CASE {value.tag} WHEN 'i' THEN 'integer' WHEN 'b' THEN 'boolean' ELSE 'string' END"
        kind = f"CASE WHEN {value.sql} IS NULL THEN 'boolean' ELSE {known} END"
    return Answer(text, kind, _bounded(value.error or "cast(NULL AS string)"))


class TooComplex(Rejected):
    """An expression that can be read, but whose SQL would strain Spark."""


def _bounded(sql: str) -> str:
    if len(sql) > LONGEST_SQL:
        raise TooComplex("the expression is too complex", hint="write it with fewer nested operations")
    return sql


# ── truths ────────────────────────────────────────────────────────────────────────────────────────────

FAILED = "2"


def _table(rows: str) -> int:
    """A table of truths as a number: two bits for each result, the first one lowest."""
    return sum(int(result) << 2 * place for place, result in enumerate(rows.replace(" ", "")))


# Rows: the left operand is 0, 1, 2; columns: the right one.
TABLES = {
    "AND": _table("000 012 222"),
    "OR": _table("012 111 222"),
    "XOR": _table("012 102 222"),
    "=": _table("102 012 222"),
}
NOT = _table("102")


def _looked_up(operator: str, left: str, right: str) -> str:
    return f"(shiftright({TABLES[operator]}, 2 * (3 * {left} + {right})) & 3)"


def _negated(truth: str) -> str:
    return f"(shiftright({NOT}, 2 * {truth}) & 3)"


def _truth(condition: str) -> str:
    """A condition of SQL, NULL when it failed, as a truth."""
    return f"coalesce(cast({condition} AS int), {FAILED})"


class _Compiler:
    def __init__(self, attribute: Callable[[str], AttributeSql]) -> None:
        self._attribute = attribute

    def value(self, node: Node) -> Value:
        match node:
            case Constant(bool(truth)):
                return Value("boolean", "1" if truth else "0")
            case Constant(int(whole)):
                return Value("integer", f"({whole})")
            case Constant(str(text)):
                return Value("string", literal(text))
            case Attribute(name):
                return self._attribute_value(name)
            case Exists(name):
                is_there = "1" if name in REQUIRED else f"cast({self._attribute(name).text} IS NOT NULL AS int)"
                return Value("boolean", is_there)
            case Unary("NOT", operand):
                return self._not(self.value(operand))
            case Unary(_, operand):
                number = self._to("integer", self.value(operand))
                return self._checked("integer", "try_subtract(0, {0})", [number], "math")
            case Binary(operator, left, right):
                return self._binary(operator, self.value(left), self.value(right))
            case Like(operand, pattern, is_negated):
                candidate = self._to("string", self.value(operand))
                condition = _truth(f"{candidate.sql} LIKE {literal(_spark_pattern(pattern))}")
                return Value("boolean", _negated(condition) if is_negated else condition, candidate.error)
            case In(operand, elements, is_negated):
                found = self._in(self.value(operand), [self.value(each) for each in elements])
                return replace(found, sql=_negated(found.sql)) if is_negated else found
            case Call(name, arguments):
                return self._call(name, [self.value(each) for each in arguments])
        raise AssertionError(f"no such node: {node!r}")

    # ── attributes and types ──────────────────────────────────────────────────────────────────────

    def _attribute_value(self, name: str) -> Value:
        found = self._attribute(name)
        error = f"CASE WHEN {found.text} IS NULL THEN 'missingAttribute' END"
        if found.tag is None:
            return Value("string", found.text, error, shown="FALSE")
        return Value("any", found.text, error, tag=found.tag)

    def _to(self, wanted: Type, value: Value) -> Value:
        """An implicit or explicit cast, by the same rules."""
        if value.type == wanted:
            return replace(value, shown=None)
        sql = _cast(wanted, value)
        if wanted == "string" or value.type in ("integer", "boolean"):
            return Value(wanted, sql, value.error)  # these casts cannot fail
        is_failed = f"{sql} = {FAILED}" if wanted == "boolean" else f"{sql} IS NULL"
        return Value(wanted, sql, _first(value.error, f"CASE WHEN {is_failed} THEN 'cast' END"))

    # ── operators ─────────────────────────────────────────────────────────────────────────────────

    def _not(self, value: Value) -> Value:
        # The official tests take an integer here for a failed cast, whose value, false, is then negated.
        if value.type == "integer":
            return Value(
                "boolean", FAILED, _first(value.error, "'cast'"), f"CASE WHEN {value.sql} IS NOT NULL THEN TRUE END"
            )
        truth = self._to("boolean", value)
        if value.type == "any":
            is_integer = f"{value.tag} = 'i'"
            error = _first(value.error, f"CASE WHEN {is_integer} THEN 'cast' END", truth.error)
            sql = f"CASE WHEN {is_integer} THEN {FAILED} ELSE {_negated(truth.sql)} END"
            return Value("boolean", sql, error)
        return Value("boolean", _negated(truth.sql), truth.error)

    def _binary(self, operator: str, left: Value, right: Value) -> Value:
        if operator in ("AND", "OR"):
            return self._short_circuit(operator, self._to("boolean", left), self._to("boolean", right))
        if operator == "XOR":
            x, y = self._to("boolean", left), self._to("boolean", right)
            return Value("boolean", _looked_up("XOR", x.sql, y.sql), _first(x.error, y.error))
        if operator in ("=", "!="):
            equal = self._equal(left, right)
            return replace(equal, sql=_negated(equal.sql)) if operator == "!=" else equal
        x, y = self._to("integer", left), self._to("integer", right)
        if operator in ("<", "<=", ">", ">="):
            return Value("boolean", _truth(f"{x.sql} {operator} {y.sql}"), _first(x.error, y.error))
        return self._checked("integer", ARITHMETIC[operator], [x, y], "math")

    def _short_circuit(self, operator: str, left: Value, right: Value) -> Value:
        sql = _looked_up(operator, left.sql, right.sql)
        if right.error is None:
            return Value("boolean", sql, left.error)
        decided = f"{left.sql} = {0 if operator == 'AND' else 1}"
        return Value("boolean", sql, _first(left.error, f"CASE WHEN {decided} THEN NULL ELSE {right.error} END"))

    def _equal(self, left: Value, right: Value) -> Value:
        """The type of the right side decides."""
        if right.type != "any":
            x = self._to(right.type, left)
            is_truth = right.type == "boolean"
            sql = _looked_up("=", x.sql, right.sql) if is_truth else _truth(f"{x.sql} = {right.sql}")
            return Value("boolean", sql, _first(x.error, right.error))
        return self._by_tag(
            right, lambda wanted: self._equal(left, self._to(wanted, right)), [left.error, right.error]
        )

    def _in(self, operand: Value, elements: list[Value]) -> Value:
        """The type of the left side decides; every element is evaluated."""
        if operand.type == "any":
            errors = [operand.error, *(each.error for each in elements)]
            return self._by_tag(operand, lambda wanted: self._in(self._to(wanted, operand), elements), errors)
        cast = [self._to(operand.type, each) for each in elements]
        found = f"{operand.sql} IN ({', '.join(each.sql for each in cast)})"
        failure = "{} = 2" if operand.type == "boolean" else "{} IS NULL"
        fallible = [failure.format(each.sql) for each in (operand, *cast) if each.error]
        failed = f"WHEN {' OR '.join(fallible)} THEN {FAILED} " if fallible else ""
        sql = f"CASE {failed}WHEN {found} THEN 1 ELSE 0 END"
        return Value("boolean", sql, _first(operand.error, *(each.error for each in cast)))

    def _by_tag(self, tagged: Value, build: Callable[[Type], Value], errors: list[str | None]) -> Value:
        integer, boolean, text = build("integer"), build("boolean"), build("string")
        choose = f"CASE {tagged.tag} WHEN 'i' THEN {{}} WHEN 'b' THEN {{}} ELSE {{}} END"
        sql = choose.format(integer.sql, boolean.sql, text.sql)
        chosen = choose.format(*(each.error or "NULL" for each in (integer, boolean, text)))
        return Value("boolean", sql, _first(*errors, chosen))

    # ── functions ─────────────────────────────────────────────────────────────────────────────────

    def _call(self, name: str, arguments: list[Value]) -> Value:
        if name in CASTS and len(arguments) == 1:
            return self._to(CASTS[name], arguments[0])
        if name in ("CONCAT", "CONCAT_WS"):
            return self._concat(name, arguments)
        found = FUNCTIONS.get((name, len(arguments)))
        if found is None:
            return Value("boolean", FAILED, "'missingFunction'")
        cast = [self._to(type_, each) for type_, each in zip(found.arguments, arguments, strict=True)]
        return self._checked(found.result, found.sql, cast, found.error, found.shown)

    def _concat(self, name: str, arguments: list[Value]) -> Value:
        texts = [self._to("string", each) for each in arguments]
        error = _first(*(each.error for each in texts))
        if name == "CONCAT":
            return Value("string", f"concat({', '.join(each.sql for each in texts)})" if texts else "''", error)
        if not texts:
            return Value("boolean", FAILED, "'missingFunction'")
        delimiter, rest = texts[0], texts[1:]
        parts = [part for each in rest for part in (delimiter.sql, each.sql)][1:]
        if len(rest) < 2:  # the delimiter is not used, but may have failed
            parts = [f"CASE WHEN {delimiter.sql} IS NOT NULL THEN '' END", *parts]
        return Value("string", f"concat({', '.join(parts)})", error)

    def _checked(
        self, result: Type, template: str, operands: list[Value], error: str, shown: str | None = None
    ) -> Value:
        """An operation that is NULL when it fails itself."""
        columns = [each.sql for each in operands]
        sql = template.format(*columns)
        own = f"CASE WHEN {sql} IS NULL THEN '{error}' END" if error else None
        return Value(result, sql, _first(*(each.error for each in operands), own), shown and shown.format(*columns))


CASTS: dict[str, Type] = {"INT": "integer", "BOOL": "boolean", "STRING": "string"}

ARITHMETIC = {
    "+": "try_add({0}, {1})",
    "-": "try_subtract({0}, {1})",
    "*": "try_multiply({0}, {1})",
    "/": "CASE WHEN {1} <> 0 THEN try_cast({0} DIV {1} AS int) END",
    "%": "CASE WHEN {1} <> 0 THEN {0} % {1} END",
}


@dataclass(frozen=True)
class Function:
    result: Type
    arguments: tuple[Type, ...]
    sql: str  # a template; NULL when the function itself fails
    error: str = ""  # the name of that failure; empty: it cannot fail
    shown: str | None = None  # a template, see Value


_BEYOND = "abs({1}) > char_length({0})"
_AT_LEAST_0 = "CASE WHEN {{1}} >= 0 THEN {}({{0}}, {{1}}) END"
_WHOLE = "CASE WHEN {1} < 0 THEN {0} END"

# By name and number of arguments.
FUNCTIONS = {
    ("LENGTH", 1): Function("integer", ("string",), "char_length({0})"),
    ("LOWER", 1): Function("string", ("string",), "lower({0})"),
    ("UPPER", 1): Function("string", ("string",), "upper({0})"),
    ("TRIM", 1): Function("string", ("string",), f"regexp_replace({{0}}, '\\\\A{WHITE}|{WHITE}\\\\z', '')"),
    ("ABS", 1): Function(
        "integer",
        ("integer",),
        "CASE WHEN {0} <> (-2147483648) THEN abs({0}) END",
        "math",
        "CASE WHEN {0} IS NOT NULL THEN 2147483647 END",
    ),
    ("LEFT", 2): Function("string", ("string", "integer"), _AT_LEAST_0.format("left"), "functionEvaluation", _WHOLE),
    ("RIGHT", 2): Function(
        "string", ("string", "integer"), _AT_LEAST_0.format("right"), "functionEvaluation", _WHOLE
    ),
    ("SUBSTRING", 2): Function(
        "string",
        ("string", "integer"),
        f"CASE WHEN {{1}} = 0 THEN '' WHEN {_BEYOND} THEN NULL ELSE substring({{0}}, {{1}}) END",
        "functionEvaluation",
    ),
    ("SUBSTRING", 3): Function(
        "string",
        ("string", "integer", "integer"),
        f"CASE WHEN {{2}} < 0 THEN NULL WHEN {{1}} = 0 THEN '' WHEN {_BEYOND} THEN NULL "
        "ELSE substring({0}, {1}, {2}) END",
        "functionEvaluation",
    ),
}


def _cast(wanted: Type, value: Value) -> str:
    match wanted, value.type:
        case "string", "any":
            return value.sql
        case "string", "boolean":
            return f"CASE {value.sql} WHEN 0 THEN 'false' WHEN 1 THEN 'true' END"
        case "string", _:
            return f"cast({value.sql} AS string)"
        case "integer", "boolean":
            return f"CASE {value.sql} WHEN 0 THEN 0 WHEN 1 THEN 1 END"
        case "boolean", "integer":
            return _truth(f"{value.sql} <> 0")
        case "integer", "string":
            return _integer_of_text(value.sql)
        case "boolean", "string":
            return _truth_of_text(value.sql)
        case "integer", "any":
            from_text = _integer_of_text(value.sql)
            return f"CASE WHEN {value.tag} = 'b' THEN cast({value.sql} = 'true' AS int) ELSE {from_text} END"
        case "boolean", "any":
            from_integer = _truth(f"{value.sql} <> '0'")
            return f"CASE WHEN {value.tag} = 'i' THEN {from_integer} ELSE {_truth_of_text(value.sql)} END"
    raise AssertionError(f"no cast from {value.type} to {wanted}")


def _integer_of_text(sql: str) -> str:
    """Spark alone would take blanks around the digits."""
    return f"CASE WHEN {sql} RLIKE '\\\\A[+-]?[0-9]+\\\\z' THEN try_cast({sql} AS int) END"


def _truth_of_text(sql: str) -> str:
    return f"CASE lower({sql}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE {FAILED} END"


def _spark_pattern(pattern: str) -> str:
    """A pattern of ours as one of Spark's, where a backslash must always escape something."""
    found = []
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            if pattern[at + 1 : at + 2] in ("%", "_"):
                found.append(pattern[at : at + 2])
                at += 2
                continue
            found.append("\\\\")
        else:
            found.append(pattern[at])
        at += 1
    return "".join(found)


def _first(*errors: str | None) -> str | None:
    """The first error there is."""
    real = [each for each in errors if each]
    if not real:
        return None
    return real[0] if len(real) == 1 else f"coalesce({', '.join(real)})"
