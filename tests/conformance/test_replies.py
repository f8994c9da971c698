"""Replies: events that a subscriber sends back with its answer enter the broker like any other."""

import pytest

from tests.conformance.sending import attributes_of, binary, ids, send
from tests.conformance.stage import ORDERED, Stage
from tests.sink import Answer, Request

TEXT = {"content-type": "text/plain"}


def reply(id_: str) -> dict[str, str]:
    return binary(id_, "reply", subject="s") | TEXT


# Answers that carry no reply, by the id of the event that they answer.
NO_REPLY = {
    "accepted": Answer(202, b"data", reply("of-accepted")),
    "empty": Answer(200, b"", reply("of-empty")),
    "text": Answer(200, b"thanks", TEXT),
    "json": Answer(200, b'{"id": "of-json"}', {"content-type": "application/json"}),
    "failed": Answer(400, b"data", reply("of-failed")),
}
REPLIES = {
    "binary": Answer(200, b"\x00data", reply("of-binary")),
    "structured": Answer(
        200,
        b'{"specversion":"1.0","id":"of-structured","source":"/s","type":"reply","data_base64":"AGRhdGE="}',
        {"content-type": "application/cloudevents+json"},
    ),
    "json-data": Answer(
        200,
        b'{"specversion":"1.0","id":"of-json-data","source":"/s","type":"reply","data":{"a":[1]}}',
        {"content-type": "application/cloudevents+json"},
    ),
    "created": Answer(201, b"\x00data", reply("of-created")),
}


@pytest.fixture(scope="module")
def url(stage: Stage) -> str:
    """A trigger that wants everything and answers, and others that want the replies or the questions."""
    address = stage.broker("replies")
    stage.subscriber.answer("/answers", with_=answer)
    stage.trigger("answers", "replies", ORDERED)
    stage.trigger("replies", "replies", ORDERED, filter={"attributes": {"type": "reply"}})
    stage.trigger("questions", "replies", ORDERED, filter={"attributes": {"type": "question"}})
    for name in ("answers", "replies", "questions"):
        stage.until_ready("Trigger", name)
    return address


def answer(request: Request) -> Answer:
    """Questions that are in no table get a reply too; replies are just taken."""
    id_ = request.headers["ce-id"]
    if request.headers["ce-type"] != "question":
        return Answer()
    return (NO_REPLY | REPLIES).get(id_) or Answer(200, b"x", reply(f"of-{id_}"))


@pytest.mark.parametrize("name", REPLIES)
def test_reply_enters_the_broker(stage: Stage, url: str, name: str) -> None:
    """An event in a 2xx answer, in either mode, meets the broker's triggers, with its own attributes and data."""
    send(url, name, "question", subject="s")
    request = stage.came("/replies", f"of-{name}")
    assert attributes_of(request)["type"] == "reply"
    assert request.body == (b'{"a":[1]}' if name == "json-data" else b"\x00data")


def test_reply_meets_all_triggers(stage: Stage, url: str) -> None:
    """A reply is evaluated against all triggers, also the one that it came from, as any event is."""
    send(url, "asked", "question", subject="s")
    stage.came("/replies", "of-asked")
    stage.came("/answers", "of-asked")
    send(url, "after", "question", subject="s")
    stage.came("/questions", "after")
    assert "of-asked" not in ids(stage.subscriber.at("/questions"))


@pytest.mark.parametrize("name", NO_REPLY)
def test_what_is_no_reply(stage: Stage, url: str, name: str) -> None:
    """The body of a 202 is never a reply; nor is an empty body, what is no event, or what comes with an error."""
    send(url, name, "question", subject="s")
    send(url, f"after-{name}", "question", subject="s")
    stage.came("/replies", f"of-after-{name}")  # in order: a reply to the first question would have come before
    assert f"of-{name}" not in ids(stage.subscriber.at("/replies"))
