"""CESQL 1.0, the syntax: an expression's text in, its tree out, or Unreadable with the place. Knows nothing of Spark.

The grammar is in ``cesql.lark``. Called when a trigger is applied and when its filter is compiled.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, Tree, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from penstock.errors import Rejected

LARGEST = 2**31 - 1
DEEPEST = 150  # operations within operations; beyond this the compilers behind us would be strained
LONGEST = 16 * 1024


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


def parse(text: str) -> Node:
    """Raises Unreadable."""
    if len(text) > LONGEST:
        raise Unreadable(text, LONGEST, f"the expression is longer than {LONGEST} characters")
    try:
        tree = _parser().parse(text)
        _check_depth(text, tree)
        builder = _Builder()
        node: Node = builder.transform(tree)
        if builder.too_large:
            raise Unreadable(text, builder.too_large[0], "this is no 32-bit integer")
    except UnexpectedInput as error:
        raise _explained(text, error) from None
    return node


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
    return Lark(grammar, parser="lalr", lexer="basic", maybe_placeholders=False)


def _check_depth(text: str, tree: Tree[Token] | Token) -> None:
    """Without recursion, since recursion is what must be spared."""
    level: list[Tree[Token] | Token] = [tree]
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
