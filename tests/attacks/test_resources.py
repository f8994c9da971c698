"""Attacks on stored resources: no request and no record in a topic hides the other resources from lists."""

import base64
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import TopicPartition

from penstock.contract.model import CONTRACT_TOPIC, DEAD_LETTERS_TOPIC, REPORT_TOPIC, RESOURCES_TOPIC
from penstock.kafka import topics
from penstock.kafka.connection import KafkaConnection
from penstock.kafka.topics import COMPACTED, RECORDS, TopicSpec
from penstock.ports import free_port
from tests.conftest import running_kafka
from tests.control.conftest import echo
from tests.control.objects import annotated, broker, channel, config_map, sink, stored, trigger
from tests.sink import Sink
from tests.waiting import until

LONE = "\ud800"
DEEP = "[" * 2000 + "]" * 2000
MOST_RESOURCES = 12
EVENTING = "/apis/eventing.knative.dev/v1/namespaces/default"
MESSAGING = "/apis/messaging.knative.dev/v1beta1/namespaces/default"
SINKS = "/apis/eventing.knative.dev/v1alpha1/namespaces/default/kafkasinks"
CORE = "/api/v1/namespaces/default"


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any

    @property
    def fields(self) -> list[str]:
        return [each["field"] for each in self.body["problems"]]

    def names_field(self, field: str) -> bool:
        """Among the problems; or in the message, where the body contradicts the path."""
        return field in self.fields or f"the body's {field.rpartition('.')[2]} is" in self.body["error"]


@dataclass(frozen=True)
class Admin:
    """The admin port of a controller."""

    port: int

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """``body``: an object, or the text itself."""
        text = body if isinstance(body, str) or body is None else json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return Answer(response.status, json.loads(response.read()))
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def names(self, path: str) -> list[str]:
        return [each["metadata"]["name"] for each in self.get(path)["items"]]

    def apply(self, path: str, resource: dict[str, Any]) -> Any:
        answer = self.ask("POST", path, resource)
        assert answer.status in (200, 201), answer
        return answer.body

    def ready(self, path: str) -> Any:
        def look() -> Any:
            conditions = (self.get(path).get("status") or {}).get("conditions") or []
            return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)

        until(look, f"{path} is ready")
        return self.get(path)


def as_record(resource: dict[str, Any]) -> tuple[bytes, bytes]:
    metadata = resource["metadata"]
    key = f"{resource['kind']}/{metadata['namespace']}/{metadata['name']}"
    return key.encode(), json.dumps(resource).encode()


def _junk() -> dict[str, list[tuple[bytes, bytes]]]:
    """The records in the topics before the controller starts."""
    lone = as_record(stored(annotated(broker("lone"), note=LONE)))
    nan = as_record({**stored(config_map("nan")), "immutable": float("nan")})
    _, good = as_record(stored(broker("another")))
    return {
        RESOURCES_TOPIC: [
            lone,
            nan,
            (b"Broker/default/no-json", b"{"),
            (b"Broker/default/deep", b'{"kind": ' + DEEP.encode() + b"}"),
            (b"Broker/default/other-key", good),
            (b"Trigger/default/list", b"[]"),
            (b"Subscription/default/no-spec", json.dumps(stored(trigger("no-spec"))).encode()),
            (b"\xff\xfe", good),
        ],
        CONTRACT_TOPIC: [(b"Broker/default/agreed", b"junk"), (b"junk", b"{}")],
        REPORT_TOPIC: [(b"query/junk", b"junk"), (b"\xff", b"{}")],
    }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    """A Kafka for these tests alone: they count resources and records that cannot be read."""
    with running_kafka(tmp_path_factory.mktemp("resources")) as cluster:
        yield cluster.connection


