"""Delivery: what counts as taken, how often and when it is tried again, and what becomes of what nobody takes.

Of every trigger in ``TRIGGERS`` the name is the type of its events, and the path at which they come; its dead letters
come to that path with ``/dead`` behind it.
"""

import base64
import itertools
import json
from collections import Counter
from typing import Any

import pytest

from tests.conformance.sending import attributes_of, ids, send
from tests.conformance.stage import ORDERED, Stage
from tests.sink import Answer, Request
from tests.waiting import until

QUICK: dict[str, Any] = {"retry": 3, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}
TRIGGERS: dict[str, dict[str, Any]] = {
    "codes": QUICK,
    "used-up": QUICK | {"retry": 2},
    "no-retry": {},
    "linear": {"retry": 3, "backoffPolicy": "linear", "backoffDelay": "PT2S"},
    "exponential": {"retry": 3, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"},
    "wish": QUICK | {"retryAfterMax": "PT10S"},
    "long-wish": QUICK | {"retryAfterMax": "PT0.2S"},
    "hangs": QUICK | {"timeout": "PT0.3S"},
    "letter": {},
    "long-answer": {},
    "extensions": {},
    "busy-sink": QUICK,
    "in-order": QUICK | {"backoffDelay": "PT0.2S"},
    "not-in-order": {"retry": 1, "backoffPolicy": "linear", "backoffDelay": "PT10S"},
    "json": {"format": "json"},
}
RETRIED = [404, 408, 409, 429, 500, 502, 503, 504, 599]
REFUSED = [301, 304, 400, 401, 403, 405, 413, 415, 422, 499]
TAKEN = [200, 201, 202, 204, 299]


@pytest.fixture(scope="module")
def url(stage: Stage) -> str:
    address = stage.broker("delivery", partitions=2)
    for name, delivery in TRIGGERS.items():
        stage.trigger(
            name,
            "delivery",
            ORDERED if name == "in-order" else None,
            filter={"attributes": {"type": name}},
            delivery={"deadLetterSink": stage.to(f"/{name}/dead"), **delivery},
        )
    unreachable = {"uri": "http://127.0.0.1:1/unreachable"}
    dead = {"deadLetterSink": stage.to("/unreachable/dead")}
    stage.trigger("unreachable", "delivery", subscriber=unreachable, delivery=QUICK | dead,
                  filter={"attributes": {"type": "unreachable"}})  # fmt: skip
    for name in (*TRIGGERS, "unreachable"):
        stage.until_ready("Trigger", name)
    return address


@pytest.fixture(scope="module")
def answered(stage: Stage, url: str) -> None:
    """One event for each status, sent at once: it is the answer to the first attempt, 200 that to any other."""
    seen: Counter[str] = Counter()

    def at_first(request: Request) -> Answer:
        id_ = request.headers["ce-id"]
        seen[id_] += 1
        return Answer(int(id_) if seen[id_] == 1 else 200)

    stage.subscriber.answer("/codes", with_=at_first)
    for status in (*RETRIED, *REFUSED, *TAKEN):
        send(url, str(status), "codes")


def attempts(stage: Stage, status: int) -> int:
    return ids(stage.subscriber.at("/codes")).count(str(status))


@pytest.mark.usefixtures("answered")
@pytest.mark.parametrize("status", RETRIED)
def test_status_that_is_tried_again(stage: Stage, status: int) -> None:
    """404, 408, 409, 429 and all from 500 on mean: not now. The event comes again."""
    until(lambda: attempts(stage, status) >= 2, f"the second attempt after {status}")
    assert attempts(stage, status) == 2
    assert str(status) not in ids(stage.subscriber.at("/codes/dead"))


@pytest.mark.usefixtures("answered")
@pytest.mark.parametrize("status", REFUSED)
def test_status_that_is_final(stage: Stage, status: int) -> None:
    """Other errors mean: never. The event is not tried again, and goes to the dead letter sink."""
    stage.came("/codes/dead", str(status))
    assert attempts(stage, status) == 1


@pytest.mark.usefixtures("answered")
@pytest.mark.parametrize("status", TAKEN)
def test_status_that_means_taken(stage: Stage, status: int) -> None:
    """Any 2xx means that the event was taken: it comes once, and is no dead letter."""
    stage.came("/codes", str(status))
    until(lambda: attempts(stage, 503) >= 2, "a retry of something else meanwhile")
    assert attempts(stage, status) == 1
    assert str(status) not in ids(stage.subscriber.at("/codes/dead"))


def test_retries_are_used_up(stage: Stage, url: str) -> None:
    """``retry`` is how often it is tried again; then the event goes to the dead letter sink."""
    stage.subscriber.answer("/used-up", status=503)
    send(url, "a", "used-up")
    stage.came("/used-up/dead", "a")
    assert stage.subscriber.count("/used-up") == 3


def test_without_retries(stage: Stage, url: str) -> None:
    """Without ``retry`` it is tried once."""
    stage.subscriber.answer("/no-retry", status=503)
    send(url, "a", "no-retry")
    stage.came("/no-retry/dead", "a")
    assert stage.subscriber.count("/no-retry") == 1


def test_nobody_listens(stage: Stage, url: str) -> None:
    """A subscriber that cannot be reached at all is tried again, and then the event is a dead letter."""
    send(url, "a", "unreachable")
    letter = attributes_of(stage.came("/unreachable/dead", "a"))
    assert letter["knativeerrordest"] == "http://127.0.0.1:1/unreachable"


def test_timeout(stage: Stage, url: str) -> None:
    """A subscriber that does not answer within ``timeout`` has not taken the event: it comes again."""
    delays = itertools.chain([60.0], itertools.repeat(0.0))
    stage.subscriber.answer("/hangs", with_=lambda _: Answer(200, delay_seconds=next(delays)))
    send(url, "a", "hangs")
    first, second = stage.subscriber.wait_for(2, "/hangs")[:2]
    assert 0.25 < second.received - first.received < 30


def gaps(requests: list[Request]) -> list[float]:
    return [after.received - before.received for before, after in itertools.pairwise(requests)]


@pytest.fixture(scope="module")
def paces(stage: Stage, url: str) -> None:
    """Both policies are at work at the same time."""
    for name in ("linear", "exponential"):
        stage.subscriber.answer(f"/{name}", status=500)
        send(url, "a", name)


@pytest.mark.usefixtures("paces")
def test_linear_backoff(stage: Stage) -> None:
    """Linear: the same delay before each attempt."""
    waited = gaps(stage.subscriber.wait_for(4, "/linear"))
    assert min(waited) > 1.9
    assert waited[2] < 7, "exponential would be 8"


@pytest.mark.usefixtures("paces")
def test_exponential_backoff(stage: Stage) -> None:
    """Exponential: twice the delay each time."""
    waited = gaps(stage.subscriber.wait_for(4, "/exponential"))
    assert waited[0] > 0.18
    assert waited[1] > 0.38
    assert waited[2] > 0.78


def test_retry_after(stage: Stage, url: str) -> None:
    """A subscriber that asks for time with ``Retry-After`` is given it."""
    stage.subscriber.answer("/wish", status=429, headers={"Retry-After": "1"})
    send(url, "a", "wish")
    assert gaps(stage.subscriber.wait_for(2, "/wish"))[0] > 0.95


def test_retry_after_has_a_limit(stage: Stage, url: str) -> None:
    """No subscriber gets more time than ``retryAfterMax``."""
    stage.subscriber.answer("/long-wish", status=503, headers={"Retry-After": "3600"})
    send(url, "a", "long-wish")
    stage.came("/long-wish/dead", "a")
    assert stage.subscriber.count("/long-wish") == 4


def test_dead_letter_is_the_event(stage: Stage, url: str) -> None:
    """A dead letter is the event itself, with its attributes and data."""
    stage.subscriber.answer("/letter", status=400)
    send(url, "whole", "letter", b"\x00\xff data", subject="s ä", ext="x")
    letter = stage.came("/letter/dead", "whole")
    found = attributes_of(letter)
    assert letter.body == b"\x00\xff data"
    assert (found["type"], found["source"], found["subject"], found["ext"]) == ("letter", "/conformance", "s ä", "x")


def test_dead_letter_says_what_happened(stage: Stage, url: str) -> None:
    """A dead letter tells who did not take it, with which status, and what was said."""
    stage.subscriber.answer("/letter", status=400, body=b"not like this")
    send(url, "told", "letter")
    found = attributes_of(stage.came("/letter/dead", "told"))
    assert found["knativeerrordest"] == stage.to("/letter")["uri"]
    assert found["knativeerrorcode"] == "400"
    assert base64.b64decode(found["knativeerrordata"]) == b"not like this"


def test_dead_letter_tells_the_beginning(stage: Stage, url: str) -> None:
    """Of a long answer the first 1024 bytes are told."""
    stage.subscriber.answer("/long-answer", status=400, body=b"x" * 1024 + b"y" * 5000)
    send(url, "a", "long-answer")
    found = attributes_of(stage.came("/long-answer/dead", "a"))
    assert base64.b64decode(found["knativeerrordata"]) == b"x" * 1024


def test_subscriber_adds_to_the_dead_letter(stage: Stage, url: str) -> None:
    """Headers of the answer that begin with ``kne-`` become extensions of the dead letter."""
    stage.subscriber.answer("/extensions", status=400, headers={"Kne-Why": "monday"})
    send(url, "a", "extensions")
    assert attributes_of(stage.came("/extensions/dead", "a"))["why"] == "monday"


def test_dead_letter_sink_that_is_busy(stage: Stage, url: str) -> None:
    """A dead letter sink that cannot take the event now is tried again like a subscriber."""
    answers = itertools.chain([503, 429], itertools.repeat(200))
    stage.subscriber.answer("/busy-sink", status=400)
    stage.subscriber.answer("/busy-sink/dead", with_=lambda _: Answer(next(answers)))
    send(url, "a", "busy-sink")
    assert ids(stage.subscriber.wait_for(3, "/busy-sink/dead")) == ["a"] * 3


def test_ordered_delivery(stage: Stage, url: str) -> None:
    """Ordered: what has the same key comes in the order in which it was sent, also when something is tried again."""
    answers = {"3": iter([503, 503]), "5": iter([500])}
    stage.subscriber.answer(
        "/in-order", with_=lambda request: Answer(next(answers.get(request.headers["ce-id"], iter([])), 200))
    )
    for n in range(8):
        send(url, str(n), "in-order", partitionkey="one")
    came = ids(stage.subscriber.wait_for(11, "/in-order"))
    assert came == ["0", "1", "2", "3", "3", "3", "4", "5", "5", "6", "7"]


def test_unordered_delivery(stage: Stage, url: str) -> None:
    """Unordered, as triggers are by default: an event that is tried again holds up no other."""
    answers = iter([503])
    stage.subscriber.answer("/not-in-order", with_=lambda _: Answer(next(answers, 200)))
    send(url, "stumbles", "not-in-order", partitionkey="one")
    stage.came("/not-in-order", "stumbles")
    send(url, "passes", "not-in-order", partitionkey="one")
    came = stage.subscriber.wait_for(3, "/not-in-order")
    assert ids(came) == ["stumbles", "passes", "stumbles"]


def test_json_format(stage: Stage, url: str) -> None:
    """A subscriber may ask for events in structured mode with ``format: json``."""
    send(url, "a", "json", b'{"x": 1}')
    request = stage.subscriber.wait_for(1, "/json")[0]
    assert request.headers["content-type"].startswith("application/cloudevents+json")
    event = json.loads(request.body)
    assert (event["id"], event["type"], event["data"]) == ("a", "json", {"x": 1})


# ── the broker's delivery ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def strict_url(stage: Stage) -> str:
    """A broker with a dead letter sink; one trigger without a delivery of its own, and two with one."""
    address = stage.broker("strict", delivery={"retry": 1, "backoffDelay": "PT0.05S"} | dead(stage, "/of-broker"))
    stage.trigger("inherits", "strict", ORDERED)
    stage.trigger("own-sink", "strict", ORDERED, delivery=dead(stage, "/of-trigger"))
    stage.trigger("own-retry", "strict", ORDERED, delivery={"retry": 0})
    for name in ("inherits", "own-sink", "own-retry"):
        answers = iter([503, 503])
        stage.subscriber.answer(f"/{name}", with_=lambda _, left=answers: Answer(next(left, 200)))  # type: ignore[misc]
        stage.until_ready("Trigger", name)
    send(address, "first", subject="s")
    send(address, "second", subject="s")
    send(address, "third", subject="s")
    return address


def dead(stage: Stage, path: str) -> dict[str, Any]:
    return {"deadLetterSink": stage.to(path)}


@pytest.mark.usefixtures("strict_url")
def test_delivery_of_the_broker(stage: Stage) -> None:
    """A trigger without delivery settings has those of its broker: its retries, and its dead letter sink."""
    came = ids(stage.subscriber.wait_for(4, "/inherits"))
    assert came == ["first", "first", "second", "third"]
    assert attributes_of(stage.came("/of-broker", "first"))["knativeerrordest"] == stage.to("/inherits")["uri"]


@pytest.mark.usefixtures("strict_url")
def test_delivery_of_the_trigger(stage: Stage) -> None:
    """A trigger with delivery settings of its own has none of its broker's."""
    assert ids(stage.subscriber.wait_for(3, "/own-sink")) == ["first", "second", "third"]
    assert ids(stage.subscriber.wait_for(2, "/of-trigger")) == ["first", "second"]


@pytest.mark.usefixtures("strict_url")
def test_without_a_dead_letter_sink(stage: Stage) -> None:
    """Without a dead letter sink an event that cannot be delivered is dropped, and the next one goes on."""
    assert ids(stage.subscriber.wait_for(3, "/own-retry")) == ["first", "second", "third"]
    stage.came("/of-broker", "first")
    letters = [attributes_of(each)["knativeerrordest"] for each in stage.subscriber.at("/of-broker")]
    assert stage.to("/own-retry")["uri"] not in letters


def test_broker_as_dead_letter_sink(stage: Stage, url: str) -> None:
    """The dead letter sink may be a broker, named by reference: its triggers see the dead letters."""
    stage.broker("morgue")
    stage.trigger("coroner", "morgue")
    sink = {"deadLetterSink": {"ref": stage.reference("Broker", "morgue")}}
    stage.trigger("to-morgue", "delivery", delivery=sink, filter={"attributes": {"type": "to-morgue"}})
    stage.until_ready("Trigger", "coroner")
    stage.until_ready("Trigger", "to-morgue")
    stage.subscriber.answer("/to-morgue", status=400)
    send(url, "a", "to-morgue")
    assert attributes_of(stage.came("/coroner", "a"))["knativeerrorcode"] == "400"
