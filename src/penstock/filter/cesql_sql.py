"""CESQL 1.0, the meaning: a tree becomes Spark SQL text, and the JVM evaluates it. The only implementation.

An expression always has a value and perhaps an error. In the SQL of an integer or a string an error is NULL, which
runs through everything around it as CESQL's fail-fast mode wants. A truth is a number: 0 false, 1 true, and from 2 on
the number of an error, so that a filter learns in one go whether an event matches and, if not, what went wrong.

    type = 'a' AND size > 5   ──▶   CASE WHEN cast(t = 'a' AS int) = 1
                                    THEN coalesce(cast(<size as an integer> > 5 AS int), <its error>) ELSE 0 END

All attributes that come over HTTP or in Kafka headers are strings. Where a format keeps integers and booleans, the
type is known only for each event, and what depends on it is decided there.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from penstock.errors import Rejected
from penstock.filter.cesql_syntax import (
    Attribute,
    Binary,
    Call,
    Constant,
    Exists,
    In,
    Like,
    Node,
    Unary,
    Unreadable,
    calls,
)

Type = Literal["boolean", "integer", "string", "any"]

# The numbers of errors are their places here, from FIRST_ERROR on.
ERRORS = ("math", "cast", "missingAttribute", "missingFunction", "functionEvaluation", "generic")
FIRST_ERROR = 2
MATH, CAST, MISSING_ATTRIBUTE, MISSING_FUNCTION, FUNCTION = (str(FIRST_ERROR + place) for place in range(5))

ZERO = {"boolean": "FALSE", "integer": "0", "string": "''", "any": "FALSE"}
LONGEST_SQL = 32 * 1024  # some operands stand twice; what grows beyond this is nobody's honest filter
SHORT_SQL = 400  # an operand that may stand twice
REQUIRED = ("specversion", "id", "source", "type")
WHITE = "[\\\\p{{IsWhite_Space}}]+"  # doubled braces: it stands in templates


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
    condition: str | None = None  # the same as TRUE or FALSE, when there is never an error
    can_fail: bool = True


@dataclass(frozen=True)
class Answer:
    """SQL for what people see."""

    value: str  # text, never NULL
    type: str  # SQL for 'boolean', 'integer' or 'string'
    error: str  # its number, NULL when there was none


@dataclass(frozen=True)
class Value:
    type: Type
    sql: str  # NULL when there was an error; of a boolean, the number of the error
    error: str | None = None  # SQL for the number of the error, if there was one; None: there is never one
    shown: str | None = None  # what people see when this very operation failed, else NULL; None: the type's zero
    tag: str | None = None  # of type any: SQL that gives 'i', 'b', 's' or 'n'
    number: str | None = None  # of type any, as in AttributeSql
    condition: str | None = None  # of a boolean: TRUE, FALSE, or NULL when there was an error, if that is simpler

    @property
    def failed(self) -> str:
        """SQL that tells whether there was an error."""
        return f"{self.sql} >= {FIRST_ERROR}" if self.type == "boolean" else f"{self.sql} IS NULL"


def literal(text: str) -> str:
    """Text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def truth(node: Node, attribute: Callable[[str], AttributeSql], *, is_operand: bool = False) -> Truth:
    """A filter's expression: what is no Boolean does not match. As an operand of AND it is cast to one first."""
    compiler = _Compiler(attribute)
    value = compiler.value(node)
    if is_operand:
        value = compiler.to("boolean", value)
    if value.type == "boolean":
        condition = (value.condition or f"({value.sql} = 1)") if value.error is None else None
        return Truth(_bounded(value.sql), condition, value.error is not None)
    found = f"{value.tag} = 'b' AND {value.sql} = 'true'" if value.type == "any" else "FALSE"
    if value.error is None:
        return Truth(f"cast(({found}) AS int)", f"({found})", can_fail=False)
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


def _failing(operands: list[Value], own: str | None = None) -> str | None:
    """The number of the error of an operation that failed: that of the first operand that did, else its own."""
    causes = [each for each in operands if each.error]
    if not causes:
        return own
    last = own or causes.pop().error
    assert last is not None
    if all(each.error == last for each in causes):
        return last
    branches = " ".join(f"WHEN {each.failed} THEN {each.error}" for each in causes)
    return f"CASE {branches} ELSE {last} END"


