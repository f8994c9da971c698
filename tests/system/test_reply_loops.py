"""Triggers that feed themselves with events whose data is itself an event: their loops end like all others."""

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import System
from tests.sink import Answer, Request, Sink
from tests.system.resources import apply, broker, trigger
from tests.system.test_positions import rows
from tests.waiting import until

MakeSink = Callable[[], Sink]
HOPS = 16  # by default
STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"
# The count of hops in the inner event is not that of the outer one.
INNER = {"specversion": "1.0", "id": "inner", "source": "/inner", "type": "t", "knativebrokerttl": str(HOPS)}


def nested(id_: str, **attributes: str) -> dict[str, Any]:
    outer = {"specversion": "1.0", "id": id_, "source": "/s", "type": "order", "datacontenttype": STRUCTURED}
    return {**outer, **attributes, "data": INNER}


def send(system: System, broker_name: str, event: dict[str, Any]) -> None:
    url, body = f"{system.ingress_url}/default/{broker_name}", json.dumps(event).encode()
    request = urllib.request.Request(url, body, {"content-type": STRUCTURED})
    assert urllib.request.urlopen(request).status == 202


def identity(request: Request) -> str:
    event = json.loads(request.body)
    assert event["data"] == INNER, "the inner event is as it was sent"
    return str(event["id"])


@pytest.mark.parametrize("reply", [STRUCTURED, BATCHED], ids=["structured", "batch"])
@pytest.mark.parametrize("format_", [None, "json"], ids=["as-it-is", "json"])
def test_a_loop_of_events_about_events_ends(
    penstock_up: System, sink: MakeSink, reply: str, format_: str | None
) -> None:
    """Kept promise: sixteen replies follow an event and no more, also when the data of each is itself an event."""
    subscriber = sink()

    def again(request: Request) -> Answer:
        event = nested(identity(request) + "+")
        return Answer(200, json.dumps([event] if reply == BATCHED else event).encode(), {"content-type": reply})

    name = f"loop-{'batch' if reply == BATCHED else 'one'}-{format_ or 'any'}"
    subscriber.answer("/loop", with_=again)
    delivery = {"format": format_} if format_ else {}
    apply(penstock_up, broker(name), trigger(name, name, subscriber.url + "/loop", delivery=delivery))

    def is_at_the_end() -> bool:
        return all(row["from"] == row["to"] for row in rows(penstock_up, name, "--to", "latest", "--dry-run"))

    send(penstock_up, name, nested("a"))
    subscriber.wait_for(HOPS + 1, "/loop", 60)
    until(is_at_the_end, "its position is the end")
    send(penstock_up, name, nested("z", knativebrokerttl="0"))
    subscriber.wait_for(HOPS + 2, "/loop", 60)
    until(is_at_the_end, "its position is the end again")
    came = [identity(each) for each in subscriber.at("/loop")]
    assert came == [*("a" + "+" * n for n in range(HOPS + 1)), "z"]
