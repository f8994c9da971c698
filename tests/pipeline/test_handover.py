"""Promises of the hand-over from Spark to Python, each through a real Spark: who matches, and what arrives."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructField, StructType

from penstock.contract.model import RecordsAsEvents, Subscription
from penstock.delivery.row import ForeignRow, Row
from penstock.event.foreign import Foreign
from penstock.event.kafka import encode_record
from penstock.event.model import Event
from penstock.filter.matching import Matching, matching
from penstock.pipeline.handover import Parsed, handed_over, parse_row, parse_row_of_source
from penstock.pipeline.session import LIVE_BATCH_BYTES

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
RECORD = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("value", BinaryType()),
        StructField("headers", ArrayType(HEADER)),
    ]
)
Headers = Sequence[tuple[str, bytes | None]] | None


def subscription(*filters: Mapping[str, Any]) -> Subscription:
    return Subscription(
        uid="u",
        kind="Trigger",
        namespace="n",
        name="t",
        topic="orders",
        group="g",
        subscriber_url="http://localhost/",
        filters=tuple(dict(each) for each in filters),
    )


EVERYTHING = subscription()


def hand_over(
    spark: SparkSession, records: Sequence[tuple[bytes | None, Headers]], subscriptions: Sequence[Subscription]
) -> list[tuple[str, Row]]:
    """The records as a topic's partition 3 from offset 100 on, through Spark and taken apart again."""
    rows = [(3, 100 + i, value, headers) for i, (value, headers) in enumerate(records)]
    return taken_apart(handed_over(spark.createDataFrame(rows, RECORD), _matching(subscriptions)))


def _matching(subscriptions: Sequence[Subscription]) -> Matching:
    return matching(each.filters for each in subscriptions)


def taken_apart(frame: DataFrame, parse: Callable[[bytes], Parsed] = parse_row) -> list[tuple[str, Row]]:
    packed = frame.collect()
    parsed = []
    for index, each in enumerate(packed):
        assert len(each.row) > LIVE_BATCH_BYTES, "a row that Spark would keep back in live mode"
        partition, kind, _, row = parse(bytes(each.row))
        assert (partition, row.offset) == (3, 100 + index)
        parsed.append((kind, row))
    return parsed


def event(**attributes: str) -> Event:
    return Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}, b'{"a": 1}')


def record(each: Event, mode: Any = "binary") -> tuple[bytes | None, Headers]:
    encoded = encode_record(each, mode)
    return encoded.value, encoded.headers


def test_an_event_arrives_as_finished_header_lines_and_untouched_data(spark: SparkSession) -> None:
    """Kept promise: what a subscriber gets is what was stored, plus partition and offset."""
    data = bytes(range(256)) + b"\n\0\r\n\r\n"
    stored = Event({"specversion": "1.0", "id": "A-1", "source": "/s", "type": "t", "datacontenttype": "a/b"}, data)
    ((kind, row),) = hand_over(spark, [record(stored)], [EVERYTHING])
    assert kind == "b"
    assert row.body == data
    assert sorted(row.headers) == sorted(
        [
            b"ce-specversion:1.0",
            b"ce-id:A-1",
            b"ce-source:/s",
            b"ce-type:t",
            b"content-type:a/b",
            b"ce-knativekafkapartition:3",
            b"ce-knativekafkaoffset:100",
        ]
    )


def test_values_beyond_visible_ascii_are_percent_encoded(spark: SparkSession) -> None:
    """Kept promise: header values follow CloudEvents' HTTP binding; the content type stays as it is."""
    stored = event(subject='Euro € 😀 "50%"', datacontenttype="text/plain; charset=utf-8", empty="")
    ((_, row),) = hand_over(spark, [record(stored)], [EVERYTHING])
    assert b"ce-subject:Euro%20%E2%82%AC%20%F0%9F%98%80%20%2250%25%22" in row.headers
    assert b"content-type:text/plain; charset=utf-8" in row.headers
    assert b"ce-empty;" in row.headers  # libcurl's way to send an empty header


