"""CESQL 1.0, the meaning: a tree becomes Spark SQL text, and the JVM evaluates it. The only implementation.

    type = 'a' AND size > 5   ──▶   CASE WHEN (t = 'a') THEN coalesce(cast(<size as an integer> > 5 AS int),
                                                                      <its error>) ELSE 0 END

How values, errors and truths are written is in ``cesql_values``, what functions do in ``cesql_functions``. All
attributes that come over HTTP or in Kafka headers are strings. Where a format keeps integers and booleans, the type
is known only for each event, and what depends on it is decided there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import Rejected
from penstock.event.model import REQUIRED
from penstock.filter.cesql_functions import ARITHMETIC, CASTS, FUNCTIONS
from penstock.filter.cesql_syntax import Attribute, Binary, Call, Constant, Exists, In, Like, Node, Unary
from penstock.filter.cesql_values import (
    CAST,
    MATH,
    MISSING_ATTRIBUTE,
    MISSING_FUNCTION,
    Type,
    Value,
    cast,
    chosen,
    condition_of,
    exclusive,
    failing,
    joined,
    negated,
    of_condition,
)
from penstock.filter.like import like
from penstock.filter.sql_text import literal
from penstock.filter.work import LONGEST_TEXT, longest

ZERO = {"boolean": "FALSE", "integer": "0", "string": "''", "any": "FALSE"}
LONGEST_SQL = 32 * 1024  # some operands stand twice; what grows beyond this is nobody's honest filter


@dataclass(frozen=True)
class AttributeSql:
    """An attribute in the query at hand: its text, NULL when the event lacks it."""

    text: str
    tag: str | None = None  # SQL for its type, 'i', 'b', 's' or 'n' (another number); None: always a string
    number: str | None = None  # SQL for the number it is, NULL if it is none; None: it has only integers
    is_always_there: bool = False


@dataclass(frozen=True)
class Truth:
    """SQL for what a filter asks."""

    sql: str  # 0 does not match, 1 matches, else the number of an error: never NULL
    condition: str | None = None  # the same as TRUE or FALSE; None when there may be an error


@dataclass(frozen=True)
class Answer:
    """SQL for what people see."""

    value: str  # text, never NULL
    type: str  # SQL for 'boolean', 'integer' or 'string'
    error: str  # its number, NULL when there was none


def truth(node: Node, attribute: Callable[[str], AttributeSql], *, is_operand: bool = False) -> Truth:
    """A filter's expression: what is no Boolean does not match. As an operand of AND it is cast to one first."""
    value = _Compiler(attribute).value(node)
    if is_operand:
        value = cast("boolean", value)
    if value.type == "boolean":
        return Truth(_bounded(value.sql), condition_of(value) if value.error is None else None)
    found = f"{value.tag} = 'b' AND {value.sql} = 'true'" if value.type == "any" else "FALSE"
    if value.error is None:
        return Truth(f"cast(({found}) AS int)", f"({found})")
    return Truth(_bounded(f"CASE WHEN {value.failed} THEN {value.error} ELSE cast(({found}) AS int) END"))


def answer(node: Node, attribute: Callable[[str], AttributeSql]) -> Answer:
    value = _Compiler(attribute).value(node)
    shown = [f"cast({each} AS string)" for each in (value.shown, ZERO[value.type]) if each]
    found = f"CASE {value.sql} WHEN 0 THEN FALSE WHEN 1 THEN TRUE END" if value.type == "boolean" else value.sql
    text = _bounded(f"coalesce(cast({found} AS string), {', '.join(shown)})")
    kind = literal(value.type)
    if value.type == "any":
        known = f"CASE {value.tag} WHEN 'i' THEN 'integer' WHEN 'b' THEN 'boolean' ELSE 'string' END"
        kind = f"CASE WHEN {value.sql} IS NULL THEN 'boolean' ELSE {known} END"
    error = f"CASE WHEN {value.failed} THEN {value.error} END" if value.error else "cast(NULL AS int)"
    return Answer(text, kind, _bounded(error))


