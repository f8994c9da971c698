"""The conditions of a search as Spark SQL: which records of the Kafka source are the events that are wanted.

Of most records one header says it. A map of all headers, or a look into the JSON of a structured event, is only made
for the rest: what is not asked for is not computed. Called by ``search``.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame

from penstock.contract.model import ADDRESSEE
from penstock.contract.questions import Search
from penstock.contract.telemetry import RECEIVED
from penstock.event.model import REQUIRED
from penstock.filter.cesql_values import literal
from penstock.pipeline.decode import HEADERS, attribute_text, with_columns

EXACT = ("id", "source", "subject")
SHOWN = ("id", "source", "type", "subject", "time", "datacontenttype")


def wanted_rows(records: DataFrame, asked: Search) -> DataFrame:
    """What is told of the events among them that are wanted; neither headers nor data, which may be large."""
    records = with_columns(records, HEADERS)  # only computed where somebody asks for them
    together = " AND ".join(f"({each})" for each in _conditions(asked))  # the first that does not hold ends it
    return records.where(together).selectExpr(
        *("topic", "partition", "offset"),
        "unix_millis(timestamp) AS timestamp",
        f"coalesce(try_cast({_header(RECEIVED)} AS bigint) div 1000, unix_millis(timestamp)) AS received_ms",
        *(f"{_text(name)} AS {name}" for name in SHOWN),
        "coalesce(octet_length(value), 0) AS size",
        f"{_header(ADDRESSEE)} AS addressee",
    )


def _conditions(asked: Search) -> Iterator[str]:
    if asked.since:
        yield f"timestamp >= timestamp_millis({int(asked.since * 1000)})"
    if asked.until:
        yield f"timestamp <= timestamp_millis({int(asked.until * 1000)})"
    for name in EXACT:
        if value := getattr(asked, name):
            yield f"{_text(name)} = {literal(value)}"
    if asked.type:
        yield f"{_text('type')} LIKE {literal(_pattern(asked.type))}"
    if asked.text:
        every = "concat_ws('\\n', cast(headers.value AS array<string>), cast(value AS string))"
        yield f"contains(lower({every}), lower({literal(asked.text)}))"
    for name in REQUIRED:  # else it is no event
        yield f"{_text(name)} IS NOT NULL"


def _text(name: str) -> str:
    """An attribute. Whoever has an id among the headers has the others there too."""
    header = _header(f"ce_{name}")
    if name == "datacontenttype":
        header = f"coalesce({header}, {_header('content-type')})"
    return f"CASE WHEN array_contains(headers.key, 'ce_id') THEN {header} ELSE {attribute_text(name)} END"


def _header(key: str) -> str:
    return f"cast(get(headers, cast(array_position(headers.key, '{key}') - 1 AS int)).value AS string)"


def _pattern(text: str) -> str:
    """For LIKE: only the star has a meaning."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%")
