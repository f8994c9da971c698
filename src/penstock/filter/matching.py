"""The filters of all subscriptions of a topic as columns of one query: which of them an event matches.

    filters of each subscription ─▶ conditions ─▶ rules      key type = order.created   rest amount > 5
                                                   │
        equality on an attribute: one look into a table, however many subscriptions there are
        the rest: computed only for events whose key fits; what several rules share, once

In: the filters, in the order of their places. Out: SQL in steps; each step's columns may use those of the one
before. Called by ``pipeline.handover`` for a topic and by ``pipeline.trial`` for single events.

What leaves the last step are two texts: ``places`` ("0,7,12": who matches) and ``errors`` ("3:2,8+9:4": at which
places an expression failed, and the number of the error).
"""

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.event.model import CORE, REQUIRED
from penstock.filter.cesql_sql import AttributeSql
from penstock.filter.conditions import Condition, Key, conditions_of, errors_of, in_columns
from penstock.filter.sql_text import attribute_name, literal

MATCHES_ALTHOUGH = 8  # added to the number of an error by an event that matches nevertheless, as under ``not``
TABLE_SCHEMA = "array<map<string,struct<p:string,r:array<int>>>>"


class Column(NamedTuple):
    name: str
    sql: str


@dataclass(frozen=True)
class Matching:
    attributes: tuple[str, ...]  # wanted as columns: see text_of and tag_of
    tagged: tuple[str, ...]  # of these, those whose type is wanted too
    paths: tuple[str, ...]  # wanted from the data: columns p0, p1 … of the text, with _tag and _number
    steps: tuple[tuple[Column, ...], ...]
    places: str
    errors: str

    @property
    def sql_length(self) -> int:
        """A measure of the code that Spark will generate; tables of keys do not count, decoding does."""
        filters = sum(len(column.sql) for step in self.steps for column in step if not column.name.startswith("l_"))
        return filters + 150 * len(self.attributes) + 200 * len(self.tagged) + 600 * len(self.paths)


def text_of(attribute: str) -> str:
    """The column that must hold an attribute's text, NULL when the event lacks it."""
    return f"a_{attribute_name(attribute)}"


def tag_of(attribute: str) -> str:
    """The column that must hold its type: 'i', 'b' or 's'."""
    return f"g_{attribute_name(attribute)}"


def path_column(place: int) -> str:
    return f"p{place}"


class Rule(NamedTuple):
    """What several subscriptions may have in common: the value of a key, and all else that must hold."""

    key: Key | None
    rest: tuple[Condition, ...]


@dataclass
class _Names:
    """Gives the conditions their attributes, and notes which they want."""

    attributes: set[str] = field(default_factory=set)
    tagged: set[str] = field(default_factory=set)
    paths: dict[str, int] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)  # CESQL that is needed more than once: its column

    def text(self, name: str) -> str:
        column = text_of(name)
        self.attributes.add(name)
        return column

    def once(self, sql: str) -> str:
        return self.columns.setdefault(sql, f"t{len(self.columns)}")

    def typed(self, name: str) -> AttributeSql:
        if name.startswith("$"):
            column = path_column(self.paths.setdefault(name, len(self.paths)))
            return AttributeSql(column, f"{column}_tag", f"{column}_number")
        if name in CORE:  # text in every format
            return AttributeSql(self.text(name), is_always_there=name in REQUIRED)
        self.tagged.add(name)
        return AttributeSql(self.text(name), tag_of(name))


def matching(filters: Iterable[Sequence[Mapping[str, Any]]]) -> Matching:
    names = _Names()
    places_of: defaultdict[Rule, list[int]] = defaultdict(list)
    for place, each in enumerate(filters):
        conditions = conditions_of(each, names)
        if sum(condition.error is not None for condition in conditions) > 1:
            conditions = in_columns(conditions, names)
        places_of[_rule(conditions)].append(place)
    rules = {rule: _joined(places) for rule, places in places_of.items()}
    always = [literal(places) for rule, places in rules.items() if not rule.key and not rule.rest]
    computed = {rule: number for number, rule in enumerate(rule for rule in rules if rule.rest)}
    lookups = _lookups(rules, computed)
    shared = _shared(computed)
    decisions = tuple(Column(f"x{number}", _decision(rule, number, shared)) for rule, number in computed.items())
    found = [
        f"CASE WHEN {_is_match(f'x{number}', rule)} THEN {literal(rules[rule])} END"
        for rule, number in computed.items()
    ]
    failed = [
        f"CASE WHEN x{number} > 1 THEN concat({literal(rules[rule].replace(',', '+') + ':')}, x{number} & 7) END"
        for rule, number in computed.items()
        if errors_of(rule.rest)
    ]
    once = tuple(Column(column, sql) for sql, column in names.columns.items())
    steps = (once, (*lookups, *(Column(column, sql) for sql, column in shared.items())), decisions)
    return Matching(
        attributes=tuple(sorted(names.attributes)),
        tagged=tuple(sorted(names.tagged)),
        paths=tuple(names.paths),
        steps=tuple(step for step in steps if step),
        places=_text([*always, *(f"{column.name}.p" for column in lookups), *found]),
        errors=_text(failed),
    )


