"""The operators and functions of CESQL as templates of Spark SQL. Used by ``cesql_sql``."""

from dataclasses import dataclass

from penstock.filter.cesql_syntax import Unreadable, calls
from penstock.filter.cesql_values import FUNCTION, MATH, Type

WHITE = "[\\\\p{{IsWhite_Space}}]"  # doubled braces: it stands in templates
# The end is tried only where a run of blanks begins. Else each blank of a run in the middle reads the rest of it.
AROUND = f"'\\\\A{WHITE}++|(?<!{WHITE}){WHITE}++\\\\z'"

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
    ("TRIM", 1): Function("string", ("string",), f"regexp_replace({{0}}, {AROUND}, '')"),
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
