"""CESQL 1.0, the syntax: an expression's text in, its tree out, or Unreadable with the place. Knows nothing of Spark.

The grammar is in ``cesql.lark``. Called when a trigger is applied and when its filter is compiled.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, Tree, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from penstock.errors import Rejected

LARGEST = 2**31 - 1
DEEPEST = 150  # operations within operations; beyond this the compilers behind us would be strained
LONGEST = 16 * 1024
DATA_DIALECT = "penstock.dev/cesql-data"


class Unreadable(Rejected):
    """An expression that is none."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        super().__init__(f"{reason}\n{pointed(text, position)}")
        self.position = position
        self.reason = reason


# ── the tree ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Constant:
    value: bool | int | str


@dataclass(frozen=True)
class Attribute:
    """Of the event, by its name in lower case; a name that begins with $ is a path into the data."""

    name: str


@dataclass(frozen=True)
class Exists:
    name: str


@dataclass(frozen=True)
class Unary:
    operator: str  # NOT or -
    operand: "Node"


@dataclass(frozen=True)
class Binary:
    operator: str  # AND OR XOR = != < <= > >= + - * / %
    left: "Node"
    right: "Node"


@dataclass(frozen=True)
class Like:
    operand: "Node"
    pattern: str
    is_negated: bool


@dataclass(frozen=True)
class In:
    operand: "Node"
    elements: tuple["Node", ...]
    is_negated: bool


@dataclass(frozen=True)
class Call:
    name: str  # upper case
    arguments: tuple["Node", ...]


Node = Constant | Attribute | Exists | Unary | Binary | Like | In | Call


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────


def parse(text: str, *, with_data: bool = False) -> Node:
    """Raises Unreadable. Paths into the data (``data.order.amount``) are no part of CESQL 1.0: only if allowed."""
    return _built(text, _tree(text, with_data))


class Term(NamedTuple):
    text: str
    node: Node


def terms(text: str, *, with_data: bool = False) -> list[Term]:
    """What the ANDs of an expression join, each with the text that it was written with."""
    found: list[Term] = []
    left: list[Any] = [_tree(text, with_data)]
    while left:
        tree = left.pop()
        if tree.data == "binary" and tree.children[1].type == "AND":
            left += [tree.children[2], tree.children[0]]
        else:
            found.append(Term(text[tree.meta.start_pos : tree.meta.end_pos], _built(text, tree)))
    return found


def _tree(text: str, with_data: bool) -> Any:
    if len(text) > LONGEST:
        raise Unreadable(text, LONGEST, f"the expression is longer than {LONGEST} characters")
    try:
        tree: Any = _parser().parse(text)
    except UnexpectedInput as error:
        raise _explained(text, error) from None
    _check_depth(text, tree)
    for name in tree.scan_values(lambda token: token.type in ("NAME", "LETTERS") and not token.isascii()):
        raise Unreadable(text, name.start_pos, "names have only the letters a to z and digits")
    if not with_data:
        for path in tree.scan_values(lambda token: token.type == "PATH"):
            raise Unreadable(text, path.start_pos, f"the data is seen only by the dialect {DATA_DIALECT}")
    return tree


def _built(text: str, tree: Tree[Any]) -> Node:
    builder = _Builder()
    node: Node = builder.transform(tree)
    if builder.too_large:
        raise Unreadable(text, builder.too_large[0], "this is no 32-bit integer")
    return node


class Called(NamedTuple):
    name: str
    arguments: int
    position: int


def calls(text: str) -> list[Called]:
    """The functions that an expression calls, in no order."""
    found = []
    for tree in _tree(text, with_data=True).find_data("call"):
        (name,) = tree.children[0].children
        arguments = len(tree.children[1].children) if len(tree.children) > 1 else 0
        found.append(Called(str(name).upper(), arguments, name.start_pos))
    return found


def pointed(text: str, position: int) -> str:
    """The line of the text around a position, with a caret under it."""
    before, after = text[:position], text[position:]
    begin = before.rfind("\n") + 1
    line = (before[begin:] + after.split("\n", 1)[0]).replace("\t", " ")
    column = position - begin
    cut = max(0, column - 60)
    return f"  {line[cut : cut + 76]}\n  {' ' * (column - cut)}^"


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("cesql.lark").read_text()
    return Lark(grammar, parser="lalr", lexer="basic", maybe_placeholders=False, propagate_positions=True)


