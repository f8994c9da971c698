"""Events that would come back to where they came from: found before anything is sent."""

from typing import Any

import msgspec
import pytest

from penstock.contract.model import Agreement, Cluster, Delivery, Route, Subscription
from penstock.control.loops import Map, is_same_address

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


THE_SAME = [
    "http://127.0.0.1:8080/default/a",
    "http://127.0.0.1:8080/default/a/",
    "http://127.0.0.1:8080/default/a?x=1",
    "HTTP://LOCALHOST:8080/default/a",
    "http://localhost.:8080/default/a",
    "http://me.localhost:8080/default/a",
    "http://user:pw@127.1:8080/default/a",
    "http://127.0.0.2:8080/default/a",
    "http://0.0.0.0:8080/default/a",
    "http://[::1]:8080/default/a",
    "http://[::ffff:127.0.0.1]:8080/default/a",
]


@pytest.mark.parametrize("url", THE_SAME)
def test_every_spelling_of_an_address_is_found(url: str) -> None:
    """Kept promise: places are compared, not text: a subscriber or a dead letter sink that leads to the topic of its
    own events is found however it is written."""
    loop = known().loop(reader("self", "a", url))
    assert loop is not None
    assert loop.is_endless
    failing = msgspec.structs.replace(
        reader("failing", "a", "http://sink.example/"), delivery=Delivery(dead_letter_url=url)
    )
    assert known().returns_dead_letters(failing)
    assert not known().returns_dead_letters(msgspec.structs.replace(failing, topic="topic-b"))
    assert is_same_address(url, f"{INGRESS}/default/a")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8081/default/a",
        "https://127.0.0.1:8080/default/a",
        "http://127.0.0.1/default/a",
        "http://127.0.0.1:99999/default/a",
        "http://sink.example:8080/default/a",
        "http://10.0.0.1:8080/default/a",
        "http://127.0.0.1:8080/default/aa",
    ],
)
def test_another_address_is_no_loop(url: str) -> None:
    """Kept promise: a different port, scheme, host or path is a different address, and is served."""
    assert known().loop(reader("out", "a", url)) is None
    assert not is_same_address(url, f"{INGRESS}/default/a")


def test_an_ingress_with_a_name_is_found_by_its_name() -> None:
    """Kept promise: the port of the scheme may be left out, and loopback is not taken for a named ingress."""
    drawn = Map([route("a")], "http://events.example")
    assert drawn.loop(reader("self", "a", "http://Events.example:80/default/a/")) is not None
    assert drawn.loop(reader("out", "a", "http://localhost/default/a")) is None


def test_a_sink_with_the_topic_of_a_source_is_found() -> None:
    """Kept promise: also a resource of another name that writes to the topic of the subscription is found."""
    dead = Delivery(dead_letter_url="http://c-kn-channel.default.svc/")
    assert known().returns_dead_letters(msgspec.structs.replace(reader("x", "c", "http://y.example/"), delivery=dead))
    assert not known().returns_dead_letters(reader("x", "c", "http://y.example/"))
