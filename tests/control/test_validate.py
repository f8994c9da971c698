"""Resources are refused with every problem at once, each by the path of its field."""

from typing import Any

import pytest

from penstock.control.validate import collisions, problems
from tests.control.objects import annotated, broker, config_map, stored, trigger


def fields(resource: object, old: object = None) -> list[str]:
    return [p.field for p in problems(resource, old)]  # type: ignore[arg-type]


def test_knative_yaml_is_accepted_unchanged() -> None:
    full = annotated(
        broker(
            config={"apiVersion": "v1", "kind": "ConfigMap", "name": "kafka-broker-config", "namespace": "knative"},
            delivery={
                "retry": 12,
                "backoffPolicy": "exponential",
                "backoffDelay": "PT0.2S",
                "timeout": "PT30S",
                "retryAfterMax": "P1D",
                "deadLetterSink": {"ref": {"apiVersion": "v1", "kind": "Service", "name": "dead"}},
            },
        ),
        **{"eventing.knative.dev/broker.class": "Kafka"},
    )
    assert problems(full) == []
    assert problems(trigger(filters=[{"any": [{"exact": {"type": "a"}}, {"prefix": {"source": "/b"}}]}])) == []
    assert (
        problems(trigger(subscriber={"ref": {"apiVersion": "v1", "kind": "Broker", "name": "x"}, "uri": "/y"})) == []
    )
    assert problems(config_map(bootstrap_servers="kafka:9092")) == []


def test_all_problems_come_at_once() -> None:
    wrong = trigger(
        broker=None,
        subscriber={"uri": "ftp://x/"},
        delivery={"retry": -1, "backoffPolicy": "quadratic", "backoffDelay": "1s", "timeout": "PT0S"},
        filters=[{"exact": {"Type": "x"}}],
    )
    assert fields(wrong) == [
        "spec.broker",
        "spec.filters[0].exact.Type",
        "spec.subscriber.uri",
        "spec.delivery.retry",
        "spec.delivery.backoffPolicy",
        "spec.delivery.timeout",
        "spec.delivery.backoffDelay",
    ]


def test_a_misspelt_field_is_refused_with_the_near_name() -> None:
    [problem] = problems(trigger(subscribr={"uri": "http://x/"}))
    assert problem.field == "spec.subscribr"
    assert "did you mean subscriber?" in problem.message
    [nested] = problems(broker(delivery={"retries": 3}))
    assert nested.field == "spec.delivery.retries"
    assert "did you mean retry?" in nested.message


@pytest.mark.parametrize("kind", ["Borker", "EventQuery", None, 7])
def test_an_unknown_kind_is_named(kind: object) -> None:
    [problem] = problems({**broker(), "kind": kind})
    assert problem.field == "kind"


def test_a_near_kind_is_suggested() -> None:
    [problem] = problems({**broker(), "kind": "Borker"})
    assert "did you mean Broker?" in problem.message


@pytest.mark.parametrize("name", ["Orders", "-orders", "or_ders", "", "o" * 254, 7, None])
def test_names_are_dns_names(name: object) -> None:
    resource = broker()
    resource["metadata"]["name"] = name
    assert "metadata.name" in fields(resource)


@pytest.mark.parametrize(
    "subscriber",
    [{}, "http://x/", {"uri": "/relative"}, {"uri": "http://"}, {"uri": "http://x:99999/"}, {"uri": "http://a b/"},
     {"ref": {"kind": "Broker"}}, {"ref": {"apiVersion": "v1", "kind": "Broker", "name": "x"}, "uri": "http://abs/"}],
)  # fmt: skip
def test_a_subscriber_needs_somewhere_to_go(subscriber: object) -> None:
    found = fields(trigger(subscriber=subscriber))
    assert found
    assert all(field.startswith("spec.subscriber") for field in found)


def test_only_our_broker_class_is_accepted() -> None:
    [problem] = problems(annotated(broker(), **{"eventing.knative.dev/broker.class": "MTChannelBasedBroker"}))
    assert "Kafka" in problem.message


def test_what_is_immutable_stays() -> None:
    assert fields(trigger(broker="bills"), stored(trigger())) == ["spec.broker"]
    config = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}
    assert fields(broker(config=config), stored(broker())) == ["spec.config"]
    external = annotated(broker(), **{"kafka.eventing.knative.dev/external.topic": "mine"})
    assert len(problems(external, stored(broker()))) == 1
    assert problems(broker(delivery={"retry": 2}), stored(broker())) == []


def test_two_brokers_never_share_a_topic() -> None:
    there = stored(broker("c", "a-b"))
    assert [p.field for p in collisions(broker("b-c", "a"), [there])] == ["metadata.name"]
    assert collisions(broker("c", "a-b"), [there]) == []  # the same one, applied again


@pytest.mark.parametrize("rubbish", [None, 7, [], "text", {}, {"kind": {}}, {"kind": "Broker"}])
def test_rubbish_is_a_problem_and_not_an_error(rubbish: object) -> None:
    assert problems(rubbish)


def test_wrong_types_inside_are_problems_and_not_errors() -> None:
    wrongs: list[Any] = [7, "x", [], True]
    for wrong in wrongs:
        for field in ("filter", "filters", "subscriber", "delivery", "broker"):
            problems(trigger(**{field: wrong}))
        problems(broker(config=wrong, delivery=wrong))
        problems({**broker(), "metadata": wrong})
        problems({**broker(), "spec": wrong})
        problems({**config_map(), "data": wrong})


@pytest.mark.parametrize("uri", ["http://h/ä", "http://h/a b", "http://h/\x7f", "http://ex\u00e4mple.org/"])
def test_an_address_is_ascii(uri: str) -> None:
    assert fields(trigger(subscriber={"uri": uri})) == ["spec.subscriber.uri"]


@pytest.mark.parametrize("timeout", ["PT0S", "PT0.0001S", "P9999999999999D"])
def test_a_timeout_is_one_that_can_be_kept(timeout: str) -> None:
    assert fields(trigger(delivery={"timeout": timeout})) == ["spec.delivery.timeout"]


@pytest.mark.parametrize("topic", ["penstock-ledger", "__consumer_offsets"])
def test_internal_topics_are_nobodys_broker(topic: str) -> None:
    name = "kafka.eventing.knative.dev/external.topic"
    assert fields(annotated(broker(), **{name: topic})) == [f"metadata.annotations[{name}]"]


@pytest.mark.parametrize("value", ["PEM", float("nan")])
def test_what_would_have_no_effect_is_refused(value: object) -> None:
    assert fields(trigger(subscriber={"uri": "https://h/", "CACerts": value})) == ["spec.subscriber.CACerts"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("penstock.dev/start", "yesterday"),
        ("penstock.dev/start", "2026-11-15T12:00:00"),  # in which time zone?
        ("penstock.dev/delivery.gear", "cold"),
        ("penstock.dev/delivery.signing-secret", "../other/secret"),
    ],
)
def test_an_annotation_that_cannot_be_obeyed_is_refused(name: str, value: str) -> None:
    """Kept promise: a wish that has no effect is a mistake somebody should hear of."""
    assert fields(annotated(trigger(), **{name: value})) == [f"metadata.annotations[{name}]"]


@pytest.mark.parametrize("start", ["earliest", "latest", "2026-11-15T12:00:00Z"])
def test_where_a_trigger_may_start(start: str) -> None:
    """Kept promise: at the beginning, at the end, or at a time."""
    assert fields(annotated(trigger(), **{"penstock.dev/start": start})) == []
