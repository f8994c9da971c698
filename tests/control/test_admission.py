"""What is stored is what was applied, plus what only the store may say."""

from datetime import timedelta

from penstock.control.admission import Stamp, admitted
from tests.control.objects import NOON, annotated, stored, trigger

LATER = Stamp(NOON + timedelta(hours=1), 7, lambda: "other")


def test_a_new_object_gets_its_identity() -> None:
    forged = trigger()
    forged["metadata"] |= {"uid": "mine", "generation": 99, "creationTimestamp": "2000-01-01T00:00:00Z"}
    forged["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    resource = stored(forged, uid="real")
    assert resource["metadata"]["uid"] == "real"
    assert resource["metadata"]["generation"] == 1
    assert resource["metadata"]["creationTimestamp"] == "2026-11-15T12:00:00Z"
    assert "status" not in resource


def test_the_same_again_changes_nothing() -> None:
    old = stored(trigger(), status={"observedGeneration": 1})
    assert admitted(trigger(), old, LATER) == (old, "unchanged")


def test_a_change_keeps_identity_and_status_and_counts() -> None:
    old = stored(trigger(), status={"observedGeneration": 1})
    new, verdict = admitted(trigger(delivery={"retry": 1}), old, LATER)
    assert verdict == "configured"
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert new["metadata"]["generation"] == 2
    assert new["metadata"]["resourceVersion"] == "7"
    assert new["status"] == old["status"]


def test_an_annotation_that_steers_delivery_is_a_new_generation() -> None:
    ordered = annotated(trigger(), **{"kafka.eventing.knative.dev/delivery.order": "ordered"})
    new, _ = admitted(ordered, stored(trigger()), LATER)
    assert new["metadata"]["generation"] == 2
