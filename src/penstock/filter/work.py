"""How long filters may take for one event: bounds that hold for every event, however long its attributes are.

Each step of a filter is linear in the value, so what counts is how many steps there are, and how long the values
become. The unit is one function over an attribute of 64 kB, some 4 ms at the very worst. Called by ``check`` and by
``cesql_sql``. Pure.
"""

import re
from collections.abc import Iterable

from penstock.filter.cesql_syntax import Attribute, Call, Constant, Node

LONGEST_ATTRIBUTE = 64 * 1024  # characters; the receiver refuses longer ones
LONGEST_TEXT = 8 * LONGEST_ATTRIBUTE  # that CONCAT may make
MOST_WORK = 1_000  # of all filters of a resource
COMPARED_IN_A_UNIT = 8  # characters of a pattern

_PATTERN = re.compile(r"RLIKE '((?:[^'\\]|\\.)*+)'")
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*+'")
_FUNCTION = re.compile(
    r"\b(?:RLIKE|(?:contains|lower|upper|regexp_replace|substring|left|right|char_length|concat|try_cast)\()"
)


def work_of(columns: Iterable[str]) -> int:
    """The work of the SQL of filters for one event."""
    return sum(map(_work, columns))


def _work(sql: str) -> int:
    patterns = sum(len(pattern) // COMPARED_IN_A_UNIT for pattern in _PATTERN.findall(sql))
    functions = len(_FUNCTION.findall(_LITERAL.sub("''", sql)))
    return patterns + functions


def longest(node: Node) -> int:
    """How many characters the text of an expression may have."""
    match node:
        case Constant(str(text)):
            return len(text)
        case Attribute():
            return LONGEST_ATTRIBUTE
        case Call("CONCAT", arguments):
            return sum(map(longest, arguments))
        case Call("CONCAT_WS", (delimiter, *others)):
            return longest(delimiter) * max(1, len(others) - 1) + sum(map(longest, others))
        case Call(_, arguments):
            return max(map(longest, arguments), default=0)
    return 16  # a number or a Boolean, as text
