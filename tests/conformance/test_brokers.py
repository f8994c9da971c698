"""Brokers: an address that takes events, a configuration, a dead letter sink, and an end."""

import pytest

from tests.conformance.api import condition
from tests.conformance.sending import ask, binary, ids, send
from tests.conformance.stage import BROKER_CLASS, Stage
from tests.waiting import until


@pytest.fixture(scope="module")
def url(stage: Stage) -> str:
    return stage.broker("plain")


def test_ready_broker_has_an_address(url: str) -> None:
    """A broker is addressable: ``status.address.url`` is where events are sent to."""
    assert url.startswith(("http://", "https://"))


def test_address_takes_events(url: str) -> None:
    """Ready means that the address accepts events, from the first one on."""
    assert ask("POST", url, b"", binary("first")).status == 202


def test_broker_without_a_configuration(stage: Stage) -> None:
    """``spec.config`` may be left out: the system has defaults."""
    _, broker = stage.broker_parts("defaults")
    del broker["spec"]["config"]
    stage.create(broker)
    assert ask("POST", stage.address("Broker", "defaults"), b"", binary("x")).status == 202


def test_class_is_defaulted(stage: Stage) -> None:
    """A broker that names no class is given one when it is created."""
    _, broker = stage.broker_parts("classless")
    del broker["metadata"]["annotations"]
    stage.create(broker)
    assert stage.get("Broker", "classless")["metadata"].get("annotations", {}).get(BROKER_CLASS)


def test_dead_letter_sink_is_resolved(stage: Stage) -> None:
    """A broker with a dead letter sink reports its address once it is ready."""
    sink = stage.to("/dead")
    stage.broker("with-sink", delivery={"deadLetterSink": sink})
    assert stage.get("Broker", "with-sink")["status"]["deadLetterSinkUri"] == sink["uri"]


def test_dead_letter_sink_by_reference_is_resolved(stage: Stage, url: str) -> None:
    """A dead letter sink may be a resource: what is reported is its address."""
    reference = {"ref": stage.reference("Broker", "plain")}
    stage.broker("with-ref", delivery={"deadLetterSink": reference})
    assert stage.get("Broker", "with-ref")["status"]["deadLetterSinkUri"] == url


def test_not_ready_without_its_dead_letter_sink(stage: Stage) -> None:
    """A broker whose dead letter sink cannot be resolved is not ready, and says why."""
    _, broker = stage.broker_parts("lost-sink")
    del broker["spec"]["config"]
    broker["spec"]["delivery"] = {"deadLetterSink": {"ref": stage.reference("Broker", "nobody")}}
    stage.create(broker)

    def settled() -> bool:
        ready = condition(stage.get("Broker", "lost-sink"), "Ready")
        return ready.get("status") == "True" or "nobody" in ready.get("message", "")

    until(settled, "a status that stays", 30)
    assert condition(stage.get("Broker", "lost-sink"), "Ready")["status"] == "False"


def test_configuration_that_is_missing(stage: Stage) -> None:
    """Without the ConfigMap that it names a broker is not ready; once that is there, it is, by itself."""
    config, broker = stage.broker_parts("late-config")
    stage.create(broker)
    stage.until_not_ready("Broker", "late-config", about="late-config-config")
    stage.create(config)
    stage.until_ready("Broker", "late-config")


def test_brokers_do_not_mix(stage: Stage, url: str) -> None:
    """A trigger belongs to the broker that it names, and sees no other's events."""
    other = stage.broker("other")
    stage.trigger("of-plain", "plain")
    stage.trigger("of-other", "other")
    stage.until_ready("Trigger", "of-plain")
    stage.until_ready("Trigger", "of-other")
    send(url, "to-plain")
    send(other, "to-other")
    stage.subscriber.wait_for(1, "/of-plain")
    stage.subscriber.wait_for(1, "/of-other")
    assert ids(stage.subscriber.at("/of-plain")) == ["to-plain"]
    assert ids(stage.subscriber.at("/of-other")) == ["to-other"]


def test_deleted_broker_takes_nothing(stage: Stage) -> None:
    """When a broker is deleted, its address is nobody's any more."""
    address = stage.broker("passing")
    stage.delete("Broker", "passing")
    until(lambda: ask("POST", address, b"", binary("late")).status == 404, "the end of the address")
