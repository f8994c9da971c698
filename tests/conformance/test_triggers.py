"""Triggers: who gets which event, how often, in which form, and from when on."""

import itertools

import pytest

from tests.conformance.sending import attributes_of, ids, send
from tests.conformance.stage import ORDERED, Stage
from tests.sink import Answer
from tests.waiting import until

OWN = ("once", "form", "bystander", "filter-changes", "subscriber-changes", "filter-again")


@pytest.fixture(scope="module")
def url(stage: Stage) -> str:
    """A broker whose triggers each want the events of the type that is their name."""
    address = stage.broker("triggers", partitions=2)
    twins = {"subscriber": stage.to("/twins"), "filter": {"attributes": {"type": "twins"}}}
    for name in ("twin-1", "twin-2", "twin-3"):
        stage.trigger(name, "triggers", **twins)
    for name in OWN:
        stage.trigger(name, "triggers", ORDERED, filter={"attributes": {"type": name}})
    for name in ("twin-1", "twin-2", "twin-3", *OWN):
        stage.until_ready("Trigger", name)
    return address


def test_every_event_comes_once(stage: Stage, url: str) -> None:
    """A trigger is evaluated exactly once for each event: while nothing fails, each comes once."""
    sent = [f"once-{n}" for n in range(100)]
    for id_ in sent:
        send(url, id_, "once", subject=id_)
    came = stage.subscriber.wait_for(100, "/once")
    assert sorted(ids(came)) == sorted(sent)


def test_one_delivery_for_each_trigger(stage: Stage, url: str) -> None:
    """Triggers that match the same event and have the same subscriber are so many deliveries."""
    send(url, "twins", "twins")
    send(url, "more", "twins")
    came = stage.subscriber.wait_for(6, "/twins")
    assert sorted(ids(came)) == ["more"] * 3 + ["twins"] * 3


def test_delivery_is_a_post_in_binary_mode(stage: Stage, url: str) -> None:
    """A subscriber gets a POST with the attributes as headers and the data as body."""
    send(url, "binary", "form", b"\x00data")
    request = stage.came("/form", "binary")
    assert (request.method, request.headers["ce-specversion"], request.body) == ("POST", "1.0", b"\x00data")
    assert request.headers["content-type"] == "application/json"


def test_delivery_asks_for_replies(stage: Stage, url: str) -> None:
    """A subscriber is told with ``Prefer: reply`` that it may answer with an event."""
    send(url, "prefer", "form")
    assert stage.came("/form", "prefer").headers["prefer"] == "reply"


def test_delivery_names_the_namespace(stage: Stage, url: str) -> None:
    """A subscriber is told of which namespace the event is."""
    send(url, "namespace", "form")
    assert stage.came("/form", "namespace").headers["kn-namespace"] == stage.api.namespace


def test_delivery_tells_the_place_in_kafka(stage: Stage, url: str) -> None:
    """Partition and offset are added as attributes."""
    send(url, "place", "form")
    found = attributes_of(stage.came("/form", "place"))
    assert found["knativekafkapartition"].isdigit()
    assert found["knativekafkaoffset"].isdigit()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_ready_means_that_all_further_events_come(stage: Stage, url: str, number: int) -> None:
    """A trigger is ready only once every event from then on will come; events of before are not owed."""
    name = f"ready-{number}"
    stage.trigger(name, "triggers", filter={"attributes": {"type": name}})
    stage.until_ready("Trigger", name)
    sent = [f"{name}-{n}" for n in range(5)]
    for id_ in sent:
        send(url, id_, name, subject=id_)
    assert set(ids(stage.subscriber.wait_for(5, f"/{name}"))) == set(sent)


def wait_for_marks(stage: Stage, url: str, path: str, type_: str) -> None:
    """Sends events of the type, until one of them has come to the path."""
    numbers = itertools.count()

    def came() -> int:
        send(url, f"mark-{next(numbers)}", type_)
        return stage.subscriber.count(path)

    until(came, f"an event of type {type_} at {path}", 30)


def test_changed_filter(stage: Stage, url: str) -> None:
    """The filter of a trigger may be changed, and the new one is in force soon after."""
    stage.change("Trigger", "filter-changes", lambda it: it["spec"]["filter"]["attributes"].update(type="changed"))
    stage.until_ready("Trigger", "filter-changes")
    wait_for_marks(stage, url, "/filter-changes", "changed")


def test_changed_subscriber(stage: Stage, url: str) -> None:
    """The subscriber of a trigger may be changed; what is sent meanwhile comes to the old one or to the new one."""
    moved = stage.to("/moved")
    stage.change("Trigger", "subscriber-changes", lambda it: it["spec"].update(subscriber=moved))
    assert stage.until_ready("Trigger", "subscriber-changes")["status"]["subscriberUri"] == moved["uri"]
    send(url, "meanwhile", "subscriber-changes")
    wait_for_marks(stage, url, "/moved", "subscriber-changes")

    def came() -> list[str]:
        return ids(stage.subscriber.at("/subscriber-changes")) + ids(stage.subscriber.at("/moved"))

    until(lambda: "meanwhile" in came(), "what was sent meanwhile", 30)
    assert came().count("meanwhile") == 1


def test_ready_after_a_change_means_the_new_filter(stage: Stage, url: str) -> None:
    """Once the status speaks of the new filter, every event from then on that matches it comes."""
    stage.change("Trigger", "filter-again", lambda it: it["spec"]["filter"]["attributes"].update(type="again"))
    stage.until_ready("Trigger", "filter-again")
    send(url, "first", "again")
    stage.came("/filter-again", "first")


def test_a_failing_subscriber_is_its_own_problem(stage: Stage, url: str) -> None:
    """While one subscriber fails, the events of another trigger come as ever."""
    stage.subscriber.answer("/failing", with_=lambda _: Answer(503))
    both = {"attributes": {"type": "bystander"}}
    stage.trigger("failing", "triggers", filter=both, delivery={"retry": 3, "backoffDelay": "PT5S"})
    stage.until_ready("Trigger", "failing")
    send(url, "while-it-fails", "bystander")
    stage.subscriber.wait_for(1, "/failing")
    send(url, "while-it-waits", "bystander")
    stage.subscriber.wait_for(2, "/bystander")
    assert ids(stage.subscriber.at("/bystander")) == ["while-it-fails", "while-it-waits"]


def test_subscriber_by_reference(stage: Stage, url: str) -> None:
    """A subscriber may be a resource with an address, here another broker."""
    next_url = stage.broker("next")
    stage.trigger("at-next", "next")
    stage.trigger(
        "to-next", "triggers", subscriber={"ref": stage.reference("Broker", "next")},
        filter={"attributes": {"type": "forwarded"}},
    )  # fmt: skip
    stage.until_ready("Trigger", "at-next")
    assert stage.until_ready("Trigger", "to-next")["status"]["subscriberUri"] == next_url
    send(url, "forwarded", "forwarded")
    assert ids(stage.subscriber.wait_for(1, "/at-next")) == ["forwarded"]


def test_uri_beside_a_reference_is_relative_to_it(stage: Stage, url: str) -> None:
    """With a reference and a URI, the address is the URI seen from that of the resource."""
    both = {"ref": stage.reference("Broker", "triggers"), "uri": "/else/where"}
    stage.trigger("relative", "triggers", subscriber=both, filter={"attributes": {"type": "nothing"}})
    resolved = stage.until_ready("Trigger", "relative")["status"]["subscriberUri"]
    assert resolved == url.removesuffix(f"/{stage.api.namespace}/{stage.name('triggers')}") + "/else/where"
