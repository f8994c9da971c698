"""The conditions of a search as Spark SQL: which records of the Kafka source are the events that are wanted.

Of most records one header says it; the JSON of an event without headers is only looked into for the rest. What is
told of those that are found is made in Python, by ``shown``: there are few. Called by ``search``.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row

from penstock.contract.model import ADDRESSEE
from penstock.contract.questions import Search
from penstock.contract.telemetry import RECEIVED
from penstock.event.model import REQUIRED
from penstock.filter.cesql_values import literal

EXACT = ("id", "source", "subject")
SHOWN = ("id", "source", "type", "subject", "time", "datacontenttype")
IS_BINARY = "array_contains(headers.key, 'ce_id')"  # who has an id among the headers has the others there too
MEMBERS = (  # of an event in JSON; not its data, which may be large
    "CASE WHEN NOT {is_binary} AND startswith(lower({content_type}), 'application/cloudevents') "
    "THEN from_json(cast(value AS string), '{schema}') END AS members"
)


def wanted_rows(records: DataFrame, asked: Search) -> DataFrame:
    """Those that are wanted, with what ``shown`` needs."""
    schema = ", ".join(f"{name} string" for name in dict.fromkeys((*REQUIRED, *SHOWN)))
    members = MEMBERS.format(is_binary=IS_BINARY, content_type=_header("content-type"), schema=schema)
    together = " AND ".join(f"({each})" for each in _conditions(asked))  # the first that does not hold ends it
    return (
        records.selectExpr("*", members)
        .where(together)
        .selectExpr(
            *("topic", "partition", "offset", "headers", "members"),
            "unix_millis(timestamp) AS timestamp",
            "coalesce(octet_length(value), 0) AS size",
        )
    )


def shown(row: Row) -> dict[str, Any]:
    """What is told of one of them."""
    headers: dict[str, bytes] = {}
    for each in row.headers or ():
        headers.setdefault(each.key, each.value)

    def text(key: str) -> str | None:
        value = headers.get(key)
        return None if value is None else bytes(value).decode("utf-8", "replace")

    if "ce_id" in headers:
        attributes = {name: text(f"ce_{name}") for name in SHOWN}
        attributes["datacontenttype"] = attributes["datacontenttype"] or text("content-type")
    else:
        attributes = {name: row.members[name] for name in SHOWN}
    stamp = text(RECEIVED) or ""
    return {
        **{name: row[name] for name in ("topic", "partition", "offset", "timestamp", "size")},
        **attributes,
        "received_ms": int(stamp) // 1000 if stamp.isdecimal() else row.timestamp,
        "addressee": text(ADDRESSEE),
    }


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
    """An attribute."""
    header = _header(f"ce_{name}")
    return f"CASE WHEN {IS_BINARY} THEN {header} ELSE members.{name} END"


def _header(key: str) -> str:
    return f"cast(get(headers, cast(array_position(headers.key, '{key}') - 1 AS int)).value AS string)"


def _pattern(text: str) -> str:
    """For LIKE: only the star has a meaning."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%")
