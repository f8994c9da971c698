"""How long filters may take for one event: bounds that hold for every event, however long its attributes are.

Each step of a filter is linear in the value, so what counts is how many steps there are, and how long the values
become. The unit is one function over an attribute of 64 kB, some 4 ms at the very worst. A pattern and a function
read the whole text, so they count more where the text may be longer: in the data, or made by CONCAT. Called by
``check`` and by ``cesql_sql``. Pure.
"""

import re
from collections.abc import Iterable, Iterator

from penstock.filter.cesql_syntax import Attribute, Binary, Call, Constant, In, Like, Node, Unary

LONGEST_ATTRIBUTE = 64 * 1024  # characters; the receiver refuses longer ones
LONGEST_DATA = 16 * LONGEST_ATTRIBUTE  # a text in the data; the receiver refuses larger bodies
LONGEST_TEXT = 8 * LONGEST_ATTRIBUTE  # that CONCAT may make
MOST_WORK = 1_000  # of all filters of a resource
COMPARED_IN_A_UNIT = 8  # characters of a pattern

_PATTERN = re.compile(r"RLIKE '((?:[^'\\]|\\.)*+)'")
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*+'")
_FUNCTION = re.compile(
    r"\b(?:RLIKE|(?:contains|lower|upper|regexp_replace|substring|left|right|char_length|concat|try_cast)\()"
)


def work_of(columns: Iterable[str], expressions: Iterable[Node] = ()) -> int:
    """The work of the SQL of filters for one event. ``expressions``: those of the filters."""
    nodes = [node for each in expressions for node in _nodes(each)]
    longer = max((_attributes_in(node.operand) for node in nodes if isinstance(node, Like)), default=1)
    more = sum(_attributes_in(*node.arguments) - 1 for node in nodes if isinstance(node, Call))
    return sum(_work(each, longer) for each in columns) + more


def _work(sql: str, longer: int) -> int:
    patterns = sum(len(pattern) // COMPARED_IN_A_UNIT for pattern in _PATTERN.findall(sql))
    functions = len(_FUNCTION.findall(_LITERAL.sub("''", sql)))
    return patterns * longer + functions


def _nodes(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    below: tuple[Node, ...] = ()
    match node:
        case Like(operand) | Unary(_, operand):
            below = (operand,)
        case Binary(_, left, right):
            below = (left, right)
        case In(operand, elements):
            below = (operand, *elements)
        case Call(_, arguments):
            below = arguments
    for each in below:
        yield from _nodes(each)


def _attributes_in(*texts: Node) -> int:
    """How many attributes of the longest kind are as long as the longest of these texts; at least one."""
    longest_of_all = max((longest(each, LONGEST_DATA) for each in texts), default=0)
    return max(1, -(-longest_of_all // LONGEST_ATTRIBUTE))


def longest(node: Node, in_data: int = LONGEST_ATTRIBUTE) -> int:
    """How many characters the text of an expression may have. ``in_data``: the most that a text in the data has."""
    match node:
        case Constant(str(text)):
            return len(text)
        case Attribute(name):
            return in_data if name.startswith("$") else LONGEST_ATTRIBUTE
        case Call("CONCAT", arguments):
            return sum(longest(each, in_data) for each in arguments)
        case Call("CONCAT_WS", (delimiter, *others)):
            joined = sum(longest(each, in_data) for each in others)
            return longest(delimiter, in_data) * max(1, len(others) - 1) + joined
        case Call(_, arguments):
            return max((longest(each, in_data) for each in arguments), default=0)
    return 16  # a number or a Boolean, as text
