"""Where the lag of a subscription is looked up."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from penstock.contract.model import HOME, Agreement, Cluster, Route, Subscription
from penstock.control import names
from penstock.control.ingress import Topic
from penstock.control.lag import LagReader
from penstock.control.starts import Start, as_note
from penstock.control.world import World
from tests.control.objects import stored, trigger

FAR = Cluster("far:9092")
GUARDED = Cluster("guarded:9092", "default/login", "v1")


class AgreedOnly:
    """The contract, as far as the lag needs it."""

    def __init__(self, *agreements: Agreement) -> None:
        self._agreements = {each.uid: each for each in agreements}

    def agreements(self) -> dict[str, Agreement]:
        return self._agreements

    def subscriptions(self, key: str) -> tuple[Subscription, ...]:
        return self._agreements[key].subscriptions if key in self._agreements else ()


def found(noted: Cluster | None, *agreements: Agreement) -> list[Topic]:
    notes = {names.NOTED_START: as_note({"orders": Start("topic-id", {0: 7})})}
    if noted is not None:
        notes[names.NOTED_CLUSTER] = msgspec.json.encode(noted).decode()
    resource = stored(trigger(), status={"annotations": notes})
    world: Any = SimpleNamespace(contract=AgreedOnly(*agreements))
    return LagReader(cast(World, world)).topics(resource)


@pytest.mark.parametrize(("noted", "cluster"), [(None, HOME), (FAR, FAR)])
def test_a_trigger_without_an_agreement_is_looked_up_in_its_own_cluster(
    noted: Cluster | None, cluster: Cluster
) -> None:
    """Kept promise: also without a subscriber, the lag of a trigger and a reset concern the cluster of its topic. A
    reset never sets a group of the same name at home."""
    assert found(noted) == [Topic("orders", "topic-id", 1, cluster)]


def test_an_agreement_decides_where_the_topic_is() -> None:
    """Kept promise: what is served counts, not an older note."""
    agreed = Subscription("u", "Trigger", "default", "audit", "orders", "g", "http://x.example/", cluster=FAR)
    key = "Trigger/default/audit"
    assert found(GUARDED, Agreement(key, 1, subscriptions=(agreed,))) == [Topic("orders", "topic-id", 1, FAR)]


def test_a_login_is_not_used_after_its_agreement_is_gone() -> None:
    """Kept promise: a Secret that excludes the servers by now is not sent there to look up a lag."""
    assert found(GUARDED) == []
    newer = Route("/default/orders", "orders", cluster=msgspec.structs.replace(GUARDED, version="v2"))
    assert found(GUARDED, Agreement("broker", 1, routes=(newer,))) == [Topic("orders", "topic-id", 1, GUARDED)]
