"""Events that would come back to where they came from: found before anything is sent."""

from typing import Any

from penstock.contract.model import Agreement, Cluster, Route, Subscription
from penstock.control.loops import Map

INGRESS = "http://127.0.0.1:8080"
FILTERED: tuple[dict[str, Any], ...] = ({"exact": {"type": "a"}},)


def route(name: str, *, cluster: Cluster = Cluster(), hosts: tuple[str, ...] = ()) -> Agreement:  # noqa: B008
    return Agreement(name, 1, routes=(Route(f"/default/{name}", f"topic-{name}", cluster=cluster, hosts=hosts),))


def reader(name: str, of: str, url: str, filters: tuple[dict[str, Any], ...] = ()) -> Subscription:
    return Subscription(f"uid-{name}", "Trigger", "default", name, f"topic-{of}", "g", url, filters=filters)


def known(*subscriptions: Subscription) -> Map:
    channel = route("c", hosts=("c-kn-channel.default.svc",))
    return Map(
        [route("a"), route("b"), channel, *(Agreement(each.uid, 1, subscriptions=(each,)) for each in subscriptions)],
        INGRESS,
    )


def test_a_trigger_whose_subscriber_is_its_own_broker_never_ends() -> None:
    loop = known().loop(reader("self", "a", f"{INGRESS}/default/a/", FILTERED))
    assert loop is not None
    assert (loop.is_endless, loop.shown) == (True, "trigger default/self → trigger default/self")


def test_a_way_round_through_others_is_found_by_path_and_by_host() -> None:
    back = reader("back", "b", "http://c-kn-channel.default.svc/")
    home = reader("home", "c", f"{INGRESS}/default/a")
    loop = known(back, home).loop(reader("out", "a", f"{INGRESS}/default/b"))
    assert loop is not None
    assert loop.is_endless
    assert loop.shown == ("trigger default/out → trigger default/back → trigger default/home → trigger default/out")


def test_where_filters_stand_between_it_may_be_meant() -> None:
    back = reader("back", "b", f"{INGRESS}/default/a", FILTERED)
    loop = known(back).loop(reader("out", "a", f"{INGRESS}/default/b"))
    assert loop is not None
    assert not loop.is_endless


def test_what_leads_elsewhere_is_no_loop() -> None:
    out = reader("out", "a", f"{INGRESS}/default/b")
    assert known(reader("on", "b", f"{INGRESS}/default/c")).loop(out) is None
    assert known().loop(reader("away", "a", "http://127.0.0.1:9999/default/a")) is None
    round_elsewhere = known(reader("x", "b", f"{INGRESS}/default/c"), reader("y", "c", f"{INGRESS}/default/b"))
    assert round_elsewhere.loop(out) is None


def test_a_topic_of_the_same_name_elsewhere_is_another_one() -> None:
    foreign = Map([route("a", cluster=Cluster("other:9092"))], INGRESS)
    assert foreign.loop(reader("bridge", "a", f"{INGRESS}/default/a")) is None
