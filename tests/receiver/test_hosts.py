"""Promises of addresses by host: channels are known by one, and old senders use nothing else."""

from penstock.contract.model import Route
from penstock.kafka.connection import KafkaConnection
from penstock.receiver.routes import addresses, host_name
from tests.receiver.conftest import Address
from tests.receiver.running import Receiver, give_address, ids, records, take_address
from tests.waiting import until

HOST = "orders-kn-channel.shop.svc.cluster.local"


def test_a_host_leads_to_its_topic_whatever_the_path(
    receiver: Receiver, address: Address, kafka: KafkaConnection
) -> None:
    """A request to a route's host is accepted on every path but one that is known; health is not asked of it."""
    _, topic = give_address(kafka, "by-host", hosts=(HOST,))
    until(lambda: receiver.send("/", Host=HOST).status == 202, "the new host")
    hosts = [HOST, HOST.upper(), f"{HOST}:8080", f"{HOST}."]
    for number, host in enumerate(hosts):
        assert receiver.send(f"/whatever/{number}", Host=host, ce_id=f"host-{number}").status == 202
    assert receiver.send("/healthz", Host=HOST, ce_id="health").status == 202
    assert receiver.send(address.path, Host=HOST, ce_id="by-path").status == 202
    assert ids(records(kafka, topic)) == {"1", "health", *(f"host-{number}" for number in range(len(hosts)))}
    assert "by-path" in ids(records(kafka, address.topic))


def test_a_probe_by_host_is_answered(receiver: Receiver, kafka: KafkaConnection) -> None:
    """A probe of a known host answers 200 with its hash, on whatever path; of another host it does not."""
    give_address(kafka, "probed", hosts=("probed.local",))
    probe = {"K-Network-Probe": "probe", "K-Network-Hash": "abc"}
    until(lambda: receiver.ask("GET", "/", headers={**probe, "Host": "probed.local"}).status == 200, "the new host")
    answer = receiver.ask("GET", "/healthz", headers={**probe, "Host": "probed.local:80"})
    assert (answer.status, answer.headers.get("k-network-hash")) == (200, "abc")
    assert receiver.ask("GET", "/", headers={**probe, "Host": "other.local"}).status == 404


def test_an_unknown_host_is_named_and_its_health_is_ours(receiver: Receiver) -> None:
    """404 says which host leads nowhere; /healthz and /readyz on it are those of the receiver."""
    answer = receiver.send("/", Host="nobody.local")
    assert answer.status == 404
    assert "nobody.local" in answer.error
    for path in ("/healthz", "/readyz"):
        assert receiver.ask("GET", path, headers={"Host": "nobody.local"}).status == 200


def test_of_two_with_the_same_address_the_other_stays_when_one_goes(
    receiver: Receiver, kafka: KafkaConnection
) -> None:
    """Removing one of two resources with the same host leaves the other reachable there."""
    _, first = give_address(kafka, "twin-a", hosts=("twin.local",))
    _, second = give_address(kafka, "twin-b", hosts=("twin.local",))
    until(lambda: receiver.send("/tests/twin-b").status == 202, "both are known")
    assert receiver.send("/", Host="twin.local", ce_id="both").status == 202
    assert "both" in ids(records(kafka, first))
    take_address(kafka, "twin-a")
    until(lambda: receiver.send("/tests/twin-a").status == 404, "the first is gone")
    assert receiver.send("/", Host="twin.local", ce_id="one").status == 202
    assert "one" in ids(records(kafka, second))


def test_who_has_an_address_does_not_depend_on_who_came_first() -> None:
    """Every receiver decides alike between two resources with the same path, and a route without a path has none."""
    one, other = Route("/n/x", "one", hosts=("h",)), Route("/n/x", "other", hosts=("h", "i"))
    for by_key in (
        {"Broker/n/x": (one,), "KafkaChannel/n/x": (other,)},
        {"KafkaChannel/n/x": (other,), "Broker/n/x": (one,)},
    ):
        assert addresses(by_key) == ({b"/n/x": one}, {b"h": one, b"i": other})
    assert addresses({"Broker/n/x": (Route("", "none"),)}) == ({}, {})


def test_what_a_host_header_names() -> None:
    """Ports, capitals and the dot at the end do not count; there may be no host at all."""
    assert [host_name(each) for each in (b"A.b:80", b"a.B.", b"", b"a.b")] == [b"a.b", b"a.b", b"", b"a.b"]