# ── truths ────────────────────────────────────────────────────────────────────────────────────────────

_ERROR_NUMBERS = ", ".join(str(FIRST_ERROR + place) for place in range(len(ERRORS)))


def _chosen(left: str, if_false: str, if_true: str) -> str:
    """One of two by a truth, or its error; ``left`` stands twice only when it is short."""
    if len(left) <= SHORT_SQL:
        return f"CASE {left} WHEN 0 THEN {if_false} WHEN 1 THEN {if_true} ELSE {left} END"
    return f"get(array({if_false}, {if_true}, {_ERROR_NUMBERS}), {left})"


def _of_condition(condition: str, operands: list[Value]) -> Value:
    """A truth from a condition of SQL, which is NULL when one of the operands failed."""
    error = _failing(operands)
    if error is None:
        return Value("boolean", f"cast({condition} AS int)", condition=f"({condition})")
    return Value("boolean", f"coalesce(cast({condition} AS int), {error})", error, condition=f"({condition})")


def _and(left: Value, right: Value) -> Value:
    if left.error is None and right.error is None:
        return _of_condition(f"{_condition(left)} AND {_condition(right)}", [])
    if left.error is None:
        sql = f"CASE WHEN {_condition(left)} THEN {right.sql} ELSE 0 END"
    elif len(left.sql) <= SHORT_SQL:
        sql = f"CASE WHEN {left.sql} = 1 THEN {right.sql} ELSE {left.sql} END"
    else:
        sql = _chosen(left.sql, "0", right.sql)
    return Value("boolean", sql, sql)


def _or(left: Value, right: Value) -> Value:
    if left.error is None and right.error is None:
        return _of_condition(f"{_condition(left)} OR {_condition(right)}", [])
    if left.error is None:
        sql = f"CASE WHEN {_condition(left)} THEN 1 ELSE {right.sql} END"
    elif len(left.sql) <= SHORT_SQL:
        sql = f"CASE WHEN {left.sql} = 0 THEN {right.sql} ELSE {left.sql} END"
    else:
        sql = _chosen(left.sql, right.sql, "1")
    return Value("boolean", sql, sql)


def _xor(left: Value, right: Value) -> Value:
    sql = _chosen(left.sql, right.sql, _not(right).sql)
    return Value("boolean", sql, sql if left.error or right.error else None)


def _not(truth: Value) -> Value:
    if truth.condition is not None:
        return replace(_of_condition(f"NOT {truth.condition}", [truth]), error=truth.error)
    sql = _chosen(truth.sql, "1", "0")
    return Value("boolean", sql, sql if truth.error else None)


