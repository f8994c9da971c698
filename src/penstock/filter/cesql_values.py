"""The values of CESQL as Spark SQL: what each type looks like, how truths are joined, and casts.

In the SQL of an integer or a string an error is NULL, which runs through everything around it as CESQL's fail-fast
mode wants. A truth is a number: 0 false, 1 true, and from 2 on the number of an error, so that a filter learns in one
go whether an event matches and, if not, what went wrong. Used by ``cesql_sql``.
"""

from dataclasses import dataclass, replace
from typing import Literal

Type = Literal["boolean", "integer", "string", "any"]

# The numbers of errors are their places here, from FIRST_ERROR on.
ERRORS = ("math", "cast", "missingAttribute", "missingFunction", "functionEvaluation", "generic")
FIRST_ERROR = 2
MATH, CAST, MISSING_ATTRIBUTE, MISSING_FUNCTION, FUNCTION = (str(FIRST_ERROR + place) for place in range(5))
_ERROR_NUMBERS = ", ".join(str(FIRST_ERROR + place) for place in range(len(ERRORS)))

SHORT_SQL = 400  # an operand that may stand twice


@dataclass(frozen=True)
class Value:
    type: Type
    sql: str  # NULL when there was an error; of a boolean, the number of the error
    error: str | None = None  # SQL for the number of the error, if there was one; None: there is never one
    shown: str | None = None  # what people see when this very operation failed, else NULL; None: the type's zero
    tag: str | None = None  # of type any: SQL that gives 'i', 'b', 's' or 'n'
    number: str | None = None  # of type any: SQL for the number it is, NULL if none; None: it has only integers
    condition: str | None = None  # of a boolean: TRUE, FALSE, or NULL when there was an error, if that is simpler

    @property
    def failed(self) -> str:
        """SQL that tells whether there was an error."""
        return f"{self.sql} >= {FIRST_ERROR}" if self.type == "boolean" else f"{self.sql} IS NULL"


def failing(operands: list[Value], own: str | None = None) -> str | None:
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


def of_condition(condition: str, operands: list[Value]) -> Value:
    """A truth from a condition of SQL, which is NULL when one of the operands failed."""
    error = failing(operands)
    sql = f"cast({condition} AS int)"
    return Value("boolean", f"coalesce({sql}, {error})" if error else sql, error, condition=f"({condition})")


def condition_of(truth: Value) -> str:
    """SQL that is TRUE when the truth is, and otherwise FALSE or NULL."""
    return truth.condition or f"({truth.sql} = 1)"


def chosen(truth: str, if_false: str, if_true: str) -> str:
    """One of two by a truth, or its error; the truth stands several times only when it is short."""
    if len(truth) <= SHORT_SQL:
        return f"CASE {truth} WHEN 0 THEN {if_false} WHEN 1 THEN {if_true} ELSE {truth} END"
    return f"get(array({if_false}, {if_true}, {_ERROR_NUMBERS}), {truth})"


def joined(operator: str, left: Value, right: Value) -> Value:
    """By AND or OR: the right operand counts only when the left one has not decided, and then its error does, too."""
    if left.error is None and right.error is None:
        return of_condition(f"{condition_of(left)} {operator} {condition_of(right)}", [])
    if_false, if_true = ("0", right.sql) if operator == "AND" else (right.sql, "1")
    if left.error is None:
        sql = f"CASE WHEN {condition_of(left)} THEN {if_true} ELSE {if_false} END"
    elif len(left.sql) <= SHORT_SQL:
        undecided = 1 if operator == "AND" else 0
        sql = f"CASE WHEN {left.sql} = {undecided} THEN {right.sql} ELSE {left.sql} END"
    else:
        sql = chosen(left.sql, if_false, if_true)
    return Value("boolean", sql, sql)


def exclusive(left: Value, right: Value) -> Value:
    sql = chosen(left.sql, right.sql, negated(right).sql)
    return Value("boolean", sql, sql if left.error or right.error else None)


def negated(truth: Value) -> Value:
    if truth.condition is not None:
        return of_condition(f"NOT {truth.condition}", [truth])
    sql = chosen(truth.sql, "1", "0")
    return Value("boolean", sql, sql if truth.error else None)


# ── casts ─────────────────────────────────────────────────────────────────────────────────────────────


def cast(wanted: Type, value: Value) -> Value:
    """Implicit or explicit, by the same rules."""
    if value.type == wanted:
        return replace(value, shown=None)
    if wanted == "boolean":
        return _truth_of(value)
    sql = _cast(wanted, value)
    if wanted == "string" or value.type in ("integer", "boolean"):
        return Value(wanted, sql, value.error)  # these cannot fail
    return Value(wanted, sql, failing([value], CAST))


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
        return of_condition(f"{value.sql} <> 0", [value])
    error = failing([value], CAST)
    sql = f"CASE lower({value.sql}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE {error} END"
    if value.type == "any":
        sql = f"CASE WHEN {value.tag} = 'i' THEN cast({value.sql} <> '0' AS int) ELSE {sql} END"
    return Value("boolean", sql, error)
