"""Channels, subscriptions, sources and sinks in a running system, and what they leave behind."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from penstock.kafka.connection import KafkaConnection
from penstock.kafka.topics import TopicSpec, create_missing, delete, describe
from tests.conftest import System
from tests.sink import Answer, Request, Sink
from tests.system.resources import apply, broker, get, remove, trigger
from tests.system.test_delivery import ids, send
from tests.waiting import until

MakeSink = Callable[[], Sink]
SOON_SECONDS = 30.0  # 10 are promised, where nothing else runs


def channel(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "messaging.knative.dev/v1beta1",
        "kind": "KafkaChannel",
        "metadata": {"name": name},
        "spec": {"numPartitions": 2, **spec},
    }


def subscription(name: str, of: str, **spec: Any) -> dict[str, Any]:
    at = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": of}
    return {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "metadata": {"name": name},
        "spec": {"channel": at, **spec},
    }


def source(name: str, topic: str, url: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sources.knative.dev/v1",
        "kind": "KafkaSource",
        "metadata": {"name": name},
        "spec": {"topics": [topic], "sink": {"uri": url}, **spec},
    }


def kafka_sink(name: str, topic: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "eventing.knative.dev/v1alpha1",
        "kind": "KafkaSink",
        "metadata": {"name": name},
        "spec": {"topic": topic, **spec},
    }


def ref(kind: str, name: str) -> dict[str, Any]:
    versions = {"Broker": "eventing.knative.dev/v1", "KafkaChannel": "messaging.knative.dev/v1beta1"}
    return {"ref": {"apiVersion": versions.get(kind, "v1"), "kind": kind, "name": name}}


def ready(system: System, kind: str, name: str) -> dict[str, Any]:
    conditions = get(system, kind, name).get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == "Ready"), {"status": "Unknown"})


def test_an_event_through_channel_reply_and_broker(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: by path and by host name, in order, answered into a broker; and the status names its readers."""
    subscriber = sink()

    def answered(request: Request) -> Answer:
        event = {name: request.headers[name] for name in ("ce-specversion", "ce-source", "content-type")}
        return Answer(200, b"reply", {**event, "ce-id": f"re-{request.headers['ce-id']}", "ce-type": "reply"})

    subscriber.answer("/asks", with_=answered)
    asks = {"uri": subscriber.url + "/asks"}
    resources = [
        subscription("asking", "letters", subscriber=asks, reply=ref("Broker", "answers")),
        trigger("hears", "answers", subscriber.url + "/hears"),
        channel("letters"),
        broker("answers"),
    ]
    apply(penstock_up, *resources)  # what is referred to comes last
    for n in range(20):
        send(penstock_up, "letters", f"l-{n}", subject="one-partition")
    by_host = urllib.request.Request(
        f"{penstock_up.ingress_url}/",
        b"by host",
        {
            "Host": "letters-kn-channel.default.svc.cluster.local",
            "ce-specversion": "1.0", "ce-id": "by-host", "ce-source": "/s", "ce-type": "t",
            "content-type": "text/plain",
        },
    )  # fmt: skip
    assert urllib.request.urlopen(by_host).status == 202
    subscriber.wait_for(21, "/asks")
    subscriber.wait_for(21, "/hears")
    assert [each for each in ids(subscriber.at("/asks")) if each != "by-host"] == [f"l-{n}" for n in range(20)]
    assert set(ids(subscriber.at("/hears"))) == {f"re-{each}" for each in ids(subscriber.at("/asks"))}
    own = get(penstock_up, "subscription", "asking")

    def listed() -> list[tuple[str, str]]:
        status = get(penstock_up, "kafkachannel", "letters")["status"]
        return [(each["uid"], each["ready"]) for each in status["subscribers"]]

    until(lambda: listed() == [(own["metadata"]["uid"], "True")], "the channel lists its subscriber")
    assert own["status"]["physicalSubscription"]["replyUri"].endswith("/default/answers")
    remove(penstock_up, *resources)


