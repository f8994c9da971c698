"""Where is my event, after broker and trigger were deleted and made anew: attempts of an earlier event at the same
offset, or of a subscription with the same name, are not shown."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import System
from tests.sink import Answer, Sink
from tests.system.resources import apply, broker, get, remove, trigger
from tests.system.test_delivery import send
from tests.system.test_explain import explained
from tests.waiting import until

MakeSink = Callable[[], Sink]
Row = dict[str, Any]


def the_one(system: System, id_: str) -> Row:
    (event,) = explained(system, id_)
    return event


def found(system: System, id_: str) -> Row | None:
    """The event, if it is found now: a part that explains it may still start, or not have read it yet."""
    try:
        return the_one(system, id_)
    except (AssertionError, ValueError):
        return None


def of(event: Row, uid: str) -> Row:
    (row,) = rows_of(event, uid)
    return row


def rows_of(event: Row, uid: str) -> list[Row]:
    return [dict(each) for each in event["subscriptions"] if each["uid"] == uid]


def uid_of(system: System, name: str) -> str:
    return str(get(system, "trigger", name)["metadata"]["uid"])


def given_up(system: System, id_: str, uid: str) -> Row:
    """The event, once its dead letter is known."""

    def look() -> Row | None:
        event = found(system, id_)
        rows = rows_of(event, uid) if event else []
        return event if any(each["dead_letter"] and each["attempts"] for each in rows) else None

    return until(look, f"the dead letter of {id_} is known")


def statuses(row: Row) -> list[int]:
    return [each["status"] for each in row["attempts"]]


@pytest.mark.parametrize("has_sink", [False, True], ids=["given-up", "dead-lettered"])
def test_an_event_of_a_broker_made_anew_has_the_outcome_of_its_own_delivery(
    penstock_up: System, sink: MakeSink, has_sink: bool
) -> None:
    """Kept promise: an event with the offset and id of one that a deleted broker gave up shows its own attempts."""
    subscriber, answered = sink(), threading.Event()
    name = f"anew-{'with' if has_sink else 'without'}-sink"
    delivery: Row = {"timeout": "PT5M"}  # longer than the commands take
    delivery |= {"deadLetterSink": {"uri": subscriber.url + "/dead"}} if has_sink else {}
    resources = [broker(name), trigger(name, name, subscriber.url + "/anew", delivery=delivery)]
    subscriber.answer("/anew", status=400)
    apply(penstock_up, *resources)
    send(penstock_up, name, name, partitionkey="same")
    former = given_up(penstock_up, name, uid_of(penstock_up, name))
    assert [each["outcome"] for each in former["subscriptions"]] == ["DEAD"]
    remove(penstock_up, *resources)

    subscriber.answer("/anew", with_=lambda _: Answer(after=answered))
    apply(penstock_up, *resources)
    try:
        send(penstock_up, name, name, partitionkey="same")
        subscriber.wait_for(2, "/anew")
        anew = until(lambda: found(penstock_up, name), "the event is found")
        assert (anew["partition"], anew["offset"]) == (former["partition"], former["offset"])
        (row,) = anew["subscriptions"]  # the former trigger is not shown: it never had this event
        assert row["uid"] == uid_of(penstock_up, name)
        assert (row["attempts"], row["dead_letter"]) == ([], None)
        assert row["outcome"] in ("PENDING", "IN FLIGHT")
    finally:
        answered.set()

    def delivered() -> Row | None:
        event = found(penstock_up, name)
        rows = event["subscriptions"] if event else []
        return next((dict(each) for each in rows if each["outcome"] == "DELIVERED" and each["attempts"]), None)

    row = until(delivered, "it is delivered")
    assert (statuses(row), row["dead_letter"]) == ([200], None)


def test_a_dead_letter_of_a_deleted_trigger_is_not_that_of_its_successor(penstock_up: System, sink: MakeSink) -> None:
    """Kept promise: a trigger made anew on the same topic shows its own attempts; what the former one gave up stays
    with the former one."""
    subscriber = sink()
    subscriber.answer("/follows", status=400)
    shop, follows = broker("followed"), trigger("follows", "followed", subscriber.url + "/follows")
    apply(penstock_up, shop, follows)
    send(penstock_up, "followed", "followed-1")
    former = uid_of(penstock_up, "follows")
    given_up(penstock_up, "followed-1", former)
    remove(penstock_up, follows)

    subscriber.answer("/follows", status=200)
    apply(penstock_up, follows)
    present = uid_of(penstock_up, "follows")
    assert present != former
    row = of(until(lambda: found(penstock_up, "followed-1"), "the event is found"), present)
    assert (row["outcome"], row["attempts"], row["dead_letter"]) == ("BEFORE", [], None)

    moved = penstock_up.run("trigger", "reset", "follows", "--to", "earliest")
    assert moved.returncode == 0, moved.stderr

    def delivered() -> Row | None:
        event = found(penstock_up, "followed-1")
        rows = rows_of(event, present) if event else []
        return event if any(each["outcome"] == "DELIVERED" and each["attempts"] for each in rows) else None

    event = until(delivered, "its successor has delivered it")
    assert (statuses(of(event, present)), of(event, present)["dead_letter"]) == ([200], None)
    assert (statuses(of(event, former)), of(event, former)["outcome"]) == ([400], "DEAD")
