"""Promises of the search in topics, with the real Kafka and the real Spark: what is found is what was sent."""

import http.client
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from penstock.access.tokens import authorization
from penstock.contract.model import HOME, Agreement, Cluster, Route, place_of
from penstock.contract.questions import Search, encode_question
from penstock.contract.telemetry import RECEIVED
from penstock.errors import Rejected
from penstock.event.kafka import Record, encode_record
from penstock.event.model import Event
from penstock.http.server import ServerThread, listen
from penstock.kafka.clusters import Clusters
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.topics import TopicSpec, create_missing
from penstock.pipeline import spans
from penstock.pipeline.places import Places
from penstock.pipeline.questions import LIMITS, Answers, Trials, application
from penstock.pipeline.search import Searches
from penstock.pipeline.trial import try_many
from penstock.pipeline.vitals import Vitals

MANY = 100_000
BASE_MS = 1_763_300_000_000
AS_SENT = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}


def event(id_: str, type_: str = "order.created", **attributes: str) -> Event:
    given = {"specversion": "1.0", "id": id_, "source": "/shop", "type": type_, **attributes}
    return Event({**given, "datacontenttype": "application/json"}, json.dumps({"of": id_}).encode())


def produce(kafka: KafkaConnection, topic: str, records: Sequence[tuple[Record, int]]) -> None:
    """Each with the time at which Kafka shall have had it."""
    producer = kafka.producer(**{"linger.ms": 20, "queue.buffering.max.messages": 2 * MANY})
    for record, timestamp in records:
        producer.produce(topic, record.value, record.key, headers=record.headers, timestamp=timestamp)
    assert producer.flush(60) == 0


def agreement(topic: str, cluster: Cluster = HOME) -> Agreement:
    return Agreement("u", 1, (Route(f"/default/{topic}", topic, cluster=cluster),))


@pytest.fixture(scope="module")
def places() -> Places:
    """What the contract knows."""
    known = Places()
    for topic in ("few", "many"):
        known.take(f"Broker/default/{topic}", agreement(topic))
    return known


@pytest.fixture(scope="module")
def searches(
    spark: SparkSession, kafka: KafkaConnection, places: Places, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searches]:
    clusters = Clusters(kafka, Path(tmp_path_factory.mktemp("secrets")))
    yield Searches(spark, clusters, places)
    clusters.close()


def _received(record: Record, milliseconds: int) -> Record:
    """With the time at which a receiver had it."""
    return record._replace(headers=[*record.headers, (RECEIVED, b"%d123" % milliseconds)])


@pytest.fixture(scope="module")
def few(kafka: KafkaConnection) -> str:
    """Eight events in binary and structured mode, and what is none."""
    create_missing(kafka.admin(), [TopicSpec("few", 3, config=AS_SENT)])
    sent = [
        (encode_record(event("1", subject="o'brien")), BASE_MS),
        (encode_record(event("2", "order.shipped")), BASE_MS + 1000),
        (encode_record(event("3", "order_created")), BASE_MS + 2000),
        (encode_record(event("4", subject="käse"), "structured"), BASE_MS + 3000),
        (encode_record(event("5", "bill.sent"), "structured"), BASE_MS + 4000),
        (Record(None, b"no event", []), BASE_MS + 5000),
        (encode_record(event("1", source="/other")), BASE_MS + 6000),
        (_received(encode_record(event("100%")), BASE_MS + 6900), BASE_MS + 7000),
    ]
    produce(kafka, "few", sent)
    return "few"


def asked(topic: str, **conditions: Any) -> Search:
    return Search(topics=(topic,), **conditions)


def found(searches: Searches, question: Search) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    lines = list(searches.search(question))
    return [line["event"] for line in lines if "event" in line], lines[-1]["done"]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, ["100%", "1", "5", "4", "3", "2", "1"]),
        ({"id": "1"}, ["1", "1"]),
        ({"id": "1", "source": "/shop"}, ["1"]),
        ({"subject": "o'brien"}, ["1"]),
        ({"subject": "käse"}, ["4"]),
        ({"type": "order.*"}, ["100%", "1", "4", "2", "1"]),
        ({"type": "*.s*"}, ["5", "2"]),
        ({"type": "order_*"}, ["3"]),
        ({"id": "100%"}, ["100%"]),
        ({"id": "nowhere"}, []),
        ({"text": '"OF": "5"'}, ["5"]),
        ({"text": "SHIPPED"}, ["2"]),
        ({"since": BASE_MS / 1000 + 4, "until": BASE_MS / 1000 + 6}, ["1", "5"]),
        ({"latest": 2}, ["100%", "1"]),
    ],
)
def test_events_are_found_by_what_they_are(
    searches: Searches, few: str, conditions: dict[str, Any], expected: list[str]
) -> None:
    """Kept promise: each condition finds its events, in either mode, the newest first."""
    rows, done = found(searches, asked(few, **conditions))
    assert [row["id"] for row in rows] == expected
    assert done["oldest"] == "2025-11-16T13:33:20.000Z"


