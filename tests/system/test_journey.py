"""The journey of one event, from HTTP in to HTTP out. The best page of documentation: read it from the top."""

import http.client
import json
from collections.abc import Callable
from urllib.parse import urlsplit

from tests.conftest import System
from tests.sink import Sink
from tests.system.resources import apply, broker, get, remove, trigger


def test_the_journey_of_one_event(penstock_up: System, sink: Callable[[], Sink]) -> None:
    """Kept promise: an event sent to a broker reaches exactly the subscriber that asked for it, unaltered."""
    # 1. Two services want events of the broker "shop": one wants new orders, the other what is shipped.
    orders, shipping = sink(), sink()
    resources = [
        broker("shop"),
        trigger("new-orders", "shop", orders.url + "/new", filter={"attributes": {"type": "order.created"}}),
        trigger("shipped", "shop", shipping.url + "/out", filters=[{"exact": {"type": "order.shipped"}}]),
    ]

    # 2. The controller makes the topic, tells receiver and dispatcher, and says when all is ready.
    apply(penstock_up, *resources)
    address = urlsplit(get(penstock_up, "broker", "shop")["status"]["address"]["url"])
    assert address.path == "/default/shop"

    # 3. A sender posts one event. The answer 202 means: Kafka has it.
    sender = http.client.HTTPConnection(address.netloc, timeout=10)
    sender.request(
        "POST",
        address.path,
        body=b'{ "amount": 12.50 }',
        headers={
            "ce-specversion": "1.0",
            "ce-id": "42",
            "ce-source": "/web/checkout",
            "ce-type": "order.created",
            "ce-subject": "order 42",  # http.client sends the blank as it is; Penstock accepts it
            "ce-time": "2026-01-31T12:00:00.123456789Z",
            "Content-Type": "application/json",
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        },
    )
    assert sender.getresponse().status == 202

    # 4. Spark reads it, matches it against both triggers, and the worker of its partition delivers it.
    (request,) = orders.wait_for(1, "/new")
    assert request.method == "POST"
    assert request.body == b'{ "amount": 12.50 }'  # byte for byte
    assert request.headers["content-type"] == "application/json"
    assert request.headers["ce-specversion"] == "1.0"
    assert request.headers["ce-id"] == "42"
    assert request.headers["ce-source"] == "/web/checkout"
    assert request.headers["ce-type"] == "order.created"
    assert request.headers["ce-subject"] == "order%2042"  # as CloudEvents' HTTP binding wants it
    assert request.headers["ce-time"] == "2026-01-31T12:00:00.123456789Z"
    assert request.headers["traceparent"].startswith("00-4bf92f3577b34da6a3ce929d0e0e4736-")
    assert request.headers["kn-namespace"] == "default"
    assert request.headers["prefer"] == "reply"
    assert request.headers["ce-knativekafkapartition"].isdigit()
    assert request.headers["ce-knativekafkaoffset"].isdigit()

    # 5. A second event, sent with the command line, goes to the other one; so the first went nowhere else.
    sent = penstock_up.run("send", "broker/shop", "--type", "order.shipped", "--source", "/depot", "--id", "43")
    assert sent.returncode == 0, sent.stderr
    (request,) = shipping.wait_for(1, "/out")
    assert request.headers["ce-id"] == "43"
    assert len(orders.requests) == 1

    # 6. The trigger's progress is a Kafka consumer group like any other.
    described = json.loads(penstock_up.run("get", "triggers", "-o", "json").stdout)
    assert {item["metadata"]["name"] for item in described["items"]} >= {"new-orders", "shipped"}
    remove(penstock_up, *resources)