def _joined(places: Iterable[int]) -> str:
    return ",".join(map(str, places))


def _text(parts: Sequence[str]) -> str:
    return f"concat_ws(',', {', '.join(parts)})" if parts else "''"


def _rule(conditions: Sequence[Condition]) -> Rule:
    """The key is the one that most likely tells subscriptions apart."""
    keyed = [(key, each) for each in conditions for key in each.keys]
    if not keyed:
        return Rule(None, tuple(dict.fromkeys(conditions)))
    key, said = min(keyed, key=lambda pair: _rank(pair[0]))
    return Rule(key, tuple(dict.fromkeys(each for each in conditions if not (each is said and each.is_all_in_key))))


def _rank(key: Key) -> tuple[bool, bool, int, str]:
    return key.attribute != "type", key.attribute != "source", len(key.values), key.attribute


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────


def _lookups(rules: Mapping[Rule, str], computed: Mapping[Rule, int]) -> list[Column]:
    """A column for each attribute that is a key: who matches at once (p), and which rules are to be computed (r)."""
    tables: defaultdict[str, defaultdict[str, _Row]] = defaultdict(lambda: defaultdict(_Row))
    for rule, places in rules.items():
        for value in rule.key.values if rule.key else ():
            row = tables[rule.key.attribute][value] if rule.key else _Row()
            if rule.rest:
                row.rules.append(computed[rule])
            else:
                row.places.append(places)
    return [Column(_lookup_column(name), _lookup(text_of(name), table)) for name, table in sorted(tables.items())]


@dataclass
class _Row:
    places: list[str] = field(default_factory=list)
    rules: list[int] = field(default_factory=list)


def _lookup_column(attribute: str) -> str:
    return f"l_{attribute_name(attribute)}"


def _lookup(column: str, table: Mapping[str, _Row]) -> str:
    """Spark's maps are searched from front to back; so there are many small ones, found by the value's checksum."""
    buckets: list[dict[str, Any]] = [{} for _ in range(len(table))]
    for value, row in table.items():
        entry = {"p": ",".join(row.places) or None, "r": row.rules or None}
        buckets[zlib.crc32(value.encode()) % len(buckets)][value] = entry
    constant = f"from_json({literal(json.dumps(buckets))}, '{TABLE_SCHEMA}')"  # one literal, folded when planned
    return f"try_element_at(get({constant}, cast(crc32(cast({column} AS binary)) % {len(buckets)} AS int)), {column})"


# ── the rest ──────────────────────────────────────────────────────────────────────────────────────────


def _shared(rules: Iterable[Rule]) -> dict[str, str]:
    """The columns of what more than one rule asks, by its SQL."""
    uses = Counter(_asked(condition) for rule in rules for condition in rule.rest)
    often = [sql for sql, count in uses.items() if count > 1]
    return {sql: f"s{number}" for number, sql in enumerate(often)}


def _asked(condition: Condition) -> str:
    return condition.sql if condition.error is None else _outcome(condition)


def _decision(rule: Rule, number: int, shared: Mapping[str, str]) -> str:
    """A number: 0 no match, 1 match, else that of an error."""
    guards = [f"array_contains({_lookup_column(rule.key.attribute)}.r, {number})"] if rule.key else []
    guards += [shared.get(_asked(each), each.sql) for each in rule.rest if each.error is None]
    outcomes = [shared.get(_asked(each), _outcome(each)) for each in rule.rest if each.error is not None]
    sql = outcomes[-1] if outcomes else "1"
    for outcome in reversed(outcomes[:-1]):
        sql = f"CASE WHEN {outcome} = 1 OR {outcome} > {MATCHES_ALTHOUGH} THEN {sql} ELSE {outcome} END"
    return f"CASE WHEN {' AND '.join(guards)} THEN {sql} ELSE 0 END" if guards else sql


def _outcome(condition: Condition) -> str:
    """The same number for one condition that can fail."""
    if condition.truth is not None:
        return condition.truth
    matches = f"cast({condition.sql} AS int)"
    return f"coalesce({condition.error} + {MATCHES_ALTHOUGH} * {matches}, {matches})"


def _is_match(column: str, rule: Rule) -> str:
    if any(each.error is not None and each.truth is None for each in rule.rest):
        return f"{column} = 1 OR {column} > {MATCHES_ALTHOUGH}"
    return f"{column} = 1"
