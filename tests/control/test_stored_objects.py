"""A stored object is read if everything that is done with resources works; else it is skipped, with a reason."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cli.columns import age_seconds
from penstock.control import json_content
from penstock.control.admission import Stamp, admitted
from penstock.control.kinds import BY_NAME, key_of
from penstock.control.metrics import oldest_first
from penstock.control.stored_objects import Unreadable, read
from tests.control.objects import (
    NOON,
    annotated,
    broker,
    channel,
    config_map,
    secret,
    service,
    sink,
    source,
    stored,
    subscription,
    trigger,
)

METADATA = stored(broker())["metadata"]
EVERY_KIND = [broker(), channel(), sink(), trigger(), subscription(), source(), service(), config_map(), secret()]


@pytest.mark.parametrize("applied", EVERY_KIND, ids=lambda each: each["kind"])
def test_what_was_stored_is_read_as_it_is(applied: dict[str, Any]) -> None:
    resource = stored(applied, status={"conditions": [{"type": "Ready", "status": "True"}], "annotations": {}})
    found = read(key_of(resource), json.dumps(resource).encode())
    assert (found.resource, found.problem) == (resource, "")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"metadata": None}, "no metadata"),
        ({"metadata": {"name": "orders", "namespace": "default"}}, "metadata.uid"),
        ({"metadata": METADATA | {"creationTimestamp": 5}}, "creationTimestamp"),
        ({"metadata": METADATA | {"creationTimestamp": "2026-01-01T00:00:00"}}, "creationTimestamp"),
        (
            {"metadata": {field: METADATA[field] for field in METADATA if field != "creationTimestamp"}},
            "creationTimestamp",
        ),
        ({"metadata": METADATA | {"deletionTimestamp": "soon"}}, "deletionTimestamp"),
        ({"metadata": METADATA | {"resourceVersion": "9" * 4300}}, "resourceVersion"),
        ({"metadata": METADATA | {"resourceVersion": "-1"}}, "resourceVersion"),
        ({"metadata": METADATA | {"generation": "5"}}, "generation"),
        ({"kind": "Unheard"}, "kind"),
        ({"kind": ["Broker"]}, "kind"),
        ({"spec": "text"}, "spec"),
        ({"spec": {"config": "text"}}, "form of a resource"),
        ({"spec": {"delivery": [1]}}, "form of a resource"),
        ({"status": {"conditions": ["Ready"]}}, "status.conditions"),
        ({"status": {"annotations": {"penstock.dev/topic-id": 7}}}, "status.annotations"),
        ({"status": {"annotations": {"penstock.dev/start-positions": "[]"}}}, "form of a resource"),
    ],
)
def test_what_would_break_the_others_is_skipped(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        read("Broker/default/orders", json.dumps({**stored(broker()), **change}).encode())


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield (*path, key)
        yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = copy.copy(value)
    copied[path[0]] = replaced(value[path[0]], path[1:], new)
    return copied


@pytest.mark.parametrize("applied", EVERY_KIND, ids=lambda each: each["kind"])
def test_whatever_is_read_can_be_changed_listed_and_counted(applied: dict[str, Any]) -> None:
    """Kept promise: a stored resource with a wrong value breaks no list, no metrics and no change of it."""
    well, other = stored(applied), stored(broker("zzz"))
    for path in places(well):
        for wrong in (5, "text", None, [], {}, ["a"], {"a": 1}, True, "9" * 4300):
            resource = replaced(well, path, wrong)
            try:
                found = read(key_of(well), json.dumps(resource).encode()).resource
            except Unreadable:
                continue
            now = Stamp(NOON, int(found["metadata"]["resourceVersion"]) + 1, lambda: "uid-2")
            changed, _ = admitted(applied | {"metadata": applied["metadata"] | {"labels": {"n": "1"}}}, found, now)
            assert int(changed["metadata"]["resourceVersion"]) == now.version
            assert len(oldest_first([found, other], BY_NAME.values())) == 2
            assert age_seconds(found) > 0


def test_a_resource_under_the_key_of_another_is_skipped() -> None:
    with pytest.raises(Unreadable, match="its own key is Broker/default/orders"):
        read("Broker/default/bills", json.dumps(stored(broker())).encode())


def test_invalid_unicode_is_replaced_and_reported() -> None:
    found = read("Broker/default/orders", json.dumps(annotated(stored(broker()), note="a\ud800b")).encode())
    assert found.resource["metadata"]["annotations"]["note"] == "a\ufffdb"
    assert "metadata.annotations.note" in found.problem


def test_json_that_is_written_out_can_be_read_by_everybody() -> None:
    deep: Any = []
    for _ in range(50_000):
        deep = [deep]
    value = {"a\ud800": [float("nan"), 10**5000, "b\udfff", deep], "plain": "\u00fc"}
    written = json.loads(json_content.as_bytes(value).decode(), parse_constant=pytest.fail)
    assert written["plain"] == "\u00fc"
    assert written["a\ufffd"][:3] == ["nan", f"a number of {(10**5000).bit_length()} bits", "b\ufffd"]


def test_every_problem_has_the_path_of_its_field() -> None:
    value = {"a": [1, {"b c": "\ud800"}], "d": float("inf"), "e": 2**64}
    assert {each.field for each in json_content.problems(value)} == {"a[1][b c]", "d", "e"}
