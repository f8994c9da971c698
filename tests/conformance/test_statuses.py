"""What statuses say: conditions that add up, speak of what was applied last, and have a reason when False."""

import pytest

from tests.conformance.api import Resource, condition
from tests.conformance.stage import Stage
from tests.conformance.statuses import check_conditions


@pytest.fixture(scope="module")
def ready(stage: Stage) -> None:
    """A broker and a trigger that have all they need."""
    stage.broker("ready")
    stage.trigger("ready", "ready")
    stage.until_ready("Trigger", "ready")


@pytest.fixture(scope="module")
def not_ready(stage: Stage) -> None:
    """A broker and a trigger that lack something."""
    _, broker = stage.broker_parts("lacking")
    stage.create(broker)
    stage.trigger("lacking", "lacking")
    stage.until_not_ready("Broker", "lacking", about="lacking-config")
    stage.until_not_ready("Trigger", "lacking", about="")


WANTED = {
    "Broker": {"Ready", "Addressable", "TopicReady", "ConfigParsed", "DataPlaneAvailable", "ProbeSucceeded"},
    "Trigger": {"Ready", "BrokerReady", "SubscriberResolved", "DeadLetterSinkResolved", "DependencyReady"},
}


@pytest.mark.usefixtures("ready", "not_ready")
@pytest.mark.parametrize("kind", ["Broker", "Trigger"])
@pytest.mark.parametrize("name", ["ready", "lacking"])
def test_conditions_are_well_formed(stage: Stage, kind: str, name: str) -> None:
    """Conditions are unique by type, have a status and a time, a reason when False, and roll up into Ready."""
    check_conditions(stage.get(kind, name))


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("kind", ["Broker", "Trigger"])
def test_conditions_are_those_that_users_know(stage: Stage, kind: str) -> None:
    """Every aspect that may fail by itself has a condition of its own."""
    assert WANTED[kind] <= {each["type"] for each in stage.get(kind, "ready")["status"]["conditions"]}


@pytest.mark.usefixtures("ready")
def test_subscriber_uri_of_a_ready_trigger(stage: Stage) -> None:
    """A ready trigger tells the address of its subscriber."""
    assert stage.get("Trigger", "ready")["status"]["subscriberUri"] == stage.to("/ready")["uri"]


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("kind", ["Broker", "Trigger"])
def test_observed_generation_follows(stage: Stage, kind: str) -> None:
    """A change of the spec is a new generation, and the status tells which one it speaks of."""
    before = stage.get(kind, "ready")
    assert before["status"]["observedGeneration"] == before["metadata"]["generation"]
    stage.change(kind, "ready", lambda it: it["spec"].update(delivery={"retry": 7}))
    assert stage.get(kind, "ready")["metadata"]["generation"] == before["metadata"]["generation"] + 1
    stage.until_ready(kind, "ready")


@pytest.mark.usefixtures("ready")
def test_time_of_a_condition_moves_with_its_status_only(stage: Stage) -> None:
    """A condition that stays as it is keeps the time of its last transition."""
    times = {
        each["type"]: each["lastTransitionTime"] for each in stage.get("Trigger", "ready")["status"]["conditions"]
    }
    stage.change("Trigger", "ready", lambda it: it["metadata"].update(annotations={"example.com/note": "changed"}))
    after = stage.until_ready("Trigger", "ready")["status"]["conditions"]
    assert {each["type"]: each["lastTransitionTime"] for each in after} == times


def test_trigger_without_its_broker(stage: Stage) -> None:
    """A trigger may come before its broker: it is not ready, says why, and then is by itself."""
    stage.trigger("early", "late")
    check_conditions(stage.until_not_ready("Trigger", "early", about="broker"))
    stage.broker("late")
    stage.until_ready("Trigger", "early")


def test_trigger_of_a_broker_that_is_not_ready(stage: Stage) -> None:
    """A trigger is not ready while its broker is not, and is once its broker is."""
    config, broker = stage.broker_parts("waiting")
    stage.create(broker)
    stage.trigger("waits", "waiting")
    trigger = stage.until_not_ready("Trigger", "waits", about="waiting")
    assert condition(trigger, "BrokerReady")["reason"]
    stage.create(config)
    stage.until_ready("Trigger", "waits")