def _check_depth(text: str, tree: Tree[Any]) -> None:
    """Without recursion, since recursion is what must be spared."""
    level: list[Any] = [tree]
    for _ in range(DEEPEST):
        level = [child for each in level if isinstance(each, Tree) for child in each.children]
    if level:
        raise Unreadable(text, 0, f"operations are nested or chained more than {DEEPEST} deep")


def _explained(text: str, error: UnexpectedInput) -> Unreadable:
    if isinstance(error, UnexpectedCharacters):
        at = error.pos_in_stream or 0
        if text[at] in "'\"":
            return Unreadable(text, at, "the text that begins here has no end")
        return Unreadable(text, at, f"{text[at]!r} means nothing here")
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        return Unreadable(text, error.pos_in_stream or 0, f"{str(error.token)!r} is not expected here")
    assert isinstance(error, UnexpectedToken | UnexpectedEOF)
    return Unreadable(text, len(text), "the expression ends too early" if text.strip() else "the expression is empty")


class _Builder(Transformer[Token, Node]):
    """From Lark's tree to ours; the methods are the names of rules."""

    def __init__(self) -> None:
        super().__init__()
        self.too_large: list[int] = []  # places of integers beyond 32 bits

    def integer(self, children: list[Token]) -> Node:
        token = children[-1]  # a plus may stand before it
        value = int(token) if len(token) < 20 else LARGEST + 2
        if value > LARGEST:
            self.too_large.append(token.start_pos or 0)
        return Constant(value)

    def minus(self, children: list[Any]) -> Node:
        operand = children[1]
        if isinstance(operand, Constant) and type(operand.value) is int and operand.value >= 0:
            if operand.value == LARGEST + 1:
                self.too_large.pop()  # the one number whose negative exists alone
            return Constant(-operand.value)
        return Unary("-", operand)

    def true(self, _: list[Token]) -> Node:
        return Constant(True)

    def false(self, _: list[Token]) -> Node:
        return Constant(False)

    def string(self, children: list[Token]) -> Node:
        return Constant(_unquoted(children[0]))

    def attribute(self, children: list[str]) -> Node:
        return Attribute(children[0])

    def exists(self, children: list[Any]) -> Node:
        return Exists(children[1])

    def in_data(self, children: list[Token]) -> Node:
        return Attribute(self._path(children[0]))

    def exists_in_data(self, children: list[Token]) -> Node:
        return Exists(self._path(children[1]))

    def _path(self, token: Token) -> str:
        if any(int(index) > LARGEST for index in re.findall(r"\[([0-9]+)\]", token)):
            self.too_large.append(token.start_pos or 0)
        return "$" + token[len("data") :]

    def name(self, children: list[Token]) -> str:
        return str(children[0]).lower()

    def function(self, children: list[Token]) -> str:
        return str(children[0]).upper()

    def arguments(self, children: list[Node]) -> list[Node]:
        return children

    def call(self, children: list[Any]) -> Node:
        return Call(children[0], tuple(children[1]) if len(children) > 1 else ())

    def negated(self, children: list[Any]) -> Node:
        return Unary("NOT", children[1])

    def binary(self, children: list[Any]) -> Node:
        operator = str(children[1]).upper()
        return Binary("!=" if operator == "<>" else operator, children[0], children[2])

    def is_like(self, children: list[Any]) -> Node:
        return Like(children[0], _unquoted(children[2]), False)

    def is_not_like(self, children: list[Any]) -> Node:
        return Like(children[0], _unquoted(children[2]), True)

    def is_in(self, children: list[Any]) -> Node:
        return In(children[0], tuple(children[2]), False)

    def is_not_in(self, children: list[Any]) -> Node:
        return In(children[0], tuple(children[2]), True)


def _unquoted(token: str) -> str:
    """Only the quote itself is escaped in a string; any other backslash stands for itself."""
    quote = token[0]
    return token[1:-1].replace("\\" + quote, quote)