def test_a_structured_record_is_delivered_in_binary_form(spark: SparkSession) -> None:
    """Kept promise: records that others wrote in structured mode match and arrive like all others."""
    wanted = subscription({"exact": {"type": "order.created", "amount": "5"}})
    stored = event(type="order.created", amount="5", datacontenttype="application/json")
    value, _ = record(stored, "structured")
    others = [("content-type", b"application/cloudevents+json; charset=utf-8")]
    ((kind, row),) = hand_over(spark, [(value, others)], [wanted])
    assert kind == "s"
    assert row.matched == (0,)
    assert b"ce-type:order.created" in row.headers
    assert b"content-type:application/json" in row.headers
    assert row.body == b'{"a": 1}'


def test_trace_context_is_passed_on_and_other_headers_are_not(spark: SparkSession) -> None:
    """Kept promise: W3C trace context reaches the subscriber in every mode; a record's private headers do not."""
    more = [("traceparent", b"00-abc-def-01"), ("tracestate", b"vendor=1"), ("authorization", b"secret")]
    records = []
    for mode in ("binary", "structured"):
        value, headers = record(event(), mode)
        records.append((value, [*(headers or ()), *more]))
    rows = hand_over(spark, records, [EVERYTHING])
    assert [kind for kind, _ in rows] == ["b", "s"]
    for _, row in rows:
        assert row.headers.count(b"traceparent:00-abc-def-01") == 1
        assert row.headers.count(b"tracestate:vendor=1") == 1
        assert not any(b"secret" in line for line in row.headers)


def test_only_attributes_that_servers_would_refuse_make_an_event_wide(spark: SparkSession) -> None:
    """Kept promise: header lines of more than 7 kB travel as JSON, all others as headers."""
    rows = hand_over(spark, [record(event(note="x" * size)) for size in (8_000, 6_000, 10)], [EVERYTHING])
    assert [(row.matched, row.is_wide) for _, row in rows] == [((0,), True), ((0,), False), ((0,), False)]


def test_of_a_doubled_header_the_last_counts(spark: SparkSession) -> None:
    """Kept promise: an event whose id stands there twice is delivered, with one id."""
    value, headers = record(event())
    ((kind, row),) = hand_over(spark, [(value, [*(headers or ()), ("ce_id", b"2")])], [EVERYTHING])
    assert (kind, row.matched) == ("b", (0,))
    assert [line for line in row.headers if line.startswith(b"ce-id")] == [b"ce-id:2"]


def test_private_headers_cost_nothing_whatever_they_hold(spark: SparkSession) -> None:
    """Kept promise: what others keep in the headers of their records is theirs: numbers in binary, nothing, a lot."""
    value, headers = record(event())
    assert headers is not None
    private = [b"\0\0\0\0\0\x01\0\x16", None, b"", b"\xff\xfe", b"a\r\nX-Evil: 1", b"x" * 10_000]
    rows = hand_over(spark, [(value, [("__TypeId__", each), *headers]) for each in private], [EVERYTHING])
    for kind, row in rows:
        assert (kind, row.matched, row.is_wide) == ("b", (0,), False)
        assert len(row.headers) == len(headers) + 3  # partition, offset, and that there is no content type


RUBBISH: list[tuple[bytes | None, Headers]] = [
    (None, None),
    (None, []),
    (b"just text", []),
    (b"{}", [("ce_id", b"1")]),
    (b"{trunc", [("content-type", b"application/cloudevents+json")]),
    (None, [("content-type", b"application/cloudevents+json")]),
    (b"[1]", [("content-type", b"application/cloudevents+json")]),
]


@pytest.mark.scenario(22)
def test_a_record_that_is_no_event_only_moves_the_position(spark: SparkSession) -> None:
    """Kept promise: rubbish in a topic reaches nobody and stops nothing."""
    rows = hand_over(spark, RUBBISH, [EVERYTHING])
    assert [(kind, row.matched) for kind, row in rows] == [("x", ())] * len(RUBBISH)


def test_header_values_cannot_smuggle_headers(spark: SparkSession) -> None:
    """Kept promise: a record written past the receiver cannot inject headers into a delivery."""
    body, headers = record(event())
    assert headers is not None
    names = ["ce_x\r\nX-Evil", "ce_x: y\r\nX-Evil", "ce_ "]
    rows = hand_over(spark, [(body, [*headers, (name, b"1")]) for name in names], [EVERYTHING])
    assert [(kind, row.matched) for kind, row in rows] == [("x", ())] * len(names)
    values = [b"a\r\nX-Evil: 1", b"a\nb", b"a\0ce-evil:1", b"\xff\xfe", b"a\x1fb", None]
    rows = hand_over(spark, [(body, [*headers, ("ce_ext", value)]) for value in values], [EVERYTHING])
    assert [(kind, row.matched) for kind, row in rows] == [("x", ())] * len(values)


