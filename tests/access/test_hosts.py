"""Host names that an attacker cannot own, and all others."""

import pytest

from penstock.access.hosts import allowed_names, is_allowed, is_loopback, name_of
from penstock.errors import Misconfigured


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        ("localhost", "localhost"),
        ("Penstock.Example:8090", "penstock.example"),
        ("127.0.0.1:8090", "127.0.0.1"),
        ("[::1]:8090", "::1"),
        ("[::1]", "::1"),
        ("my_host-1:80", "my_host-1"),
    ],
)
def test_a_name_is_found_before_its_port(authority: str, name: str) -> None:
    assert name_of(authority) == name


@pytest.mark.parametrize(
    "authority",
    [
        "",
        ":",
        ":80",
        "a b",
        "a/b",
        "a@b",
        "a:b",
        "a:",
        "a:80:80",
        "a:-1",
        "a:٣",
        "[::1",
        "[a]",
        "::1",
        "-a",
        "a.",
        "é",
    ],
)
def test_text_that_is_not_a_host_has_no_name(authority: str) -> None:
    assert name_of(authority) is None


@pytest.mark.parametrize("name", ["localhost", "a.localhost", "127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_known_in_all_its_forms(name: str) -> None:
    assert is_loopback(name)


@pytest.mark.parametrize(
    "name", ["", "0.0.0.0", "::", "localhost.com", "127.0.0.1.com", "mylocalhost", "10.0.0.1", "127.1", "0177.0.0.1"]
)
def test_nothing_else_is_loopback(name: str) -> None:
    assert not is_loopback(name)


def test_the_address_that_a_request_came_to_is_allowed_and_its_neighbours_are_not() -> None:
    assert is_allowed("10.0.0.5:8090", "10.0.0.5", ())
    assert is_allowed("[fd00::5]:8090", "fd00:0::5", ())
    assert is_allowed("10.0.0.5", "::ffff:10.0.0.5", ())
    assert not is_allowed("10.0.0.6:8090", "10.0.0.5", ())
    assert not is_allowed("evil.example", "10.0.0.5", ())


@pytest.mark.parametrize("text", ["*", "http://a", "a/b", "a b", "a,,b c"])
def test_a_list_of_names_holds_names(text: str) -> None:
    with pytest.raises(Misconfigured, match="is not a host name"):
        allowed_names(text)


def test_ports_and_capitals_do_not_matter_in_the_list() -> None:
    assert allowed_names(" A.example:8443 ,b,::1,") == {"a.example", "b", "::1"}
