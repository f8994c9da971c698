"""Three triggers and 10,000 events: each subscriber has exactly what matches, and the lag goes to 0."""

from collections import Counter
from collections.abc import Callable

from tests.conftest import System
from tests.sink import Sink
from tests.system.resources import apply, broker, remove, trigger
from tests.waiting import until


def lag_column(system: System, name: str) -> tuple[str, str]:
    """READY and LAG as ``get trigger -o wide`` shows them."""
    header, line = system.run("get", "trigger", name, "-o", "wide").stdout.splitlines()
    return line.split()[1], line[: header.index("LAG") + len("LAG")].split()[-1]  # numbers are right-aligned


def test_each_subscriber_has_exactly_what_matches(penstock_up: System, sink: Callable[[], Sink]) -> None:
    """Kept promise: 10,000 events, three filters, no event too many and none too few, lag 0 afterwards."""
    subscriber = sink()
    resources = [
        broker("busy"),
        trigger("all", "busy", subscriber.url + "/all"),
        trigger("created", "busy", subscriber.url + "/created", filter={"attributes": {"type": "order.created"}}),
        trigger(
            "not-web",
            "busy",
            subscriber.url + "/not-web",
            filters=[{"prefix": {"type": "order."}}, {"not": {"exact": {"source": "/web"}}}],
        ),
    ]
    apply(penstock_up, *resources)
    for event_type, source, count in [
        ("order.created", "/web", 6000),
        ("order.created", "/shop", 1000),
        ("order.shipped", "/depot", 2000),
        ("nothing.wanted", "/web", 1000),
    ]:
        sent = penstock_up.run("send", "broker/busy", "--type", event_type, "--source", source, "--count", str(count))
        assert sent.returncode == 0, sent.stderr

    expected = {"/all": 10_000, "/created": 7_000, "/not-web": 3_000}
    subscriber.wait_for(sum(expected.values()), timeout_seconds=90)
    names = ("all", "created", "not-web")
    until(lambda: all(lag_column(penstock_up, name) == ("True", "0") for name in names), "all Ready with lag 0", 30)
    assert Counter(request.path for request in subscriber.requests) == expected
    for path in expected:
        assert len({request.headers["ce-id"] for request in subscriber.at(path)}) == expected[path]
    remove(penstock_up, *resources)