FILTERS: list[tuple[Mapping[str, Any], list[str]]] = [
    ({"exact": {"type": "order.created"}}, ["created"]),
    ({"exact": {"type": "order.created", "region": "eu"}}, []),
    ({"exact": {"type": "Order.Created"}}, []),
    ({"prefix": {"type": "order."}}, ["created", "shipped"]),
    ({"suffix": {"type": ".shipped"}}, ["shipped"]),
    ({"prefix": {"region": "e"}}, ["shipped"]),
    ({"not": {"prefix": {"region": "e"}}}, ["created", "other"]),
    ({"any": [{"exact": {"region": "eu"}}, {"exact": {"type": "other"}}]}, ["shipped", "other"]),
    ({"all": [{"prefix": {"type": "order."}}, {"not": {"exact": {"region": "eu"}}}]}, ["created"]),
    ({"attributes": {"region": ""}}, ["shipped"]),
    ({"attributes": {"type": "other", "region": ""}}, []),
    ({"attributes": {}}, ["created", "shipped", "other"]),
    ({"exact": {"datacontenttype": "application/json"}}, ["created", "shipped", "other"]),
    ({"not": {"exact": {"dataschema": "x"}}}, ["created", "shipped", "other"]),
]


def test_filters_decide_as_the_specification_says(spark: SparkSession) -> None:
    """Kept promise: every dialect, missing attributes included, all in one projection."""
    events = {
        "created": event(type="order.created", datacontenttype="application/json"),
        "shipped": event(type="order.shipped", region="eu", datacontenttype="application/json"),
        "other": event(type="other", datacontenttype="application/json"),
    }
    names = list(events)
    rows = hand_over(spark, [record(each) for each in events.values()], [subscription(f) for f, _ in FILTERS])
    found: list[list[str]] = [[] for _ in FILTERS]
    for name, (_, row) in zip(names, rows, strict=True):
        for place in row.matched:
            found[place].append(name)
    assert found == [expected for _, expected in FILTERS]


def test_a_bad_trace_costs_the_trace_and_not_the_event(spark: SparkSession) -> None:
    """Kept promise: an acknowledged event arrives, whatever a proxy on its way wrote into the trace headers."""
    value, headers = record(event())
    assert headers is not None
    traces = [b"a=1,\tb=2", b"\xff\xfe", b"a\r\nX-Evil: 1", b""]
    rows = hand_over(spark, [(value, [*headers, ("tracestate", each)]) for each in traces], [EVERYTHING])
    for kind, row in rows:
        assert (kind, row.matched) == ("b", (0,))
        assert not any(line.startswith(b"tracestate") for line in row.headers)


def test_an_event_from_another_broker_has_its_place_said_once(spark: SparkSession) -> None:
    """Kept promise: what one broker adds does not stand twice behind the next one, which nobody would accept."""
    stored = event(knativekafkapartition="9", knativekafkaoffset="12345")
    rows = hand_over(spark, [record(stored), record(stored, "structured")], [EVERYTHING])
    for offset, (_, row) in enumerate(rows, start=100):
        places = [line for line in row.headers if line.startswith(b"ce-knativekafka")]
        assert places == [b"ce-knativekafkapartition:3", b"ce-knativekafkaoffset:%d" % offset]


def test_an_event_without_a_content_type_gets_none(spark: SparkSession) -> None:
    """Kept promise: the HTTP client does not invent one."""
    rows = hand_over(spark, [record(event()), record(event(), "structured")], [EVERYTHING])
    assert all(row.headers.count(b"Content-Type:") == 1 for _, row in rows)


