"""A subscription's filters tried on single events, outside of any stream: by the same code, with the reason.

The events become records as the receiver would write them; the filters and each of their parts are matched as if they
were so many subscriptions. Called by ``penstock trigger test``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from penstock.event.kafka import encode_record
from penstock.event.model import Event
from penstock.filter.matching import matching
from penstock.filter.parts import Answer, because, numbered, parts_of
from penstock.pipeline.filter_errors import errors_by_place
from penstock.pipeline.handover import handed_over, parse_row

RECORD = "partition int, offset bigint, value binary, headers array<struct<key:string,value:binary>>"


class Verdict(NamedTuple):
    matched: bool
    because: str


def try_filters(
    session: SparkSession, filters: Sequence[Mapping[str, Any]], events: Sequence[Event]
) -> list[Verdict]:
    """One verdict for each event, in the same order."""
    parts = parts_of(filters)
    asked = numbered(parts)
    rows = []
    for offset, event in enumerate(events):
        record = encode_record(event, "binary")
        rows.append((0, offset, record.value, record.headers))
    matched = matching([filters, *([part.filter] for part in asked)])
    verdicts: dict[int, Verdict] = {}
    for packed in handed_over(session.createDataFrame(rows, RECORD), matched).collect():
        parsed = parse_row(bytes(packed.row))
        found, errors = set(parsed.row.matched), errors_by_place(parsed.errors)
        answers = [Answer(number + 1 in found, errors.get(number + 1)) for number in range(len(asked))]
        event = events[parsed.row.offset]
        verdicts[parsed.row.offset] = Verdict(0 in found, because(parts, answers, event.attributes))
    return [verdicts[offset] for offset in range(len(events))]
