"""Channels and subscriptions: all get everything, in order; replies and dead letters go where they are told."""

import itertools
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conformance.api import condition
from tests.conformance.sending import ask, attributes_of, binary, ids, send
from tests.conformance.stage import Stage
from tests.conformance.statuses import check_conditions
from tests.sink import Answer
from tests.waiting import until

NEEDS = ("KafkaChannel", "Subscription")
QUICK: dict[str, Any] = {"retry": 2, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}


def make_channel(stage: Stage, name: str, **spec: Any) -> None:
    stage.make("KafkaChannel", name, {"numPartitions": 1, "replicationFactor": 1, **spec})


def subscribe(stage: Stage, name: str, channel: str, **spec: Any) -> None:
    """Its events come to the path of its name, unless the spec has another subscriber."""
    reference = stage.reference("KafkaChannel", channel)
    stage.make("Subscription", name, {"channel": reference, "subscriber": stage.to(f"/{name}"), **spec})


@pytest.fixture(scope="module")
def url(stage: Stage) -> str:
    """A channel with two subscriptions of the same subscriber, and one of another."""
    make_channel(stage, "shared")
    address = stage.address("KafkaChannel", "shared")
    subscribe(stage, "first", "shared")
    subscribe(stage, "twin-1", "shared", subscriber=stage.to("/twins"))
    subscribe(stage, "twin-2", "shared", subscriber=stage.to("/twins"))
    for name in ("first", "twin-1", "twin-2"):
        stage.until_ready("Subscription", name)
    return address


def test_channel_takes_events_at_its_address(url: str) -> None:
    """A channel is addressable, and its address accepts events."""
    assert ask("POST", url, b"x", binary("by-address")).status == 202


def test_channel_takes_events_by_host_name(stage: Stage, url: str) -> None:
    """A channel has a host name of its own, for senders that know Knative's channels by it."""
    parts = urlsplit(url)
    host = f"{stage.name('shared')}-kn-channel.{stage.api.namespace}.svc.cluster.local"
    answer = ask("POST", f"{parts.scheme}://{parts.netloc}/", b"x", binary("by-host") | {"Host": host})
    assert answer.status == 202
    stage.came("/first", "by-host")


def test_invalid_event_is_refused(url: str) -> None:
    """What is not a valid event is answered with 400."""
    assert ask("POST", url, b"x", {"content-type": "text/plain"}).status == 400


def test_every_subscription_gets_every_event(stage: Stage, url: str) -> None:
    """Every ready subscription gets every event, also several with the same subscriber, as it was sent."""
    send(url, "to-all", data=b"\x00data", subject="s", ext="x")
    request = stage.came("/first", "to-all")
    found = attributes_of(request)
    assert (request.body, found["subject"], found["ext"]) == (b"\x00data", "s", "x")
    until(lambda: ids(stage.subscriber.at("/twins")).count("to-all") == 2, "one delivery for each subscription", 30)


def test_channels_are_ordered(stage: Stage, url: str) -> None:
    """Unless told otherwise, a channel delivers in order, also when something is tried again."""
    subscribe(stage, "in-order", "shared", delivery=QUICK)
    stage.until_ready("Subscription", "in-order")
    stumbles = iter([503, 503])
    stage.subscriber.answer(
        "/in-order",
        with_=lambda request: Answer(next(stumbles, 200) if request.headers["ce-id"] == "order-2" else 200),
    )
    for n in range(6):
        send(url, f"order-{n}", partitionkey="one")
    stage.came("/in-order", "order-5")
    came = [id_ for id_ in ids(stage.subscriber.at("/in-order")) if id_.startswith("order-")]
    assert came == [f"order-{n}" for n in (0, 1, 2, 2, 2, 3, 4, 5)]


def test_ready_means_that_all_further_events_come(stage: Stage, url: str) -> None:
    """A subscription is ready only once every event from then on will come."""
    subscribe(stage, "newcomer", "shared")
    stage.until_ready("Subscription", "newcomer")
    for n in range(3):
        send(url, f"new-{n}")
    stage.came("/newcomer", "new-2")
    assert {"new-0", "new-1"} <= set(ids(stage.subscriber.at("/newcomer")))


def test_channels_do_not_mix(stage: Stage, url: str) -> None:
    """A subscription sees the events of its own channel only."""
    make_channel(stage, "apart")
    subscribe(stage, "of-apart", "apart")
    stage.until_ready("Subscription", "of-apart")
    send(url, "elsewhere")
    send(stage.address("KafkaChannel", "apart"), "here")
    stage.came("/of-apart", "here")
    assert ids(stage.subscriber.at("/of-apart")) == ["here"]