def test_trigger_outlives_its_broker(stage: Stage) -> None:
    """When its broker is deleted a trigger is not ready any more, and is again when the broker is made anew."""
    stage.broker("twice")
    stage.trigger("outlives", "twice")
    stage.until_ready("Trigger", "outlives")
    stage.delete("Broker", "twice")
    stage.until_not_ready("Trigger", "outlives", about="broker")
    stage.create(stage.broker_parts("twice")[1])
    stage.until_ready("Trigger", "outlives")


def subscriber_uri(trigger: Resource) -> str:
    return str(trigger["status"].get("subscriberUri") or "")


@pytest.mark.usefixtures("ready")
def test_subscriber_that_cannot_be_resolved(stage: Stage) -> None:
    """A trigger whose subscriber does not exist is not ready, has no address of it, and is ready once it exists."""
    stage.trigger("seeks", "ready", subscriber={"ref": stage.reference("Broker", "sought")})
    trigger = stage.until_not_ready("Trigger", "seeks", about="sought")
    assert subscriber_uri(trigger) == ""
    assert condition(trigger, "SubscriberResolved")["status"] == "False"
    check_conditions(trigger)
    address = stage.broker("sought")
    assert subscriber_uri(stage.until_ready("Trigger", "seeks")) == address


@pytest.mark.usefixtures("ready")
def test_subscriber_without_an_address(stage: Stage) -> None:
    """A resource that exists but has no address is no subscriber."""
    config = stage.resource("ConfigMap", "no-address")
    config["data"] = {}
    stage.create(config)
    stage.trigger("to-config", "ready", subscriber={"ref": stage.reference("ConfigMap", "no-address")})
    assert subscriber_uri(stage.until_not_ready("Trigger", "to-config", about="address")) == ""


@pytest.mark.usefixtures("ready")
def test_subscriber_that_goes(stage: Stage) -> None:
    """When the resource that is its subscriber is deleted, a trigger is not ready and has no address of it."""
    stage.broker("goes")
    stage.trigger("to-goes", "ready", subscriber={"ref": stage.reference("Broker", "goes")})
    stage.until_ready("Trigger", "to-goes")
    stage.delete("Broker", "goes")
    assert subscriber_uri(stage.until_not_ready("Trigger", "to-goes", about="goes")) == ""


@pytest.mark.usefixtures("ready")
def test_dead_letter_sink_of_a_trigger(stage: Stage) -> None:
    """A ready trigger with a dead letter sink reports its address; one whose sink does not exist is not ready."""
    sink = {"deadLetterSink": {"ref": stage.reference("Broker", "dead")}}
    stage.trigger("with-sink", "ready", delivery=sink)
    trigger = stage.until_not_ready("Trigger", "with-sink", about="dead")
    assert condition(trigger, "DeadLetterSinkResolved")["reason"]
    address = stage.broker("dead")
    assert stage.until_ready("Trigger", "with-sink")["status"]["deadLetterSinkUri"] == address


@pytest.mark.usefixtures("ready")
def test_deleted_trigger_is_gone(stage: Stage) -> None:
    """What is deleted can be made anew under its name, and is another object."""
    stage.trigger("anew", "ready")
    before = stage.until_ready("Trigger", "anew")["metadata"]["uid"]
    stage.delete("Trigger", "anew")
    stage.trigger("anew", "ready")
    assert stage.until_ready("Trigger", "anew")["metadata"]["uid"] != before


@pytest.mark.usefixtures("ready")
def test_status_is_not_for_writing(stage: Stage) -> None:
    """What somebody applies as a status is not taken for one."""
    stage.change("Trigger", "ready", lambda it: it.update(status={"subscriberUri": "http://elsewhere/"}))
    assert stage.get("Trigger", "ready")["status"]["subscriberUri"] == stage.to("/ready")["uri"]
