"""Settings of Kafka's clients per resource: taken where they may be chosen, refused with the reason where not."""

import pytest

from penstock.control import config_maps
from penstock.control.validate import problems
from penstock.errors import Misconfigured
from penstock.kafka import tuning
from tests.control.objects import annotated, broker, stored, trigger


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("acks", "all in-sync replicas"),
        ("enable.idempotence", "twice"),
        ("linger.mss", "what can be set"),
        ("ssl.keystore.location", "what can be set"),
    ],
)
def test_what_a_producer_may_not_be_told_is_refused_when_it_is_applied(name: str, why: str) -> None:
    """Kept promise: acks=0 and its like are refused with the reason, and the field is named."""
    [problem] = problems(annotated(broker(), **{f"penstock.dev/producer.{name}": "0"}))
    assert problem.field == f"metadata.annotations[penstock.dev/producer.{name}]"
    assert why in problem.message


def test_what_may_be_chosen_is_taken_and_the_resource_counts_more_than_its_config_map() -> None:
    resource = stored(annotated(broker(), **{"penstock.dev/producer.linger.ms": "5"}))
    data = {"default.producer.config.linger.ms": "1", "default.producer.config.compression.type": "zstd"}
    assert problems(annotated(broker(), **{"penstock.dev/producer.linger.ms": "5"})) == []
    assert config_maps.producer_of(resource, data) == {"linger.ms": "5", "compression.type": "zstd"}
    with pytest.raises(Misconfigured, match="acks"):
        config_maps.producer_of(resource, {"default.producer.config.acks": "0"})


def test_a_consumer_is_told_by_trigger_or_config_map() -> None:
    asked = annotated(trigger(), **{"penstock.dev/consumer.fetch.min.bytes": "100"})
    assert problems(asked) == []
    assert config_maps.consumer_of(stored(asked), {"default.consumer.config.fetch.max.wait.ms": "9"}) == {
        "fetch.min.bytes": "100",
        "fetch.max.wait.ms": "9",
    }
    [problem] = problems(annotated(trigger(), **{"penstock.dev/consumer.auto.offset.reset": "latest"}))
    assert "penstock.dev/start" in problem.message


def test_a_topic_that_forgets_events_is_refused() -> None:
    with pytest.raises(Misconfigured, match=r"cleanup\.policy"):
        config_maps.topic_settings({"default.topic.config.cleanup.policy": "compact"}, 1000)
    kept = config_maps.topic_settings({"default.topic.config.retention.ms": "60000"}, 1000)
    assert kept["retention.ms"] == "60000"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fetch.max.bytes", "99999999999999999999999"), ("max.poll.records", "\u00b2"),
        ("max.poll.records", "\u0665"),
        ("max.poll.records", "0"), ("request.timeout.ms", "0"), ("request.timeout.ms", " 30000"),
        ("fetch.max.wait.ms", "30000"), ("fetch.min.bytes", "2147483647"), ("connections.max.idle.ms", "1"),
        ("retry.backoff.ms", "-1"), ("receive.buffer.bytes", "1e6"), ("metadata.max.age.ms", ""),
        ("client.rack", "a b"), ("client.rack", "\n"), ("client.rack", "x" * 300), ("check.crcs", "yes"),
        ("max.poll.records", "9" * 5000),
    ],
)  # fmt: skip
def test_a_setting_that_would_stop_a_query_is_refused_and_left_out(name: str, value: str) -> None:
    """Kept promise: no annotation of one trigger stops the query of all: it is refused, and left out of the query."""
    [problem] = problems(annotated(trigger(), **{f"penstock.dev/consumer.{name}": value}))
    assert problem.field == f"metadata.annotations[penstock.dev/consumer.{name}]"
    assert len(problem.message) < 250
    with pytest.raises(Misconfigured, match=name):
        tuning.consumer_settings({name: value})
    mixed = {name: value, "isolation.level": "read_committed"}
    assert tuning.usable_consumer_settings(mixed, "trigger a/b") == {"isolation.level": "read_committed"}


def test_a_setting_that_is_left_out_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The log names the resource, the setting and the range."""
    assert tuning.usable_consumer_settings({"request.timeout.ms": "0", "acks": "0"}, "Trigger shop/orders") == {}
    assert "Trigger shop/orders" in caplog.text
    assert "request.timeout.ms of the consumer is '0'; it must be a whole number from 10,000" in caplog.text
    assert "acks of the consumer cannot be set" in caplog.text


def test_every_setting_has_a_range_or_words() -> None:
    """Of all settings that may be chosen, only the rack is free text."""
    assert (tuning.PRODUCER.keys() | tuning.CONSUMER) - tuning.NUMBERS.keys() - tuning.WORDS.keys() == {"client.rack"}