@pytest.fixture(scope="module")
def ingress() -> Iterator[Sink]:
    found = Sink().start()
    for name in ("lone", "good", "events", "changed"):
        found.answer(f"/default/{name}", with_=echo)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def admin(kafka: KafkaConnection, ingress: Sink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    """A controller that starts with invalid records in its topics, and with dead letters that retention has taken."""
    compacted = (RESOURCES_TOPIC, CONTRACT_TOPIC, REPORT_TOPIC)
    topics.create_missing(kafka.admin(), [TopicSpec(each, 1, 1, COMPACTED) for each in compacted])
    topics.create_missing(kafka.admin(), [TopicSpec(DEAD_LETTERS_TOPIC, 1, 1, RECORDS)])
    junk, producer = _junk(), kafka.producer()
    for topic, records in junk.items():
        for key, value in records:
            producer.produce(topic, value, key, partition=0)
    producer.produce(DEAD_LETTERS_TOPIC, b"{}", b"key", partition=0)
    assert producer.flush(60) == 0
    maker = kafka.admin()
    for future in maker.delete_records([TopicPartition(DEAD_LETTERS_TOPIC, 0, -1)]).values():
        future.result(60)
    port = free_port()
    command = ["controller", "--bootstrap-servers", kafka.bootstrap_servers, "--default-partitions", "1"]
    ports = ["--admin-port", str(port), "--ingress-port", str(ingress.port)]
    environment = {
        "PENSTOCK_DATA_DIR": str(tmp_path_factory.mktemp("data")),
        "PENSTOCK_SECRETS_DIR": str(tmp_path_factory.mktemp("secrets")),
        "PENSTOCK_MOST_RESOURCES_IN_NAMESPACE": str(MOST_RESOURCES),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", *command, *ports],
        env=os.environ | environment,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _is_ready(port), "the controller")
        yield Admin(port)
    finally:
        process.terminate()
        process.wait(60)


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


# ── what is sent ──────────────────────────────────────────────────────────────────────────────────────

POISON = {
    "a lone surrogate in an annotation": (annotated(broker("bad"), note=LONE), "metadata.annotations.note"),
    "a lone surrogate as the name of an annotation": (
        annotated(broker("bad"), **{LONE: "x"}), "metadata.annotations[\ufffd]",
    ),
    "a lone surrogate in a label": (
        {**broker("bad"), "metadata": {"name": "bad", "labels": {"a": LONE}}}, "metadata.labels.a",
    ),
    "a lone surrogate in the name": (broker("bad" + LONE), "metadata.name"),
    "a lone surrogate in the kind": ({**broker("bad"), "kind": LONE}, "kind"),
    "not a number": (broker("bad", delivery={"retry": float("nan")}), "spec.delivery.retry"),
    "infinity in a field that nobody reads": (broker("bad", config={"x": float("-inf")}), "spec.config.x"),
    "a number of a hundred digits": (broker("bad", delivery={"retry": 10**100}), "spec.delivery.retry"),
}  # fmt: skip


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("name", POISON)
def test_a_resource_that_json_cannot_hold_is_refused_with_its_field(admin: Admin, name: str, method: str) -> None:
    resource, field = POISON[name]
    path = f"{EVENTING}/brokers" + ("/bad" if method == "PUT" else "")
    answer = admin.ask(method, path, resource)
    assert answer.status == 400
    assert answer.names_field(field), answer
    assert "bad" not in admin.names(f"{EVENTING}/brokers")


VALUES = ["NaN", "Infinity", '"\\ud800"', '{"a": "\\udfff"}', '[["\\ud800"]]', DEEP[1900:-1900]]


@pytest.mark.parametrize("field", ["immutable", "binaryData"])
@pytest.mark.parametrize("value", VALUES)
def test_fields_without_a_meaning_are_checked_too(admin: Admin, field: str, value: str) -> None:
    text = json.dumps(config_map("bad"))[:-1] + f', "{field}": {value}}}'
    answer = admin.ask("POST", f"{CORE}/configmaps", text)
    assert answer.status == 400
    assert [each for each in answer.fields if each.startswith(field)], answer
    assert "bad" not in admin.names(f"{CORE}/configmaps")


def test_json_of_any_depth_is_refused(admin: Admin) -> None:
    for depth in (100, 2_000, 100_000):
        text = json.dumps(broker("bad"))[:-1] + ', "x": ' + "[" * depth + "]" * depth + "}"
        assert admin.ask("POST", f"{EVENTING}/brokers", text).status in (400, 413, 422)
    assert "bad" not in admin.names(f"{EVENTING}/brokers")


@pytest.mark.parametrize(
    ("verb", "body"),
    [("pause", {"reason": LONE}), ("pause", {"until": LONE}), ("pause", {"until": "2026" + LONE}),
     ("reset", {"to": LONE}), ("reset", {"to": "0=" + LONE})],
)  # fmt: skip
def test_invalid_unicode_is_refused_wherever_it_is_sent(admin: Admin, verb: str, body: dict[str, str]) -> None:
    admin.apply(f"{EVENTING}/triggers", trigger("paused"))
    try:
        answer = admin.ask("POST", f"/api/penstock/triggers/default/paused/{verb}", body)
        assert answer.status == 400
        assert answer.fields == list(body)
        assert "paused" in admin.names(f"{EVENTING}/triggers")
    finally:
        admin.ask("DELETE", f"{EVENTING}/triggers/paused")
        until(lambda: "paused" not in admin.names(f"{EVENTING}/triggers"), "the end of the trigger")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("search", {"id": LONE}, "id"),
        ("search", {"since": float("nan")}, "since"),
        ("trial", {"cesql": f"type = '{LONE}'", "events": []}, "cesql"),
        ("trial", {"filters": [{"exact": {"type": LONE}}], "events": []}, "filters[0].exact.type"),
        ("trial", {"cesql": "TRUE", "events": [{"id": LONE}]}, "events[0].id"),
        ("deadletters/redrive", {"ids": [LONE]}, "ids[0]"),
        ("jobs", {"kind": "redrive", "rate": float("inf")}, "rate"),
    ],
)
def test_a_request_that_json_cannot_hold_is_refused_with_its_field(
    admin: Admin, path: str, body: dict[str, Any], field: str
) -> None:
    answer = admin.ask("POST", f"/api/penstock/{path}", body)
    assert (answer.status, answer.fields) == (400, [field])