def test_channel_with_the_name_of_a_broker(stage: Stage) -> None:
    """A channel and a broker of the same name are two: each has its own address, or the second is refused."""
    address = stage.broker("namesake")
    resource = stage.resource("KafkaChannel", "namesake", {"numPartitions": 1, "replicationFactor": 1})
    if stage.api.create(resource).status < 400:
        channel = stage.address("KafkaChannel", "namesake")
        stage.delete("KafkaChannel", "namesake")
        assert channel != address


# ── replies ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def asking(stage: Stage) -> str:
    """A channel whose subscribers all answer with an event: to a channel, a broker, an address, or nobody."""
    make_channel(stage, "asking")
    make_channel(stage, "answers")
    stage.broker("answers-broker")
    subscribe(stage, "from-channel", "answers")
    stage.trigger("from-broker", "answers-broker")
    replies = {
        "to-channel": {"ref": stage.reference("KafkaChannel", "answers")},
        "to-broker": {"ref": stage.reference("Broker", "answers-broker")},
        "to-address": stage.to("/from-address"),
        "to-nobody": None,
    }
    stage.until_ready("KafkaChannel", "answers")
    for name, destination in replies.items():
        stage.subscriber.answer(f"/{name}", body=b"answer", headers=binary(name, "reply"))
        subscribe(stage, name, "asking", delivery=QUICK, **({"reply": destination} if destination else {}))
    for name in ("from-channel", *replies):
        stage.until_ready("Subscription", name)
    stage.until_ready("Trigger", "from-broker")
    address = stage.address("KafkaChannel", "asking")
    send(address, "question")
    return address


@pytest.mark.usefixtures("asking")
@pytest.mark.parametrize("where", ["channel", "broker", "address"])
def test_reply(stage: Stage, where: str) -> None:
    """A reply is delivered to the subscription's ``reply``: another channel, a broker, or an address."""
    reply = stage.came(f"/from-{where}", f"to-{where}")
    assert (attributes_of(reply)["type"], reply.body) == ("reply", b"answer")


@pytest.mark.usefixtures("asking")
def test_without_reply_replies_are_dropped(stage: Stage) -> None:
    """Without ``reply`` the answer of a subscriber goes nowhere, and the event counts as delivered."""
    stage.came("/to-nobody", "question")
    for where in ("channel", "broker", "address"):
        stage.came(f"/from-{where}", f"to-{where}")
        assert "to-nobody" not in ids(stage.subscriber.at(f"/from-{where}"))
    assert ids(stage.subscriber.at("/to-nobody")) == ["question"]


def test_reply_that_cannot_be_delivered(stage: Stage, asking: str) -> None:
    """When the reply is not taken for now, the whole delivery is tried again."""
    statuses = itertools.chain([503], itertools.repeat(200))
    stage.subscriber.answer("/replied", with_=lambda _: Answer(next(statuses)))
    stage.subscriber.answer("/replies", body=b"answer", headers=binary("second try", "reply"))
    subscribe(stage, "replies", "asking", reply=stage.to("/replied"), delivery=QUICK)
    stage.until_ready("Subscription", "replies")
    send(asking, "again")
    stage.subscriber.wait_for(2, "/replied")
    assert ids(stage.subscriber.wait_for(2, "/replies"))[:2] == ["again", "again"]


# ── dead letters ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def strict(stage: Stage) -> str:
    """A channel with a dead letter sink; one subscription has one of its own. Nobody takes anything."""
    make_channel(stage, "strict", delivery={"deadLetterSink": stage.to("/of-channel")})
    subscribe(stage, "inherits", "strict")
    subscribe(stage, "own", "strict", delivery={"deadLetterSink": stage.to("/of-subscription"), "retry": 0})
    for name in ("inherits", "own"):
        stage.subscriber.answer(f"/{name}", status=400, body=b"no")
        stage.until_ready("Subscription", name)
    address = stage.address("KafkaChannel", "strict")
    send(address, "refused", data=b"data")
    return address


@pytest.mark.usefixtures("strict")
def test_dead_letter(stage: Stage) -> None:
    """What a subscriber does not take goes to the dead letter sink of its subscription, and says what happened."""
    letter = stage.came("/of-subscription", "refused")
    found = attributes_of(letter)
    assert (letter.body, found["knativeerrorcode"]) == (b"data", "400")
    assert found["knativeerrordest"] == stage.to("/own")["uri"]


@pytest.mark.usefixtures("strict")
def test_dead_letter_sink_of_the_channel(stage: Stage) -> None:
    """A subscription without delivery settings has those of its channel."""
    assert attributes_of(stage.came("/of-channel", "refused"))["knativeerrordest"] == stage.to("/inherits")["uri"]
    stage.came("/of-subscription", "refused")
    assert len(stage.subscriber.at("/of-channel")) == 1