def test_records_become_events_and_events_become_records(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: a sink writes to a topic that is there, a source reads it, with records that are no events."""
    subscriber, topic = sink(), "plain-records"
    admin = KafkaConnection(penstock_up.bootstrap_servers).admin()
    create_missing(admin, [TopicSpec(topic, 2)])
    producer = KafkaConnection(penstock_up.bootstrap_servers).producer()
    producer.produce(topic, b'{"before": true}', b"k-0")
    producer.flush(10)
    resources = [
        kafka_sink("to-topic", topic, contentMode="binary"),
        source(
            "all", topic, subscriber.url + "/all", initialOffset="earliest",
            ceOverrides={"extensions": {"team": "red"}},
        ),
        source("new", topic, subscriber.url + "/new"),
    ]  # fmt: skip
    apply(penstock_up, *resources)
    send(penstock_up, "to-topic", "event")
    producer.produce(topic, b"rubbish", None)
    producer.flush(10)
    subscriber.wait_for(3, "/all")
    subscriber.wait_for(2, "/new")
    made = [each for each in subscriber.at("/all") if each.headers["ce-type"] == "dev.knative.kafka.event"]
    assert {each.body for each in made} == {b'{"before": true}', b"rubbish"}
    assert {each.headers["ce-source"] for each in made} == {f"/apis/v1/namespaces/default/kafkasources/all#{topic}"}
    assert {each.headers["ce-team"] for each in subscriber.at("/all")} == {"red"}
    assert {each.body for each in subscriber.at("/new")} == {b"rubbish", b"data of event"}
    remove(penstock_up, *resources)
    assert topic in describe(admin, [topic]), "a topic that was there before stays"
    delete(admin, [topic])


def test_what_was_made_for_a_resource_goes_with_it(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: topic, consumer group and address go; a sink's topic only if the sink has made it."""
    subscriber = sink()
    resources = [
        channel("short-lived"),
        subscription("reads", "short-lived", subscriber={"uri": subscriber.url}),
        kafka_sink("makes", "made-by-sink", numPartitions=1),
    ]
    apply(penstock_up, *resources)
    send(penstock_up, "short-lived", "one")
    subscriber.wait_for(1)
    uid = get(penstock_up, "subscription", "reads")["metadata"]["uid"]
    topics = ["knative-messaging-kafka.default.short-lived", "made-by-sink"]
    admin = KafkaConnection(penstock_up.bootstrap_servers).admin()
    assert set(describe(admin, topics)) == set(topics)
    remove(penstock_up, *resources)
    until(lambda: not describe(KafkaConnection(penstock_up.bootstrap_servers).admin(), topics), "the topics are gone")
    groups = [each.group_id for each in admin.list_consumer_groups().result().valid]
    assert f"kafka.default.short-lived.{uid}" not in groups

    def refused() -> int:
        try:
            send(penstock_up, "short-lived", "late")
        except urllib.error.HTTPError as error:
            return error.code
        return 0

    until(lambda: refused() == 404, "the address is gone")


def test_statuses_follow_the_truth(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: within 10 s a missing topic or reference is told with its reason, and its return as well."""
    subscriber, topic = sink(), "comes-and-goes"
    resources = [source("waits", topic, "http://unused/"), channel("looked-at")]
    resources[0]["spec"]["sink"] = ref("Service", "display")
    told = penstock_up.run("apply", "-f", "-", stdin="\n---\n".join(json.dumps(each) for each in resources))
    assert told.returncode == 0, told.stderr
    until(
        lambda: ready(penstock_up, "kafkasource", "waits").get("reason") == "NotFound",
        "the sink is missing",
        SOON_SECONDS,
    )
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "display"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1", "ports": [{"port": subscriber.port}]},
    }  # fmt: skip
    penstock_up.run("apply", "-f", "-", stdin=json.dumps(service))
    until(
        lambda: ready(penstock_up, "kafkasource", "waits")["status"] != "True", "its topic is missing", SOON_SECONDS
    )
    admin = KafkaConnection(penstock_up.bootstrap_servers).admin()
    create_missing(admin, [TopicSpec(topic, 1)])
    until(lambda: ready(penstock_up, "kafkasource", "waits")["status"] == "True", "it is ready", SOON_SECONDS)
    producer = KafkaConnection(penstock_up.bootstrap_servers).producer()
    producer.produce(topic, b"first")
    producer.flush(10)
    subscriber.wait_for(1)
    until(
        lambda: ready(penstock_up, "kafkachannel", "looked-at")["status"] == "True",
        "the channel is ready",
        SOON_SECONDS,
    )
    delete(admin, [topic])
    until(lambda: ready(penstock_up, "kafkasource", "waits")["status"] == "False", "the topic is gone", SOON_SECONDS)
    create_missing(KafkaConnection(penstock_up.bootstrap_servers).admin(), [TopicSpec(topic, 1)])
    until(lambda: ready(penstock_up, "kafkasource", "waits")["status"] == "True", "it is ready again", SOON_SECONDS)
    producer.produce(topic, b"second")
    producer.flush(10)
    subscriber.wait_for(2, timeout_seconds=30)
    remove(penstock_up, *resources, service)
    delete(admin, [topic])


def test_a_loop_without_an_end_is_refused(penstock_up: System) -> None:
    """Kept promise: a subscription that would send a channel its own events says so, and is not begun."""
    resources = [channel("round"), subscription("again", "round", subscriber=ref("KafkaChannel", "round"))]
    penstock_up.run("apply", "-f", "-", stdin="\n---\n".join(json.dumps(each) for each in resources))
    until(
        lambda: ready(penstock_up, "subscription", "again").get("reason") == "EndlessLoop", "it is told", SOON_SECONDS
    )
    assert "subscription default/again" in ready(penstock_up, "subscription", "again")["message"]
    remove(penstock_up, *resources)
