"""Filters through a running broker: what is missing, what cannot be evaluated, and what the data says."""

import json
import re
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from tests.conftest import System
from tests.sink import Sink
from tests.system.resources import apply, broker, remove, trigger
from tests.waiting import until

# By the path of the subscriber: its filters, and the ids of the events that it must get, and no others.
WANTED: dict[str, tuple[list[dict[str, Any]], set[str]]] = {
    "not-exact": ([{"not": {"exact": {"region": "eu"}}}], {"us", "bare", "sum"}),
    "not-prefix": ([{"not": {"prefix": {"region": "e"}}}], {"us", "bare", "sum"}),
    "not-suffix": ([{"not": {"suffix": {"region": "u"}}}], {"us", "bare", "sum"}),
    "prefix": ([{"prefix": {"region": "e"}}], {"eu"}),
    "suffix": ([{"suffix": {"region": "s"}}], {"us"}),
    "any": ([{"any": [{"prefix": {"region": "e"}}, {"exact": {"type": "t.bare"}}]}], {"eu", "bare"}),
    "any-suffix": ([{"any": [{"suffix": {"color": "d"}}, {"suffix": {"region": "s"}}]}], {"us"}),
    "all": (
        [{"all": [{"prefix": {"type": "t."}}, {"not": {"exact": {"color": "red"}}}]}],
        {"eu", "us", "bare", "sum"},
    ),
    "cesql": ([{"cesql": "region = 'eu' OR type = 't.us'"}], {"eu", "us"}),
    "not-cesql": ([{"not": {"cesql": "region = 'eu'"}}], {"us", "bare", "sum"}),
    "exists": ([{"cesql": "NOT EXISTS region AND type LIKE 't.b%'"}], {"bare"}),
    "data": ([{"penstock.dev/cesql-data": "data.order.amount > 100"}], {"sum"}),
    "overflow": ([{"cesql": "2147483647 + LENGTH(id) > 0"}], set()),
    "zero": ([{"cesql": "10 / (LENGTH(id) - LENGTH(id)) = 1"}], set()),
    "nonsense": ([{"cesql": "INT(type) > 0"}], set()),
}
EVENTS: dict[str, tuple[dict[str, str], bytes]] = {
    "eu": ({"region": "eu"}, b'{"order": {"amount": 99.5}}'),
    "us": ({"region": "us"}, b"no JSON"),
    "bare": ({}, b""),
    "sum": ({}, b'{"order": {"amount": 100.5}}'),
}


def send(system: System, id_: str, extensions: Mapping[str, str], data: bytes) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": id_, "ce-source": "/s", "ce-type": f"t.{id_}"}
    headers |= {f"ce-{name}": value for name, value in extensions.items()} | {"content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{system.ingress_url}/default/filtered", data, headers)).read()


def filter_errors(system: System) -> dict[tuple[str, str], int]:
    text = urllib.request.urlopen(f"{system.admin_url}/metrics").read().decode()
    found = re.findall(r'penstock_filter_errors_total\{.*name="(.*?)",error="(.*?)"\} (\d+)', text)
    return {(name, error): int(count) for name, error, count in found}


def test_filters_end_to_end(penstock_up: System, sink: Callable[[], Sink]) -> None:
    """Kept promise: a missing attribute matches as the spec says, and what cannot be evaluated harms nobody."""
    subscriber = sink()
    names = {path: f"filter-{path}" for path in WANTED}
    resources = [
        broker("filtered"),
        *(trigger(names[path], "filtered", f"{subscriber.url}/{path}", filters=f) for path, (f, _) in WANTED.items()),
        trigger("everything", "filtered", f"{subscriber.url}/everything"),
    ]
    apply(penstock_up, *resources)
    for id_, (extensions, data) in EVENTS.items():
        send(penstock_up, id_, extensions, data)
    expected = {(f"/{path}", id_) for path, (_, ids) in WANTED.items() for id_ in ids}
    expected |= {("/everything", id_) for id_ in EVENTS}

    def came() -> list[tuple[str, str]]:
        return sorted((each.path, each.headers["ce-id"]) for each in subscriber.requests)

    subscriber.wait_for(len(expected), timeout_seconds=60)
    assert came() == sorted(expected)

    counted = {
        (names["overflow"], "math"): 4,
        (names["zero"], "math"): 4,
        (names["nonsense"], "cast"): 4,
        (names["cesql"], "missingAttribute"): 2,
        (names["not-cesql"], "missingAttribute"): 2,
        (names["data"], "missingAttribute"): 2,
    }

    def is_counted() -> bool:
        found = filter_errors(penstock_up)
        return all(found.get(key, 0) >= count for key, count in counted.items())

    until(is_counted, "every error is counted by trigger and kind")
    assert {key for key in filter_errors(penstock_up) if key[0] in names.values()} == counted.keys()
    log = (penstock_up.data_dir / "logs" / "dispatcher.log").read_text()
    samples = re.findall(
        r"the filter of trigger default/filter-zero could not be evaluated \(math\).* offset \d+", log
    )
    assert 1 <= len(samples) <= 4  # one a minute, from each worker
    remove(penstock_up, *resources)


def test_a_filter_that_cannot_be_read_is_refused_with_a_caret(penstock_up: System) -> None:
    """Kept promise: invalid CESQL never reaches the stream; the message shows where it is wrong."""
    wrong = trigger("wrong", "filtered", "http://localhost/", filters=[{"all": [{"cesql": "type = AND 5"}]}])
    refused = penstock_up.run("apply", "-f", "-", stdin=json.dumps(wrong))
    assert refused.returncode == 1
    assert "spec.filters[0].all[0].cesql: 'AND' is not expected here\n  type = AND 5\n         ^" in refused.stderr