class TooComplex(Rejected):
    """An expression that can be read, but whose SQL would strain Spark."""


def _bounded(sql: str) -> str:
    if len(sql) > LONGEST_SQL:
        raise TooComplex("the expression is too complex", hint="write it with fewer nested operations")
    return sql


class _Compiler:
    def __init__(self, attribute: Callable[[str], AttributeSql]) -> None:
        self._attribute = attribute

    def value(self, node: Node) -> Value:
        found = self._value(node)
        _bounded(found.sql)  # at every node: what grows, grows with each level
        _bounded(found.error or "")
        return found

    def _value(self, node: Node) -> Value:
        match node:
            case Constant(bool(truth)):
                return Value("boolean", "1" if truth else "0")
            case Constant(int(whole)):
                return Value("integer", f"({whole})")
            case Constant(str(text)):
                return Value("string", literal(text))
            case Attribute(name):
                return self._attribute_value(name)
            case Exists(name) if name in REQUIRED:
                return Value("boolean", "1")
            case Exists(name):
                return of_condition(f"{self._attribute(name).text} IS NOT NULL", [])
            case Unary("NOT", operand):
                return self._negated(self.value(operand))
            case Unary(_, operand):
                number = cast("integer", self.value(operand))
                return self._checked("integer", "try_subtract(0, {0})", [number], MATH)
            case Binary(operator, left, right):
                return self._binary(operator, self.value(left), self.value(right))
            case Like(operand, pattern, is_negated):
                candidate = cast("string", self.value(operand))
                found = of_condition(like(candidate.sql, pattern), [candidate])
                return negated(found) if is_negated else found
            case In(operand, elements, is_negated):
                found = self._in(self.value(operand), [self.value(each) for each in elements])
                return negated(found) if is_negated else found
            case Call(name, arguments):
                if name in ("CONCAT", "CONCAT_WS") and longest(node) > LONGEST_TEXT:
                    raise TooComplex(
                        f"{name} could make a text of more than {LONGEST_TEXT} characters",
                        hint="join fewer attributes",
                    )
                return self._call(name, [self.value(each) for each in arguments])
        raise AssertionError(f"no such node: {node!r}")

    # ── attributes and types ──────────────────────────────────────────────────────────────────────

    def _attribute_value(self, name: str) -> Value:
        found = self._attribute(name)
        error = None if found.is_always_there else MISSING_ATTRIBUTE
        if found.tag is None:
            return Value("string", found.text, error, shown="FALSE")
        return Value("any", found.text, error, tag=found.tag, number=found.number)

    def _number(self, value: Value) -> Value:
        """For comparing with JSON's numbers, which are not all integers; the type is ours alone."""
        integer = cast("integer", value)
        if value.number is None:
            return Value("integer", f"cast({integer.sql} AS double)", integer.error)
        return Value("integer", f"coalesce({value.number}, cast({integer.sql} AS double))", failing([value], CAST))

    # ── operators ─────────────────────────────────────────────────────────────────────────────────

    def _negated(self, value: Value) -> Value:
        # The official tests take an integer here for a failed cast, whose value, false, is then negated.
        if value.type == "integer":
            shown = f"CASE WHEN {value.sql} IS NOT NULL THEN TRUE END"
            error = failing([value], CAST) or CAST
            return Value("boolean", error, error, shown)
        truth = cast("boolean", value)
        if value.type == "any":
            sql = f"CASE WHEN {value.tag} = 'i' THEN {CAST} ELSE {negated(truth).sql} END"
            return Value("boolean", sql, sql)
        return negated(truth)

    def _binary(self, operator: str, left: Value, right: Value) -> Value:
        if operator == "XOR":
            return exclusive(cast("boolean", left), cast("boolean", right))
        if operator in ("AND", "OR"):
            return joined(operator, cast("boolean", left), cast("boolean", right))
        if operator == "=":
            return self._equal(left, right)
        if operator == "!=":
            return negated(self._equal(left, right))
        if operator in ("<", "<=", ">", ">="):
            compare_numbers = left.number or right.number
            x, y = (self._number(each) if compare_numbers else cast("integer", each) for each in (left, right))
            return of_condition(f"{x.sql} {operator} {y.sql}", [x, y])
        return self._checked("integer", ARITHMETIC[operator], [cast("integer", left), cast("integer", right)], MATH)

    def _equal(self, left: Value, right: Value) -> Value:
        """The type of the right side decides."""
        if right.type == "any":
            return self._by_tag(right, [left, right], lambda wanted: self._equal(left, cast(wanted, right)))
        x = cast(right.type, left)
        if right.type != "boolean":
            return of_condition(f"{x.sql} = {right.sql}", [x, right])
        sql = chosen(x.sql, negated(right).sql, right.sql)
        return Value("boolean", sql, sql if x.error or right.error else None)

    def _in(self, operand: Value, elements: list[Value]) -> Value:
        """The type of the left side decides; every element is evaluated."""
        if operand.type == "any":
            return self._by_tag(
                operand, [operand, *elements], lambda wanted: self._in(cast(wanted, operand), elements)
            )
        values = [operand, *(cast(operand.type, each) for each in elements)]
        found = f"{operand.sql} IN ({', '.join(each.sql for each in values[1:])})"
        failures = [each.failed for each in values if each.error]
        if not failures:
            return of_condition(found, [])
        error = failing(values)
        if len(failures) == 1 and operand.error and operand.type != "boolean":
            return of_condition(found, [operand])  # NULL IN (…) is NULL
        return Value(
            "boolean", f"CASE WHEN {' OR '.join(failures)} THEN {error} WHEN {found} THEN 1 ELSE 0 END", error
        )

    def _by_tag(self, tagged: Value, operands: list[Value], build: Callable[[Type], Value]) -> Value:
        """``tagged`` is one of the operands, and its type is known only for each event."""
        integer, boolean, text = build("integer"), build("boolean"), build("string")
        sql = f"CASE {tagged.tag} WHEN 'i' THEN {integer.sql} WHEN 'b' THEN {boolean.sql} ELSE {text.sql} END"
        missing = [f"WHEN {each.failed} THEN {each.error}" for each in operands if each.error]
        if tagged.error:  # it has no tag then
            sql = f"CASE {' '.join(missing)} ELSE {sql} END"
        return Value("boolean", sql, sql)

    # ── functions ─────────────────────────────────────────────────────────────────────────────────

    def _call(self, name: str, arguments: list[Value]) -> Value:
        if name in CASTS and len(arguments) == 1:
            return cast(CASTS[name], arguments[0])
        if name in ("CONCAT", "CONCAT_WS"):
            return self._concat(name, arguments)
        found = FUNCTIONS.get((name, len(arguments)))
        if found is None:
            return Value("boolean", MISSING_FUNCTION, MISSING_FUNCTION)
        given = [cast(type_, each) for type_, each in zip(found.arguments, arguments, strict=True)]
        return self._checked(found.result, found.sql, given, found.error, found.shown)

    def _concat(self, name: str, arguments: list[Value]) -> Value:
        texts = [cast("string", each) for each in arguments]
        if name == "CONCAT":
            sql = f"concat({', '.join(each.sql for each in texts)})" if texts else "''"
            return Value("string", sql, failing(texts))
        if not texts:
            return Value("boolean", MISSING_FUNCTION, MISSING_FUNCTION)
        delimiter, rest = texts[0], texts[1:]
        parts = [part for each in rest for part in (delimiter.sql, each.sql)][1:]
        if len(rest) < 2:  # the delimiter is not used, but may have failed
            parts = [f"CASE WHEN {delimiter.sql} IS NOT NULL THEN '' END", *parts]
        return Value("string", f"concat({', '.join(parts)})", failing(texts))

    def _checked(
        self, result: Type, template: str, operands: list[Value], error: str | None, shown: str | None = None
    ) -> Value:
        """An operation that is NULL when it fails itself."""
        columns = [each.sql for each in operands]
        return Value(result, template.format(*columns), failing(operands, error), shown and shown.format(*columns))