def _condition(truth: Value) -> str:
    return truth.condition or f"({truth.sql} = 1)"


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
                return _of_condition(f"{self._attribute(name).text} IS NOT NULL", [])
            case Unary("NOT", operand):
                return self._negated(self.value(operand))
            case Unary(_, operand):
                number = self.to("integer", self.value(operand))
                return self._checked("integer", "try_subtract(0, {0})", [number], MATH)
            case Binary(operator, left, right):
                return self._binary(operator, self.value(left), self.value(right))
            case Like(operand, pattern, is_negated):
                candidate = self.to("string", self.value(operand))
                found = _of_condition(f"{candidate.sql} LIKE {literal(_spark_pattern(pattern))}", [candidate])
                return _not(found) if is_negated else found
            case In(operand, elements, is_negated):
                found = self._in(self.value(operand), [self.value(each) for each in elements])
                return _not(found) if is_negated else found
            case Call(name, arguments):
                return self._call(name, [self.value(each) for each in arguments])
        raise AssertionError(f"no such node: {node!r}")

    # ── attributes and types ──────────────────────────────────────────────────────────────────────

    def _attribute_value(self, name: str) -> Value:
        found = self._attribute(name)
        error = None if found.is_always_there else MISSING_ATTRIBUTE
        if found.tag is None:
            return Value("string", found.text, error, shown="FALSE")
        return Value("any", found.text, error, tag=found.tag, number=found.number)

    def to(self, wanted: Type, value: Value) -> Value:
        """An implicit or explicit cast, by the same rules."""
        if value.type == wanted:
            return replace(value, shown=None)
        if wanted == "boolean":
            return _truth_of(value)
        sql = _cast(wanted, value)
        if wanted == "string" or value.type in ("integer", "boolean"):
            return Value(wanted, sql, value.error)  # these casts cannot fail
        return Value(wanted, sql, _failing([value], CAST))

    def _number(self, value: Value) -> Value:
        """For comparing with JSON's numbers, which are not all integers; the type is ours alone."""
        integer = self.to("integer", value)
        if value.number is None:
            return Value("integer", f"cast({integer.sql} AS double)", integer.error)
        return Value("integer", f"coalesce({value.number}, cast({integer.sql} AS double))", _failing([value], CAST))

    # ── operators ─────────────────────────────────────────────────────────────────────────────────

    def _negated(self, value: Value) -> Value:
        # The official tests take an integer here for a failed cast, whose value, false, is then negated.
        if value.type == "integer":
            shown = f"CASE WHEN {value.sql} IS NOT NULL THEN TRUE END"
            error = _failing([value], CAST) or CAST
            return Value("boolean", error, error, shown)
        truth = self.to("boolean", value)
        if value.type == "any":
            sql = f"CASE WHEN {value.tag} = 'i' THEN {CAST} ELSE {_not(truth).sql} END"
            return Value("boolean", sql, sql)
        return _not(truth)

    def _binary(self, operator: str, left: Value, right: Value) -> Value:
        if operator in ("AND", "OR", "XOR"):
            return LOGIC[operator](self.to("boolean", left), self.to("boolean", right))
        if operator == "=":
            return self._equal(left, right)
        if operator == "!=":
            return _not(self._equal(left, right))
        if operator in ("<", "<=", ">", ">="):
            to_number = self._number if left.number or right.number else lambda value: self.to("integer", value)
            x, y = to_number(left), to_number(right)
            return _of_condition(f"{x.sql} {operator} {y.sql}", [x, y])
        return self._checked(
            "integer", ARITHMETIC[operator], [self.to("integer", left), self.to("integer", right)], MATH
        )

    def _equal(self, left: Value, right: Value) -> Value:
        """The type of the right side decides."""
        if right.type == "any":
            return self._by_tag(right, [left, right], lambda wanted: self._equal(left, self.to(wanted, right)))
        x = self.to(right.type, left)
        if right.type != "boolean":
            return _of_condition(f"{x.sql} = {right.sql}", [x, right])
        sql = _chosen(x.sql, _not(right).sql, right.sql)
        return Value("boolean", sql, sql if x.error or right.error else None)

    def _in(self, operand: Value, elements: list[Value]) -> Value:
        """The type of the left side decides; every element is evaluated."""
        if operand.type == "any":
            return self._by_tag(
                operand, [operand, *elements], lambda wanted: self._in(self.to(wanted, operand), elements)
            )
        values = [operand, *(self.to(operand.type, each) for each in elements)]
        found = f"{operand.sql} IN ({', '.join(each.sql for each in values[1:])})"
        failures = [each.failed for each in values if each.error]
        if not failures:
            return _of_condition(found, [])
        error = _failing(values)
        if len(failures) == 1 and operand.error and operand.type != "boolean":
            return _of_condition(found, [operand])  # NULL IN (…) is NULL
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
            return self.to(CASTS[name], arguments[0])
        if name in ("CONCAT", "CONCAT_WS"):
            return self._concat(name, arguments)
        found = FUNCTIONS.get((name, len(arguments)))
        if found is None:
            return Value("boolean", MISSING_FUNCTION, MISSING_FUNCTION)
        cast = [self.to(type_, each) for type_, each in zip(found.arguments, arguments, strict=True)]
        return self._checked(found.result, found.sql, cast, found.error, found.shown)

    def _concat(self, name: str, arguments: list[Value]) -> Value:
        texts = [self.to("string", each) for each in arguments]
        if name == "CONCAT":
            sql = f"concat({', '.join(each.sql for each in texts)})" if texts else "''"
            return Value("string", sql, _failing(texts))
        if not texts:
            return Value("boolean", MISSING_FUNCTION, MISSING_FUNCTION)
        delimiter, rest = texts[0], texts[1:]
        parts = [part for each in rest for part in (delimiter.sql, each.sql)][1:]
        if len(rest) < 2:  # the delimiter is not used, but may have failed
            parts = [f"CASE WHEN {delimiter.sql} IS NOT NULL THEN '' END", *parts]
        return Value("string", f"concat({', '.join(parts)})", _failing(texts))

    def _checked(
        self, result: Type, template: str, operands: list[Value], error: str | None, shown: str | None = None
    ) -> Value:
        """An operation that is NULL when it fails itself."""
        columns = [each.sql for each in operands]
        return Value(result, template.format(*columns), _failing(operands, error), shown and shown.format(*columns))