def test_an_event_about_an_event_arrives_whatever_its_data(spark: SparkSession) -> None:
    """Kept promise: data that looks like an event, and is more than Spark's JSON reads, is still an event's data."""
    inner = b'{"specversion": "1.0", "n": ' + b"9" * 1500 + b', "' + b"k" * 60_000 + b'": 1}'
    stored = Event(
        {"specversion": "1.0", "id": "1", "source": "/s", "type": "outer",
         "datacontenttype": "application/cloudevents+json"},
        inner,
    )  # fmt: skip
    wanted = subscription({"exact": {"type": "outer", "datacontenttype": "application/cloudevents+json"}})
    ((kind, row),) = hand_over(spark, [record(stored)], [wanted])
    assert (kind, row.matched) == ("s", (0,))
    assert b"content-type:application/cloudevents+json" in row.headers  # structured, or it would be the inner one
    assert inner in row.body


SOURCE = msgspec.structs.replace(EVERYTHING, uid="s", kind="KafkaSource", records=RecordsAsEvents("/source"))
WITH_ORIGIN = "partition int, offset bigint, value binary, headers array<struct<key:string,value:binary>>, \
    key binary, timestamp timestamp"
WRITTEN = datetime.fromtimestamp(1_577_836_800.123, UTC)
KEYS = [None, b"", b"\0\n\xff k"]


@pytest.mark.parametrize("key", KEYS, ids=["no key", "an empty key", "a binary key"])
def test_a_record_that_is_no_event_reaches_sources_whole(spark: SparkSession, key: bytes | None) -> None:
    """Kept promise: value, key, time and headers of what is no event come to a source, and to no trigger."""
    rows = [(3, 100 + i, value, headers, key, WRITTEN) for i, (value, headers) in enumerate(RUBBISH)]
    subscriptions = [EVERYTHING, SOURCE, msgspec.structs.replace(SOURCE, uid="o", order="key")]
    frame = spark.createDataFrame(rows, WITH_ORIGIN)
    found = taken_apart(handed_over(frame, _matching(subscriptions), subscriptions), parse_row_of_source)
    for (kind, row), (value, headers) in zip(found, RUBBISH, strict=True):
        told = [(name.encode(), each) for name, each in headers or ()]
        assert (kind, row.matched, row.body) == ("x", (1, 2), value or b"")
        assert isinstance(row, ForeignRow)
        assert row.record == Foreign(3, row.offset, 1_577_836_800_123, key or b"", told)
        assert (row.key is None) == (key is None)


def test_an_event_comes_to_a_source_as_to_everybody(spark: SparkSession) -> None:
    """Kept promise: beside a source events are what they are: same lines, same data, whatever the key."""
    stored = [record(event(subject="a b")), record(event(), "structured"), record(event())]
    rows = [(3, 100 + i, value, headers, KEYS[i], WRITTEN) for i, (value, headers) in enumerate(stored)]
    wanted = [SOURCE, EVERYTHING, subscription({"exact": {"type": "other"}})]
    frame = spark.createDataFrame(rows, WITH_ORIGIN)
    with_source = taken_apart(handed_over(frame, _matching(wanted), wanted), parse_row_of_source)
    alone = taken_apart(handed_over(frame, _matching(wanted[1:]), wanted[1:]))
    assert [row.matched for _, row in with_source] == [(0, 1)] * 3
    assert [row.matched for _, row in alone] == [(0,)] * 3
    for (kind, row), (other_kind, other) in zip(with_source, alone, strict=True):
        assert (kind, row.headers, row.body) == (other_kind, other.headers, other.body)
        assert not isinstance(row, ForeignRow)


def test_what_proves_to_be_no_event_only_in_python_reaches_sources_too(spark: SparkSession) -> None:
    """Kept promise: a record with all attributes of an event and one that cannot be is a record like any other."""
    value, headers = record(event())
    rows = [(3, 100, value, [*(headers or ()), ("ce_ext", b"a\r\nX-Evil: 1")], b"k", WRITTEN)]
    frame = handed_over(spark.createDataFrame(rows, WITH_ORIGIN), _matching([SOURCE]), [SOURCE])
    ((kind, row),) = taken_apart(frame, parse_row_of_source)
    assert (kind, row.matched, row.body) == ("x", (0,), b'{"a": 1}')
    assert isinstance(row, ForeignRow)
    assert row.record.key == b"k"
    assert (b"ce_ext", b"a\r\nX-Evil: 1") in row.record.headers
