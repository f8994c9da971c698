"""What JSON may contain here, and how data from others is written as JSON.

A lenient parser accepts a lone surrogate, NaN, a number of a thousand digits, or very deeply nested lists. Writing
such a value out again fails. ``problems`` refuses it in requests, ``cleaned`` replaces it in what is stored already,
and ``as_bytes`` never fails for it. Pure. Used by the store, the API and its streams.
"""

import json
import math
import re
from typing import Any

from penstock.filter.check import Problem

DEEPEST = 64  # nested objects and lists: far more than any resource needs
MOST_PROBLEMS = 20
SMALLEST, LARGEST = -(2**63), 2**64 - 1
MOST_BITS = 4096  # of a number that is written out
REPLACEMENT = "\ufffd"
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def problems(value: Any, where: str = "") -> list[Problem]:
    """What cannot be stored, each with the path of its field. It does not recurse, however deep the value is."""
    found: list[Problem] = []
    waiting = [(value, where, 0)]
    while waiting and len(found) < MOST_PROBLEMS:
        each, path, depth = waiting.pop()
        why = _scalar_problem(each)
        if why:
            found.append(Problem(path, why))
        elif isinstance(each, dict | list | tuple) and depth >= DEEPEST:
            found.append(Problem(path, f"is nested more than {DEEPEST} deep"))
        elif isinstance(each, dict):
            for name, inner in each.items():
                inside = _inside(path, name)
                if not isinstance(name, str) or _SURROGATE.search(name):
                    found.append(Problem(inside, "its name must be Unicode text"))
                waiting.append((inner, inside, depth + 1))
        elif isinstance(each, list | tuple):
            waiting += [(inner, f"{path}[{index}]", depth + 1) for index, inner in enumerate(each)]
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


def _inside(path: str, name: Any) -> str:
    shown = readable(str(name))[:300]
    if _FIELD.match(shown):
        return f"{path}.{shown}" if path else shown
    return f"{path}[{shown}]"


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
        return f"nested more than {DEEPEST} deep"
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
        raise ValueError(f"it is nested more than {DEEPEST} deep") from None
    found = problems(value)
    if found:
        raise ValueError(f"{found[0].field} {found[0].message}".strip())
    return value