def check_functions(text: str) -> None:
    """Raises Unreadable at a function that does not exist: a filter would fail for every event."""
    for called in calls(text):
        counts = {1} if called.name in CASTS else {count for name, count in FUNCTIONS if name == called.name}
        if called.arguments in counts or (called.name, called.arguments > 0) in VARIADIC:
            continue
        if not counts and called.name not in ("CONCAT", "CONCAT_WS"):
            raise Unreadable(text, called.position, f"there is no function {called.name}; {KNOWN_FUNCTIONS}")
        wanted = " or ".join(map(str, sorted(counts))) or "at least 1"
        raise Unreadable(text, called.position, f"{called.name} takes {wanted} arguments, not {called.arguments}")


LOGIC = {"AND": _and, "OR": _or, "XOR": _xor}

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
    error: str | None = None  # the number of that failure; None: it cannot fail
    shown: str | None = None  # a template, see Value


_BEYOND = "({1} > char_length({0}) OR {1} < -char_length({0}))"
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
        MATH,
        "CASE WHEN {0} IS NOT NULL THEN 2147483647 END",
    ),
    ("LEFT", 2): Function("string", ("string", "integer"), _AT_LEAST_0.format("left"), FUNCTION, _WHOLE),
    ("RIGHT", 2): Function("string", ("string", "integer"), _AT_LEAST_0.format("right"), FUNCTION, _WHOLE),
    ("SUBSTRING", 2): Function(
        "string",
        ("string", "integer"),
        f"CASE WHEN {{1}} = 0 THEN substring({{0}}, 1, 0) WHEN {_BEYOND} THEN NULL ELSE substring({{0}}, {{1}}) END",
        FUNCTION,
    ),
    ("SUBSTRING", 3): Function(
        "string",
        ("string", "integer", "integer"),
        f"CASE WHEN {{2}} < 0 THEN NULL WHEN {{1}} = 0 THEN substring({{0}}, 1, 0 * {{2}}) WHEN {_BEYOND} THEN NULL "
        "ELSE substring({0}, {1}, {2}) END",
        FUNCTION,
    ),
}


VARIADIC = (("CONCAT", False), ("CONCAT", True), ("CONCAT_WS", True))  # by name and whether there are arguments
KNOWN_FUNCTIONS = "known are " + ", ".join(sorted({*CASTS, "CONCAT", "CONCAT_WS", *(name for name, _ in FUNCTIONS)}))


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
        case "integer", "string":
            return _integer_of_text(value.sql)
        case "integer", "any":
            from_text = _integer_of_text(value.sql)
            return f"CASE WHEN {value.tag} = 'b' THEN cast({value.sql} = 'true' AS int) ELSE {from_text} END"
    raise AssertionError(f"no cast from {value.type} to {wanted}")


def _integer_of_text(sql: str) -> str:
    """Spark alone would take blanks around the digits."""
    return f"CASE WHEN {sql} RLIKE '\\\\A[+-]?[0-9]+\\\\z' THEN try_cast({sql} AS int) END"


def _truth_of(value: Value) -> Value:
    """A cast to a boolean."""
    if value.type == "integer":
        return _of_condition(f"{value.sql} <> 0", [value])
    error = _failing([value], CAST)
    sql = f"CASE lower({value.sql}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE {error} END"
    if value.type == "any":
        sql = f"CASE WHEN {value.tag} = 'i' THEN cast({value.sql} <> '0' AS int) ELSE {sql} END"
    return Value("boolean", sql, error)


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