# ── what is stored already ────────────────────────────────────────────────────────────────────────────

SKIPPED = ("no-json", "deep", "other-key", "another")


def test_what_cannot_be_read_is_skipped_and_the_others_are_listed(admin: Admin) -> None:
    brokers = admin.names("/apis/eventing.knative.dev/v1/brokers")
    assert "lone" in brokers
    assert not set(brokers) & set(SKIPPED)
    (lone,) = (each for each in admin.get(f"{EVENTING}/brokers")["items"] if each["metadata"]["name"] == "lone")
    assert lone["metadata"]["annotations"]["note"] == "\ufffd"
    assert admin.get(f"{CORE}/configmaps/nan")["immutable"] == "nan"
    assert admin.ask("GET", f"{EVENTING}/brokers/no-json").status == 404


def test_what_cannot_be_read_is_shown_in_status_and_attention(admin: Admin) -> None:
    shown = {each["key"]: each["why"] for each in admin.get("/api/penstock/status")["problems"]}
    for key in ("Broker/default/deep", "Broker/default/other-key", "Trigger/default/list"):
        assert "skipped" in shown[key]
    assert "immutable" in shown["ConfigMap/default/nan"]
    assert "1 records" in shown[f"Topic/{RESOURCES_TOPIC}"]
    assert "2 records" in shown[f"Topic/{REPORT_TOPIC}"]
    attention = {each["key"] for each in admin.get("/api/penstock/live?once=1")["attention"]}
    assert {"Broker/default/deep", f"Topic/{RESOURCES_TOPIC}"} <= attention


def test_reconciling_goes_on_beside_what_cannot_be_read(admin: Admin) -> None:
    admin.ready(f"{EVENTING}/brokers/lone")
    admin.apply(f"{EVENTING}/brokers", broker("good"))
    admin.ready(f"{EVENTING}/brokers/good")
    admin.ask("DELETE", f"{EVENTING}/brokers/good")
    until(lambda: "good" not in admin.names(f"{EVENTING}/brokers"), "the end of the broker")


def test_what_cannot_be_read_can_be_deleted(admin: Admin) -> None:
    assert admin.ask("DELETE", f"{EVENTING}/brokers/no-json").status == 200
    assert admin.ask("DELETE", f"{EVENTING}/brokers/no-json").status == 404
    assert "Broker/default/no-json" not in {e["key"] for e in admin.get("/api/penstock/status")["problems"]}


def test_dead_letters_that_retention_has_taken_are_not_waited_for(admin: Admin) -> None:
    assert admin.get("/api/penstock/deadletters") == {"items": [], "more": False}


# ── events ────────────────────────────────────────────────────────────────────────────────────────────

DATA = {
    "surrogate": b'{"a": "\\ud800"}',
    "nan": b'{"a": [NaN, Infinity]}',
    "deep": DEEP.encode(),
    "deeper": b"[" * 100_000,
    "digits": b"9" * 10_000,
    "bytes": b'"\xff\xfe"',
}


@pytest.fixture(scope="module")
def topic(admin: Admin) -> Iterator[str]:
    admin.apply(f"{EVENTING}/brokers", broker("events"))
    ready = admin.ready(f"{EVENTING}/brokers/events")
    yield ready["status"]["annotations"]["penstock.dev/topic"]
    admin.ask("DELETE", f"{EVENTING}/brokers/events")