def test_a_row_says_where_the_event_is(searches: Searches, few: str, kafka: KafkaConnection) -> None:
    """Kept promise: topic, partition, offset and attributes are those of the record."""
    ((row,), done) = found(searches, asked(few, id="5"))
    assert {name: row[name] for name in ("topic", "place", "source", "type", "subject")} == {
        "topic": "few", "place": "few", "source": "/shop", "type": "bill.sent", "subject": None
    }  # fmt: skip
    assert row["received"] == "2025-11-16T13:33:24.000Z"
    ((from_receiver,), _) = found(searches, asked(few, id="100%"))
    assert from_receiver["received"] == "2025-11-16T13:33:26.900Z"
    assert (done["scanned"], done["matched"], done["more"]) == (8, 1, False)


def test_a_topic_of_another_cluster(searches: Searches, few: str, kafka: KafkaConnection, places: Places) -> None:
    """Kept promise: a topic elsewhere is searched there; one that is away does not keep the others from it."""
    elsewhere, away = Cluster(kafka.bootstrap_servers), Cluster("127.0.0.1:1")
    places.take("Elsewhere", agreement(few, elsewhere))
    places.take("Away", agreement(few, away))
    question = Search(topics=(place_of(few, elsewhere), place_of(few, away)), id="5")
    rows, done = found(searches, question)
    assert [row["place"] for row in rows] == [f"few@{kafka.bootstrap_servers}"]
    assert len(done["problems"]) == 1
    assert "127.0.0.1:1" in done["problems"][0]


@pytest.fixture(scope="module")
def many(kafka: KafkaConnection) -> str:
    create_missing(kafka.admin(), [TopicSpec("many", 4, config=AS_SENT)])
    produce(kafka, "many", [(encode_record(event(f"e-{n}", subject=str(n % 50))), BASE_MS + n) for n in range(MANY)])
    return "many"


def test_one_among_a_hundred_thousand(searches: Searches, many: str) -> None:
    """Kept promise: an id is found wherever it is; all of the topic is looked at, since it may be there twice."""
    found(searches, asked(many, id="warm", whole=True))
    took: list[float] = []
    for _ in range(3):
        began = time.monotonic()
        ((row,), done) = found(searches, asked(many, id="e-777", whole=True))
        took.append(time.monotonic() - began)
        assert row["received"] == "2025-11-16T13:33:20.777Z"
        assert done["scanned"] == MANY
    assert min(took) < 5.0  # usually half a second: see the benchmark


def test_the_newest_are_found_without_reading_all(searches: Searches, many: str) -> None:
    """Kept promise: the newest of all partitions come first, though partitions are searched from their ends."""
    rows, done = found(searches, asked(many, latest=30))
    assert [row["id"] for row in rows] == [f"e-{n}" for n in range(MANY - 1, MANY - 31, -1)]
    assert done["scanned"] < MANY / 4
    assert done["more"]


def test_whoever_goes_away_ends_the_search(searches: Searches, many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept promise: a search that nobody waits for any more is ended, and its seat is free for the next."""
    monkeypatch.setattr(spans, "FIRST_PIECE", 5_000)
    monkeypatch.setattr(spans, "LARGEST_PIECE", 5_000)
    endless = encode_question(asked(many, id="nowhere", whole=True))
    answers = Answers(searches, Trials(searches._session), cast(Vitals, None))
    listener = listen("127.0.0.1", 0, "the dispatcher")
    server = ServerThread(application(answers, "a-token", open_metrics=False), LIMITS, listener).start()
    for _ in range(3):  # more than there are seats
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("POST", "/search", endless, {"Authorization": authorization("a-token")})
        line = connection.getresponse().readline()
        assert json.loads(line).keys() & {"progress", "waiting"}
        connection.close()
    monkeypatch.setattr(spans, "FIRST_PIECE", MANY)
    rows, done = found(searches, asked(many, id="e-5", whole=True))
    assert [row["id"] for row in rows] == ["e-5"], done
    server.stop()


def test_no_topic_is_searched_that_the_contract_does_not_name(searches: Searches, few: str) -> None:
    """Kept promise: a server or a Secret of the caller's choice is never used; one of them spares the others."""
    for strange in ("few@127.0.0.1:9", "penstock-contract", ""):
        with pytest.raises(Rejected, match="no such topic"):
            searches.search(asked(strange))
    rows, _ = found(searches, Search(topics=("few@127.0.0.1:9", few), id="5"))
    assert [row["place"] for row in rows] == ["few"]


def test_verdicts_of_many_filters_at_once(spark: SparkSession) -> None:
    """Kept promise: each event gets a verdict of each subscription, and who does not want it says which clause."""
    filters: list[list[dict[str, Any]]] = [
        [{"exact": {"type": "order.created"}}],
        [],
        [{"cesql": "LENGTH(id) > 3"}, {"prefix": {"source": "/x"}}],
        [{"exact": {"type": "order.created"}}],
    ]
    verdicts = try_many(spark.newSession(), filters, [event("long-id"), event("2", "bill.sent")])
    assert [[each.matched for each in row] for row in verdicts] == [
        [True, True, False, True],
        [False, True, False, False],
    ]
    assert verdicts[0][2].because == 'filters[1].prefix: source is "/shop", which does not begin with "/x"'
    assert verdicts[1][2].because == "filters[0].cesql: LENGTH(id) > 3 is false"
    assert verdicts[1][0].because == 'filters[0].exact: type is "bill.sent", which is not "order.created"'
