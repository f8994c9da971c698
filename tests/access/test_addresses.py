"""No connection to a cloud's metadata service, in any spelling; none to private networks if they are refused."""

import pytest

from penstock.access.addresses import ALWAYS, AddressPolicy, is_host, is_plain_authority, literal_address
from penstock.errors import Misconfigured

CLOSED = AddressPolicy("refuse")

NEVER = [
    "169.254.169.254", "169.254.170.2", "fe80::1", "fe80::1%eth0", "168.63.129.16", "100.100.100.200", "192.0.0.192",
    "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254", "::169.254.169.254", "::ffff:0:169.254.169.254",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1",
    "2001:db8::5efe:a9fe:a9fe", "64:ff9b::6464:64c8", "2002:a83f:8110::",
    "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:0:a9:fea9:fe00:0",
    "fd00:ec2::23", "fd00:42::42", "fd00:c1::a9fe:a9fe",
]  # fmt: skip
PRIVATE = [
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "0.0.0.0", "192.0.0.1", "198.18.0.1",
    "192.0.2.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::10.0.0.1", "::ffff:10.0.0.1",
    "64:ff9b::a00:1", "64:ff9b:1::808:808", "2002:808:808::1", "2001::1", "fc00::1", "fd12::1", "fec0::1", "ff02::1",
    "2001:db8::1", "3fff::1", "5f00::1", "100::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", NEVER)
def test_a_metadata_service_is_never_connected_to(address: str) -> None:
    """Kept promise: not by default, not by policy, and not through an address that a gateway translates."""
    assert ALWAYS.refusal(address)
    assert CLOSED.refusal(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_refused_where_private_networks_are_closed(address: str) -> None:
    assert CLOSED.refusal(address)
    assert not ALWAYS.refusal(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_reached_under_either_policy(address: str) -> None:
    assert not ALWAYS.refusal(address)
    assert not CLOSED.refusal(address)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"), ("0x7f000001", "127.0.0.1"), ("2852039166", "169.254.169.254"),
        ("0251.0376.0251.0376", ""), ("127.1", "127.0.0.1"), ("::1", "::1"),
        ("1.example", ""), ("kafka", ""), ("", ""),
    ],
)  # fmt: skip
def test_numeric_hosts_are_read_as_the_resolver_reads_them(host: str, address: str) -> None:
    assert literal_address(host) == address


@pytest.mark.parametrize("servers", ["169.254.169.254:9092", "kafka:9092,2852039166:80", "[fd00:ec2::254]:9092"])
def test_no_kafka_client_is_made_for_a_metadata_service(servers: str) -> None:
    with pytest.raises(Misconfigured, match="metadata service"):
        ALWAYS.check_servers(servers, "Kafka at")


def test_a_name_is_judged_by_what_it_resolves_to() -> None:
    """Kept promise: if private networks are refused, a name for this host is refused too."""
    with pytest.raises(Misconfigured, match=r"localhost \(.*\) is not public"):
        CLOSED.check_host("localhost", "Kafka at")
    ALWAYS.check_host("localhost", "Kafka at")
    ALWAYS.check_host("no-such-name.invalid", "Kafka at")  # the client that connects reports it


NO_HOSTS = [
    "8.8.8.8\r\n@169.254.169.254/x?y#", "1.2.3.4%@169.254.169.254/x?y#", "1.2.3.4 @169.254.169.254/x",
    "8.8.8.8%\r\nX: y", "2001:db8::1%]@evil/", "8.8.8.8%eth0", "fe80::1%eth0", "127.0.0.1\n", "127.0.0.1\t",
    "127.0.0.1 ", " 127.0.0.1", "127.1 x", "[::1]", "::1]", "a\n", "a b", "a@b", "a:80", "a/b", "a?b", "a#b", "a\\b",
    "a..b", ".a", "-a", "a-", "\uff11.1.1.1", "1\u30022.3.4", "", "a" * 254,
]  # fmt: skip


@pytest.mark.parametrize("text", NO_HOSTS)
def test_what_is_more_than_a_host_is_none(text: str) -> None:
    """Kept promise: no part of the text is ignored when a host is read, also not after a percent sign or a space."""
    assert not is_host(text)


@pytest.mark.parametrize(
    "text",
    [
        "kafka",
        "a.example.",
        "my_host",
        "1.example",
        "01.example",
        "8.8.8.8",
        "127.1",
        "0.0.0.0",
        "10.0.0.1",
        "2001:db8::1",
    ],
)
def test_names_and_addresses_are_hosts(text: str) -> None:
    """A name, also with a dot at its end, and an address in each of its forms."""
    assert is_host(text)


@pytest.mark.parametrize("text", [each for each in NO_HOSTS if each not in ("", "[::1]", "a@b", "a:80")])
def test_a_url_is_for_a_host_that_all_parsers_find(text: str) -> None:
    """The same holds for the authority of a URL."""
    assert not is_plain_authority(text)
    assert not is_plain_authority(f"user:password@{text}:80")


@pytest.mark.parametrize("text", ["a@b@c", "a\\@b", "a:b:c", "a:80x", "[a]", "::1", "[fe80::1%25eth0]:80", "@", "a@"])
def test_an_authority_with_two_meanings_is_refused(text: str) -> None:
    """Text that parsers cut in different ways is no authority."""
    assert not is_plain_authority(text)


@pytest.mark.parametrize(
    "text", ["a", "a:80", "a:", "[::1]", "[::1]:80", "u@a", "u:p@a:80", "127.0.0.1:80", "u:p%40@a"]
)
def test_an_authority_has_a_host_and_may_have_more(text: str) -> None:
    """User, password and port are allowed."""
    assert is_plain_authority(text)


@pytest.mark.parametrize(
    "servers",
    [
        "169.254.169.254",
        "kafka:9092,169.254.169.254",
        "[fd00:ec2::254]",
        "169.254.169.254%:80",
        "SSL://169.254.169.254:80",
    ],
)
def test_a_server_is_checked_in_every_form(servers: str) -> None:
    """Kept promise: no text that a Kafka client takes for a server goes unchecked, also without a port."""
    with pytest.raises(Misconfigured):
        ALWAYS.check_servers(servers, "Kafka at")


@pytest.mark.parametrize(
    "text",
    [
        "0169.0254.0169.0254", "169.254.169.254.", "1.2.3.4.5", "256.1.1.1", "0xa9.0xfe.0xa9.0xfeg.1", "a.0x7f",
        "a.1", "a.1.", "kafka.0x", "127.0.0.08", "99999999999", "168.63.129.016", "010.0.0.1", "00.0.0.1", "0177.1",
        "0xa9.0376.1.1", "017700000001", "8.8.8.08.",
    ],
)  # fmt: skip
def test_a_name_that_ends_in_a_number_is_no_host(text: str) -> None:
    """Kept promise: no address passes as a name in a form that only some resolvers read as an address."""
    assert not is_host(text)
    with pytest.raises(Misconfigured, match="is not a host"):
        ALWAYS.check_servers(f"{text}:80", "Kafka at")
