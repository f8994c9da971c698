"""Filters tried on single events, outside of any stream: by the same code, with the reason.

The events become records as the receiver would write them; the filters and each of their parts are matched as if they
were so many subscriptions. Called by ``penstock trigger test``, and by ``questions`` for all of a topic.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from penstock.event.kafka import encode_record
from penstock.event.model import Event
from penstock.filter.matching import Matching, matching
from penstock.filter.parts import Answer, Part, because, numbered, parts_of
from penstock.pipeline.decode import decoded, with_columns
from penstock.pipeline.filter_errors import errors_by_place
from penstock.pipeline.handover import NO_ERRORS


class Verdict(NamedTuple):
    matched: bool
    because: str


def try_filters(
    session: SparkSession, filters: Sequence[Mapping[str, Any]], events: Sequence[Event]
) -> list[Verdict]:
    """One verdict for each event, in the same order."""
    return [verdict for (verdict,) in try_many(session, [filters], events)]


def try_many(
    session: SparkSession,
    filters: Sequence[Sequence[Mapping[str, Any]]],
    events: Sequence[Event],
    *,
    reasons: bool = True,
) -> list[list[Verdict]]:
    """For each event a verdict on each list of filters. Without reasons there is less to be asked."""
    tried = {json.dumps(each): _Tried(each, []) for each in filters}  # many subscriptions have the same
    asked: list[Sequence[Mapping[str, Any]]] = []
    for each in tried.values():
        each.place = len(asked)
        asked.append(each.filters)
        if reasons:
            each.parts = parts_of(each.filters)
            asked += ([part.filter] for part in numbered(each.parts))
    verdicts: dict[int, list[Verdict]] = {}
    for row in _matched(_records(session, events), matching(asked)).collect() if events else ():
        found, errors = set(row.places.split(",")), errors_by_place(row.errors.encode() or NO_ERRORS)
        answers = [Answer(str(place) in found, errors.get(place)) for place in range(len(asked))]
        attributes = events[row.offset].attributes
        by_filters = {key: each.verdict(answers, attributes) for key, each in tried.items()}
        verdicts[row.offset] = [by_filters[json.dumps(each)] for each in filters]
    return [verdicts[offset] for offset in range(len(events))]


def _records(session: SparkSession, events: Sequence[Event]) -> DataFrame:
    """As a table of Arrow, which Spark takes as it is: filters are then evaluated while it plans, without compiling
    any code and without a job."""
    import pyarrow  # 30 MB, which a dispatcher that nobody asks does without

    header = pyarrow.struct({"key": pyarrow.string(), "value": pyarrow.binary()})
    columns = pyarrow.schema(
        {
            "partition": pyarrow.int32(),
            "offset": pyarrow.int64(),
            "value": pyarrow.binary(),
            "headers": pyarrow.list_(header),
        }
    )
    rows = []
    for offset, event in enumerate(events):
        record = encode_record(event, "binary")
        headers = [{"key": name, "value": value} for name, value in record.headers]
        rows.append({"partition": 0, "offset": offset, "value": record.value, "headers": headers})
    return session.createDataFrame(pyarrow.Table.from_pylist(rows, columns))


def _matched(records: DataFrame, found: Matching) -> DataFrame:
    columns = with_columns(records, (*decoded(found), *found.steps))
    return columns.selectExpr("offset", f"{found.places} AS places", f"{found.errors} AS errors")


@dataclass
class _Tried:
    """The filters of somebody, and where they and their parts stand in the list of all."""

    filters: Sequence[Mapping[str, Any]]
    parts: list[Part]
    place: int = 0

    def verdict(self, answers: Sequence[Answer], attributes: Mapping[str, str]) -> Verdict:
        is_match = answers[self.place].is_match
        if self.filters and not self.parts:  # nobody asked why
            return Verdict(is_match, "")
        return Verdict(is_match, because(self.parts, answers[self.place + 1 :], attributes))