@pytest.mark.usefixtures("strict")
def test_dead_letter_sink_is_resolved(stage: Stage) -> None:
    """Channel and subscription report the address of their dead letter sink."""
    assert stage.get("KafkaChannel", "strict")["status"]["deadLetterSinkUri"] == stage.to("/of-channel")["uri"]
    physical = stage.get("Subscription", "own")["status"]["physicalSubscription"]
    assert physical["deadLetterSinkUri"] == stage.to("/of-subscription")["uri"]


# ── statuses ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("url")
@pytest.mark.parametrize(("kind", "name"), [("KafkaChannel", "shared"), ("Subscription", "first")])
def test_conditions_are_well_formed(stage: Stage, kind: str, name: str) -> None:
    """Conditions are unique by type, have a status and a time, a reason when False, and roll up into Ready."""
    check_conditions(stage.get(kind, name))


@pytest.mark.usefixtures("url")
def test_conditions_are_those_that_users_know(stage: Stage) -> None:
    """Every aspect that may fail by itself has a condition of its own."""
    of_channel = {each["type"] for each in stage.get("KafkaChannel", "shared")["status"]["conditions"]}
    assert {"Ready", "TopicReady", "ConfigParsed", "ProbeSucceeded"} <= of_channel
    of_subscription = {each["type"] for each in stage.get("Subscription", "first")["status"]["conditions"]}
    assert {"Ready", "ReferencesResolved", "AddedToChannel", "ChannelReady"} <= of_subscription


@pytest.mark.usefixtures("url")
def test_channel_lists_its_subscribers(stage: Stage) -> None:
    """``status.subscribers`` tells of each subscription whether the channel serves it."""
    wanted = {stage.get("Subscription", name)["metadata"]["uid"]: "True" for name in ("first", "twin-1", "twin-2")}

    def listed() -> dict[str, str]:
        subscribers = stage.get("KafkaChannel", "shared")["status"].get("subscribers", [])
        return {each["uid"]: each["ready"] for each in subscribers}

    until(lambda: wanted.items() <= listed().items(), "all of them, ready", 30)


@pytest.mark.usefixtures("url")
def test_physical_subscription(stage: Stage) -> None:
    """A ready subscription tells the address of its subscriber."""
    physical = stage.get("Subscription", "first")["status"]["physicalSubscription"]
    assert physical["subscriberUri"] == stage.to("/first")["uri"]


@pytest.mark.usefixtures("asking")
def test_physical_reply(stage: Stage) -> None:
    """A ready subscription tells the address to which replies go."""
    physical = stage.get("Subscription", "to-broker")["status"]["physicalSubscription"]
    assert physical["replyUri"] == stage.address("Broker", "answers-broker")


def test_subscription_without_its_channel(stage: Stage) -> None:
    """A subscription may come before its channel: it is not ready, and is once the channel is."""
    subscribe(stage, "early", "late")
    subscription = until(
        lambda: found if condition(found := stage.get("Subscription", "early"), "Ready").get("reason") else None,
        "a reason",
        30,
    )
    assert condition(subscription, "Ready")["status"] != "True"
    make_channel(stage, "late")
    stage.until_ready("Subscription", "early")


@pytest.mark.usefixtures("url")
@pytest.mark.parametrize("field", ["subscriber", "reply"])
def test_destination_that_cannot_be_resolved(stage: Stage, field: str) -> None:
    """A subscription whose subscriber or reply does not exist is not ready, and has no address of it."""
    name = f"lost-{field}"
    subscribe(stage, name, "shared", **{field: {"ref": stage.reference("Broker", "nobody")}})
    subscription = stage.until_not_ready("Subscription", name, about="nobody")
    assert condition(subscription, "ReferencesResolved")["status"] == "False"
    assert not subscription["status"].get("physicalSubscription", {}).get(f"{field}Uri")
    check_conditions(subscription)


INVALID: dict[str, tuple[str, dict[str, Any]]] = {
    "no-partitions": ("KafkaChannel", {"numPartitions": 0, "replicationFactor": 1}),
    "negative-replication": ("KafkaChannel", {"numPartitions": 1, "replicationFactor": -1}),
    "wrong-retention": ("KafkaChannel", {"numPartitions": 1, "replicationFactor": 1, "retentionDuration": "a week"}),
    "no-channel": ("Subscription", {"subscriber": {"uri": "http://127.0.0.1/"}}),
    "nobody-to-send-to": (
        "Subscription",
        {"channel": {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "name": "x"}},
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_spec_is_refused(stage: Stage, name: str) -> None:
    """What makes no sense is refused when it is applied, with the reason."""
    kind, spec = INVALID[name]
    answer = stage.api.create(stage.resource(kind, f"invalid-{name}", spec))
    assert 400 <= answer.status < 500
    assert answer.body


def test_channel_without_settings(stage: Stage) -> None:
    """All fields of a channel have defaults."""
    stage.make("KafkaChannel", "defaults", {})
    assert ask("POST", stage.address("KafkaChannel", "defaults"), b"x", binary("x")).status == 202
