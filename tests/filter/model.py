"""What filters mean, in a few lines of Python: the tests compare Spark's answers with these. Never used outside."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Attributes = Mapping[str, str]


class Failed(Exception):
    """A CESQL expression that has an error for this event."""


def all_match(filters: Sequence[Mapping[str, Any]], event: Attributes) -> bool:
    return all(matches(each, event) for each in filters)


def matches(each: Mapping[str, Any], event: Attributes) -> bool:
    ((dialect, body),) = each.items()
    match dialect:
        case "attributes":
            return all(event.get(name) == value if value else name in event for name, value in body.items())
        case "exact":
            return all(event.get(name) == value for name, value in body.items())
        case "prefix":
            return all(name in event and event[name].startswith(value) for name, value in body.items())
        case "suffix":
            return all(name in event and event[name].endswith(value) for name, value in body.items())
        case "all":
            return all(matches(inner, event) for inner in body)
        case "any":
            return any(matches(inner, event) for inner in body)
        case "not":
            return not matches(body, event)
        case "cesql":
            if body.operator == "BARE":
                return False  # text, which is no Boolean
            try:
                return truth(body, event)
            except Failed:
                return False
    raise AssertionError(dialect)


class Expression(str):
    """A CESQL text that remembers how it was made: an operator and what it joins, or a test of one attribute."""

    operator: str
    operands: tuple[Any, ...]

    def __new__(cls, text: str, operator: str, *operands: Any) -> "Expression":
        made = super().__new__(cls, text)
        made.operator, made.operands = operator, operands
        return made


def truth(expression: Expression, event: Attributes) -> bool:
    operator, operands = expression.operator, expression.operands
    if operator == "AND":
        return truth(operands[0], event) and truth(operands[1], event)
    if operator == "OR":
        return truth(operands[0], event) or truth(operands[1], event)
    if operator == "NOT":
        return not truth(operands[0], event)
    name, value = operands
    if operator == "EXISTS":
        return name in event
    if name not in event:
        raise Failed("missingAttribute")
    text = event[name]
    if operator == "BARE":  # an operand, so it is cast
        if text.lower() not in ("true", "false"):
            raise Failed("cast")
        return text.lower() == "true"
    answers: dict[str, Callable[[], bool]] = {
        "=": lambda: text == value,
        "!=": lambda: text != value,
        "IN": lambda: text in value,
        "LIKE": lambda: text.startswith(value),
        "LENGTH": lambda: len(text) > value,
    }
    return answers[operator]()
