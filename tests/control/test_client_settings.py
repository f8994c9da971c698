"""Settings of Kafka's clients per resource: taken where they may be chosen, refused with the reason where not."""

import pytest

from penstock.control import config_maps
from penstock.control.validate import problems
from penstock.errors import Misconfigured
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
