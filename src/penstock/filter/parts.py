"""Why a filter says no: its parts, each a filter of its own, and a sentence made of those that did not match.

In: the filters of a subscription. Out: the list of parts to be asked, and, given the answers, the reason. Nothing is
evaluated here: the answers come from Spark, as they do in a stream. Called by ``pipeline.trial``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.filter.cesql_syntax import DATA_DIALECT, terms

VERBS = {"exact": "is not", "attributes": "is not", "prefix": "does not begin with", "suffix": "does not end with"}
MOST_REASONS = 3  # of the branches of an ``any``


@dataclass(frozen=True)
class Answer:
    is_match: bool
    error: str | None = None  # the name of a CESQL error


@dataclass
class Part:
    """A filter or a piece of one, with the pieces that it has."""

    where: str  # its place in the resource: filters[0].any[1].exact
    filter: Mapping[str, Any]
    inner: list["Part"] = field(default_factory=list)
    shown: str = ""  # of a term of an expression: as it was written
    number: int = -1  # its place in the list of all parts


def parts_of(filters: Sequence[Mapping[str, Any]]) -> list[Part]:
    """The filters, in order, each with its pieces."""
    if len(filters) == 1 and "attributes" in filters[0]:
        return [_part(filters[0], "filter")]
    return [_part(each, f"filters[{place}]") for place, each in enumerate(filters)]


def numbered(parts: Sequence[Part]) -> list[Part]:
    """All of them and all of their pieces in one list, each knowing its place in it."""
    found: list[Part] = []
    left = list(reversed(parts))
    while left:
        part = left.pop()
        part.number = len(found)
        found.append(part)
        left += reversed(part.inner)
    return found


def _part(each: Mapping[str, Any], where: str) -> Part:
    dialect, body = next(iter(each.items()))
    part = Part(f"{where}.{dialect}", each)
    if dialect in VERBS and len(body) > 1:
        part.inner = [_part({dialect: {name: value}}, where) for name, value in body.items()]
    elif dialect in ("all", "any"):
        part.inner = [_part(inner, f"{part.where}[{place}]") for place, inner in enumerate(body)]
    elif dialect == "not":
        part.inner = [_part(body, part.where)]
    elif dialect in ("cesql", DATA_DIALECT):
        found = terms(body, with_data=dialect == DATA_DIALECT)
        if len(found) > 1:
            # As an operand of AND a text is cast to a truth, which it would not be alone.
            part.inner = [Part(part.where, {dialect: f"({term.text}) AND TRUE"}, shown=term.text) for term in found]
    return part


def because(parts: Sequence[Part], answers: Sequence[Answer], attributes: Mapping[str, str]) -> str:
    """Why an event with these attributes does or does not match; the answers are those of the numbered parts."""
    if not parts:
        return "there is no filter"
    for part in parts:
        if not answers[part.number].is_match:
            return _refusal(part, answers, attributes)
    return "the filter matches" if len(parts) == 1 else f"all {len(parts)} filters match"


def _refusal(part: Part, answers: Sequence[Answer], attributes: Mapping[str, str]) -> str:
    dialect, body = next(iter(part.filter.items()))
    refusing = [each for each in part.inner if not answers[each.number].is_match]
    if dialect == "any":
        reasons = [_refusal(each, answers, attributes) for each in refusing[:MOST_REASONS]]
        more = f"; and {len(refusing) - MOST_REASONS} more" if len(refusing) > MOST_REASONS else ""
        return f"{part.where}: none matches ({'; '.join(reasons)}{more})"
    if dialect == "not":
        return f"{part.where}: what it negates matches"
    if refusing:
        return _refusal(refusing[0], answers, attributes)
    if dialect in VERBS:
        ((name, wanted),) = body.items()
        if name not in attributes:
            return f"{part.where}: there is no {name}"
        return f"{part.where}: {name} is {_quoted(attributes[name])}, which {VERBS[dialect]} {_quoted(wanted)}"
    error = answers[part.number].error
    return f"{part.where}: {part.shown or body} " + (f"cannot be evaluated ({error})" if error else "is false")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