def send(kafka: KafkaConnection, topic: str, id_: str, data: bytes, **headers: bytes) -> int:
    """The offset of the event."""
    attributes = {"specversion": b"1.0", "id": id_.encode(), "source": b"/attack", "type": b"attack"}
    given = [(f"ce_{name}", value) for name, value in attributes.items()]
    given += [("content-type", b"application/json"), *((k.replace("_", "-"), v) for k, v in headers.items())]
    offsets: list[int] = []
    producer = kafka.producer()
    producer.produce(topic, data, headers=given, partition=0, on_delivery=lambda _, m: offsets.append(m.offset()))
    assert producer.flush(60) == 0
    return offsets[0]


@pytest.mark.parametrize("name", DATA)
def test_an_event_is_shown_whatever_its_data(admin: Admin, kafka: KafkaConnection, topic: str, name: str) -> None:
    offset = send(kafka, topic, name, DATA[name])
    shown = admin.get("/api/penstock/event?" + urlencode({"place": topic, "partition": 0, "offset": offset}))
    assert base64.b64decode(shown["data_base64"]) == DATA[name]
    assert shown["id"] == name


@pytest.mark.parametrize("stamp", [b"9" * 30, b"9" * 5000, b"\xff"])
def test_an_event_is_shown_whatever_its_headers(
    admin: Admin, kafka: KafkaConnection, topic: str, stamp: bytes
) -> None:
    offset = send(kafka, topic, "headers", b"{}", penstock_received=stamp, penstock_to=b"\xff\xfe")
    shown = admin.get("/api/penstock/event?" + urlencode({"place": topic, "partition": 0, "offset": offset}))
    assert shown["received"].startswith("20")


@pytest.mark.parametrize("where", [{"partition": 10**30}, {"offset": 10**30}, {"partition": -1}, {"offset": "x"}])
def test_an_impossible_place_is_refused(admin: Admin, topic: str, where: dict[str, Any]) -> None:
    asked = {"place": topic, "partition": 0, "offset": 0, **where}
    assert admin.ask("GET", "/api/penstock/event?" + urlencode(asked)).status == 400


def test_a_tail_shows_every_event_and_goes_on(admin: Admin, kafka: KafkaConnection, topic: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=30)
    connection.request("GET", "/api/penstock/tail?of=Broker/default/events")
    response = connection.getresponse()
    assert b"begun" in response.readline()
    for name, data in DATA.items():
        send(kafka, topic, name, data, penstock_received=b"9" * 5000)
    send(kafka, topic, "last", b'{"good": true}')
    seen: dict[str, Any] = {}
    while "last" not in seen:
        line = response.readline()
        assert line
        if line.startswith(b"data: ") and b'"id"' in line:
            event = json.loads(line[6:], parse_constant=pytest.fail)
            seen[event["id"]] = event["data"]
    connection.close()
    assert list(seen) == [*DATA, "last"]
    assert seen["last"] == {"good": True}
    assert seen["nan"] == '{"a": [NaN, Infinity]}'


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (f"{MESSAGING}/kafkachannels", channel("wide", numPartitions=10_000)),
        (SINKS, sink("wide", topic="wide", numPartitions=257, bootstrapServers=["127.0.0.1:9"])),
    ],
)
def test_a_topic_of_too_many_partitions_is_refused(admin: Admin, path: str, resource: dict[str, Any]) -> None:
    answer = admin.ask("POST", path, resource)
    assert (answer.status, answer.fields) == (422, ["spec.numPartitions"])
    assert "most_partitions" in answer.body["problems"][0]["message"]


@pytest.mark.parametrize("partitions", ["10000", "9" * 5000])
def test_a_config_map_cannot_ask_for_more_partitions_either(admin: Admin, partitions: str) -> None:
    admin.apply(f"{CORE}/configmaps", config_map("wide", default_topic_partitions=partitions))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "wide"}
    admin.apply(f"{EVENTING}/brokers", broker("wide", config=reference))

    def refused() -> Any:
        conditions = (admin.get(f"{EVENTING}/brokers/wide").get("status") or {}).get("conditions") or []
        return [each for each in conditions if each.get("reason") == "ConfigInvalid"]

    assert "at most 256" in until(refused, "the condition")[0]["message"]
    for path in (f"{EVENTING}/brokers/wide", f"{CORE}/configmaps/wide"):
        admin.ask("DELETE", path)
    until(lambda: "wide" not in admin.names(f"{EVENTING}/brokers"), "the end of the broker")
    until(lambda: "wide" not in admin.names(f"{CORE}/configmaps"), "the end of the ConfigMap")


