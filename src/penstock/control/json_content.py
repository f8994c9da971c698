"""What JSON may contain here, and how data from others is written as JSON.

A lenient parser accepts a lone surrogate, NaN, a number of a thousand digits, or very deeply nested lists. Writing
such a value out again fails. ``problems`` refuses it in requests, ``cleaned`` replaces it in what is stored already,
and ``as_bytes`` never fails for it. Pure. Used by the store, the API and its streams.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.filter.check import Problem

DEEPEST = 64  # nested objects and lists: far more than any resource needs
MOST_PROBLEMS = 20
SMALLEST, LARGEST = -(2**63), 2**64 - 1
MOST_BITS = 4096  # of a number that is written out
LONGEST_PATH = 300  # of a field, in characters
REPLACEMENT = "\ufffd"
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NOT_A_NAME = "its name must be Unicode text"


def problems(value: Any, where: str = "") -> list[Problem]:
    """What cannot be stored, each with the path of its field. It does not recurse, however deep the value is.

    Memory grows with the depth alone: each open object or list takes one iterator and the step into it, and a path
    becomes text only for a problem.
    """
    found: list[Problem] = []
    steps: list[Any] = []
    waiting: list[Iterator[tuple[Any, Any]]] = [iter([(where, value)])]
    while waiting and len(found) < MOST_PROBLEMS:
        inside = next(waiting[-1], None)
        if inside is None:
            waiting.pop()
            del steps[-1:]
            continue
        step, each = inside
        why = _scalar_problem(each)
        if why:
            found.append(Problem(_path([*steps, step]), why))
        elif isinstance(each, dict | list | tuple) and len(waiting) > DEEPEST:
            found.append(Problem(_path([*steps, step]), f"is nested more than {DEEPEST} levels deep"))
        elif isinstance(each, dict):
            steps.append(step)
            waiting.append(iter(each.items()))
            strange = [name for name in each if not isinstance(name, str) or _SURROGATE.search(name)]
            found += [Problem(_path([*steps, name]), _NOT_A_NAME) for name in strange[:MOST_PROBLEMS]]
        elif isinstance(each, list | tuple):
            steps.append(step)
            waiting.append(enumerate(each))
    return found[:MOST_PROBLEMS]


def _scalar_problem(value: Any) -> str:
    if isinstance(value, str):
        return "is not Unicode text: it has a lone surrogate" if _SURROGATE.search(value) else ""
    if isinstance(value, bool) or value is None or isinstance(value, dict | list | tuple):
        return ""
    if isinstance(value, int):
        return "" if SMALLEST <= value <= LARGEST else "must be a number of at most 64 bits"
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"must be a number, not {value}"
    return "must be text, a number, true, false, null, a list or an object"


def _path(steps: Sequence[Any]) -> str:
    """The first step is where the value is; the others are names and places in lists. Cut in the middle when long."""
    path = ""
    for step in steps[1:]:
        shown = readable(str(step)[:LONGEST_PATH])
        path += f".{shown}" if _FIELD.match(shown) else f"[{shown}]"
    path = steps[0] + path if steps[0] else path.removeprefix(".")
    half = LONGEST_PATH // 2
    return path if len(path) <= LONGEST_PATH else f"{path[:half]}…{path[-half:]}"


def readable(text: str) -> str:
    """The text with everything replaced that cannot be written out."""
    return _SURROGATE.sub(REPLACEMENT, text)


def cleaned(value: Any, depth: int = 0) -> Any:
    """The same with everything replaced that cannot be written out."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return value if value.bit_length() <= MOST_BITS else f"a number of {value.bit_length()} bits"
    if not isinstance(value, dict | list | tuple):
        return value
    if depth >= DEEPEST:
        return f"nested more than {DEEPEST} levels deep"
    if isinstance(value, dict):
        return {readable(str(name)): cleaned(inner, depth + 1) for name, inner in value.items()}
    return [cleaned(inner, depth + 1) for inner in value]


def as_bytes(value: Any) -> bytes:
    """JSON that every parser can read; values that cannot be written are replaced."""
    try:
        return _encoded(value)
    except (ValueError, RecursionError):
        return _encoded(cleaned(value))


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def parsed(raw: bytes) -> Any:
    """Raises ValueError for invalid JSON, and for values that could not be written again unchanged."""
    try:
        value = json.loads(raw)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from None
    found = problems(value)
    if found:
        raise ValueError(f"{found[0].field} {found[0].message}".strip())
    return value
