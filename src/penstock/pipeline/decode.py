"""From a record of the Kafka source to the attributes of its event, as far as somebody's filter wants them.

Steps of SQL, like those of ``filter.matching``, which come behind them and use their columns: the text of each
attribute, its type where a format keeps types, and what is found at paths into JSON data.
"""

from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql import DataFrame

from penstock.event.model import REQUIRED
from penstock.filter.matching import Column, Matching, path_column, tag_of, text_of
from penstock.filter.sql_text import attribute_name, literal

HEADERS = (
    (Column("by_name", "map_from_entries(headers)"),),
    (Column("content_type", "cast(element_at(by_name, 'content-type') AS string)"),),
    (Column("is_structured", "coalesce(startswith(lower(content_type), 'application/cloudevents'), FALSE)"),),
    (Column("members", "CASE WHEN is_structured THEN from_json(cast(value AS string), 'map<string,string>') END"),),
)
ENVELOPE = Column("envelope", "CASE WHEN is_structured THEN try_parse_json(cast(value AS string)) END")
# Without a content type data is JSON, as the JSON format has it.
IS_JSON = r"coalesce({} RLIKE '(?i)\\A\\s*[^/;\\s]+/([^;\\s]*\\+)?json\\s*(;|\\z)', TRUE)"
IN_ENVELOPE = "try_variant_get(envelope, '$.datacontenttype', 'string')"
IN_BASE64 = "try_to_binary(try_variant_get(envelope, '$.data_base64', 'string'), 'base64')"
DATA = Column(
    "data",
    "CASE WHEN is_structured THEN coalesce(try_variant_get(envelope, '$.data', 'variant'), "
    f"CASE WHEN {IS_JSON.format(IN_ENVELOPE)} "
    f"THEN try_parse_json(cast({IN_BASE64} AS string)) END) "
    f"WHEN {IS_JSON.format('content_type')} THEN try_parse_json(cast(value AS string)) END",
)


def with_columns(records: DataFrame, steps: Iterable[Sequence[Column]]) -> DataFrame:
    """Each step adds its columns, which those after it may use; what nobody uses Spark leaves out."""
    for step in steps:
        records = records.selectExpr("*", *(f"{each.sql} AS {each.name}" for each in step))
    return records


def decoded(matched: Matching) -> Iterator[Sequence[Column]]:
    """What the filters need, step by step; the required attributes are always there."""
    yield from HEADERS
    if matched.tagged or matched.paths:
        yield [ENVELOPE]
    names = dict.fromkeys((*REQUIRED, *matched.attributes))
    yield [Column(text_of(each), attribute_text(each)) for each in names]
    if matched.tagged:
        yield [Column(tag_of(each), _tag(each)) for each in matched.tagged]
    if matched.paths:
        yield [DATA]
        yield from in_data(matched.paths)


def attribute_text(name: str) -> str:
    """Spark's JSON has limits that events have not; our own records have their attributes in headers as well."""
    in_header = f"cast(element_at(by_name, {literal(f'ce_{attribute_name(name)}')}) AS string)"
    if name == "datacontenttype":
        in_header = f"CASE WHEN is_structured THEN {in_header} ELSE content_type END"
    return f"CASE WHEN members IS NOT NULL THEN element_at(members, {literal(name)}) ELSE {in_header} END"


def _tag(name: str) -> str:
    """Headers hold strings; the JSON format has integers and truths too."""
    path = literal(f"$.{attribute_name(name)}")
    kind = _kind(f"try_variant_get(envelope, {path}, 'variant')", f"try_variant_get(envelope, {path}, 'string')")
    is_integer = f"try_cast({text_of(name)} AS int) IS NOT NULL"
    return (
        f"CASE WHEN envelope IS NULL THEN 's' ELSE CASE {kind} WHEN 'BOOLEAN' THEN 'b' "
        f"WHEN 'BIGINT' THEN CASE WHEN {is_integer} THEN 'i' ELSE 's' END ELSE 's' END END"
    )


def _kind(found: str, text: str) -> str:
    """The type of a single value; empty for objects and arrays, which have no type of CESQL's.

    Spark is never asked for their schema: its time is quadratic in the names of an array's objects, and objects that
    are nested 900 deep overflow the stack, which ends the process.
    """
    is_nested = f"{text} IS NULL OR startswith({text}, '{{') OR startswith({text}, '[')"
    return f"CASE WHEN {is_nested} THEN '' ELSE schema_of_variant({found}) END"


def in_data(paths: Sequence[str]) -> Iterator[list[Column]]:
    """For each path the columns that ``filter.matching`` wants: text, tag and number. Starts from ``data``."""
    columns = [path_column(place) for place in range(len(paths))]
    yield [
        Column(f"{each}_found", f"try_variant_get(data, {literal(path)}, 'variant')")
        for each, path in zip(columns, paths, strict=True)
    ]
    yield [Column(f"{each}_text", f"try_variant_get({each}_found, '$', 'string')") for each in columns]
    yield [Column(f"{each}_kind", _kind(f"{each}_found", f"{each}_text")) for each in columns]
    yield [
        Column(
            f"{each}_number",
            f"CASE WHEN {each}_kind RLIKE 'BIGINT|DOUBLE|DECIMAL.*' "
            f"THEN try_variant_get({each}_found, '$', 'double') END",
        )
        for each in columns
    ]
    yield [
        Column(
            f"{each}_tag",
            f"CASE WHEN {each}_number BETWEEN -2147483648 AND 2147483647 AND {each}_number = floor({each}_number) "
            f"THEN 'i' WHEN {each}_number IS NOT NULL THEN 'n' "
            f"WHEN {each}_kind = 'BOOLEAN' THEN 'b' ELSE 's' END",
        )
        for each in columns
    ]
    yield [
        Column(
            each,
            f"CASE WHEN {each}_tag = 'i' THEN cast(cast({each}_number AS int) AS string) ELSE {each}_text END",
        )
        for each in columns
    ]