def test_annotations_and_whole_resources_have_a_largest_size(admin: Admin) -> None:
    answer = admin.ask("POST", f"{EVENTING}/brokers", annotated(broker("large"), note="x" * 262_144))
    assert (answer.status, answer.fields) == (422, ["metadata.annotations"])
    large = config_map("large", **{f"key_{number}": "x" * 10_000 for number in range(80)})
    answer = admin.ask("POST", f"{CORE}/configmaps", large)
    assert (answer.status, answer.fields) == (422, [""])


def test_a_namespace_holds_a_limited_number_of_resources(admin: Admin) -> None:
    made: list[str] = []
    try:
        answers: list[Answer] = []
        while not answers or answers[-1].status == 201:
            assert len(made) <= MOST_RESOURCES
            made.append(f"many-{len(made)}")
            answers.append(admin.ask("POST", f"{CORE}/configmaps", config_map(made[-1])))
        assert answers[-1].status == 403
        assert "most_resources_in_namespace" in answers[-1].body["hint"]
        assert admin.ask("POST", f"{CORE}/configmaps", config_map(made[0], a="changed")).status == 200
        other = {**config_map("many"), "metadata": {"name": "many", "namespace": "other"}}
        assert admin.ask("POST", "/api/v1/namespaces/other/configmaps", other).status == 201
    finally:
        admin.ask("DELETE", "/api/v1/namespaces/other/configmaps/many")
        for name in made:
            admin.ask("DELETE", f"{CORE}/configmaps/{name}")
        until(lambda: not set(made) & set(admin.names(f"{CORE}/configmaps")), "the end of the ConfigMaps")


# ── what Kubernetes' users rely on ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("finalizers", ["example.com/wait"]),
        ("ownerReferences", [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}]),
        ("generateName", "orders-"),
    ],
)
def test_fields_without_effect_are_refused(admin: Admin, field: str, value: Any) -> None:
    resource = broker("orders")
    resource["metadata"][field] = value
    if field == "generateName":
        del resource["metadata"]["name"]
    answer = admin.ask("POST", f"{EVENTING}/brokers", resource)
    assert answer.status == 422
    assert f"metadata.{field}" in answer.fields


@pytest.fixture
def changed(admin: Admin) -> Iterator[Callable[..., Answer]]:
    """Replaces a broker of that name with some metadata."""
    path = f"{EVENTING}/brokers"
    admin.apply(path, broker("changed"))

    def put(note: str, **metadata: Any) -> Answer:
        resource = annotated(broker("changed"), note=note)
        resource["metadata"] |= metadata
        return admin.ask("PUT", f"{path}/changed", resource)

    yield put
    admin.ask("DELETE", f"{path}/changed")
    until(lambda: "changed" not in admin.names(path), "the end of the broker")


def test_a_change_of_an_older_version_is_a_conflict(admin: Admin, changed: Callable[..., Answer]) -> None:
    read = admin.ready(f"{EVENTING}/brokers/changed")["metadata"]
    assert changed("mine", resourceVersion=read["resourceVersion"], uid=read["uid"]).status == 200
    late = changed("late", resourceVersion=read["resourceVersion"])
    assert late.status == 409
    assert "read it again" in late.body["hint"]
    assert admin.get(f"{EVENTING}/brokers/changed")["metadata"]["annotations"]["note"] == "mine"


def test_a_change_of_another_object_of_that_name_is_a_conflict(changed: Callable[..., Answer]) -> None:
    assert changed("mine", uid="another").status == 409


def test_without_a_version_the_last_change_counts(admin: Admin, changed: Callable[..., Answer]) -> None:
    assert changed("put").status == 200
    resource = annotated(broker("changed"), note="posted")
    resource["metadata"]["resourceVersion"] = "1"
    assert admin.ask("POST", f"{EVENTING}/brokers", resource).status == 200


def test_a_version_of_a_deleted_object_is_a_conflict(admin: Admin) -> None:
    resource = broker("gone")
    resource["metadata"]["resourceVersion"] = "1"
    assert admin.ask("PUT", f"{EVENTING}/brokers/gone", resource).status == 409
