"""``penstock trigger test`` as people use it: no system runs."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PENSTOCK

TRIGGER = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: shop}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: picky}
spec:
  broker: shop
  filters:
    - exact: {type: order.created, source: /shop}
    - any:
        - prefix: {subject: eu-}
        - not: {exact: {region: us}}
    - cesql: "LENGTH(subject) > 3 AND INT(weight) > 5"
    - penstock.dev/cesql-data: "data.order.amount > 100"
  subscriber: {uri: "http://localhost:1"}
"""
WHOLE = {
    "specversion": "1.0",
    "type": "order.created",
    "source": "/shop",
    "subject": "eu-12",
    "weight": 7,
    "data": {"order": {"amount": 120.5}},
}
# What is changed in an event that matches, and why it then does not.
CHANGES: list[tuple[dict[str, object], str]] = [
    ({}, "all 4 filters match"),
    ({"source": "/web"}, 'filters[0].exact: source is "/web", which is not "/shop"'),
    ({"weight": "x"}, "filters[2].cesql: INT(weight) > 5 cannot be evaluated (cast)"),
    ({"weight": 5}, "filters[2].cesql: INT(weight) > 5 is false"),
    ({"subject": None}, "filters[2].cesql: LENGTH(subject) > 3 cannot be evaluated (missingAttribute)"),
    (
        {"data": {}},
        "filters[3].penstock.dev/cesql-data: data.order.amount > 100 cannot be evaluated (missingAttribute)",
    ),
    (
        {"subject": "us-12", "region": "us"},
        "filters[1].any: none matches "
        '(filters[1].any[0].prefix: subject is "us-12", which does not begin with "eu-"; '
        "filters[1].any[1].not: what it negates matches)",
    ),
]


def run(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PENSTOCK, "trigger", "test", *arguments],
        cwd=folder, input=stdin, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_each_event_has_its_reason(tmp_path: Path) -> None:
    """Kept promise: for an event that does not match, the part of the filter that said no."""
    (tmp_path / "trigger.yaml").write_text(TRIGGER)
    events = [WHOLE | {"id": str(number)} | change for number, (change, _) in enumerate(CHANGES)]
    lines = "\n".join(json.dumps(event) for event in events)
    done = run(tmp_path, "-f", "trigger.yaml", "--events", "-", "-o", "json", stdin=lines)
    assert done.returncode == 0, done.stderr
    expected = [
        {"id": str(number), "matched": number == 0, "because": because} for number, (_, because) in enumerate(CHANGES)
    ]
    assert json.loads(done.stdout) == expected
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["-f", "trigger.yaml"], "", "give either --event or --events"),
        (["-f", "trigger.yaml", "--events", "missing.jsonl"], "", "missing.jsonl cannot be read"),
        (["-f", "trigger.yaml", "--events", "-"], "", "there is no event in -"),
        (["-f", "trigger.yaml", "--events", "-"], "{}\n{", "line 1 of - is no event"),
        (["-f", "trigger.yaml", "--event", "-"], "[", "- is no JSON"),
        (["-f", "bad.yaml", "--event", "-"], "{}", "spec.filters[0].cesql: there is no function FOO"),
        (["-f", "none.yaml", "--event", "-"], "{}", "none.yaml holds 0 triggers"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, arguments: list[str], stdin: str, said: str) -> None:
    (tmp_path / "trigger.yaml").write_text(TRIGGER)
    (tmp_path / "none.yaml").write_text(TRIGGER.partition("---")[0])
    spec = {"broker": "b", "subscriber": {"uri": "http://h"}, "filters": [{"cesql": "FOO(1)"}]}
    bad = {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "metadata": {"name": "bad"}, "spec": spec}
    (tmp_path / "bad.yaml").write_text(json.dumps(bad))
    done = run(tmp_path, *arguments, stdin=stdin)
    assert done.returncode in (1, 2)
    assert said in done.stderr
