"""A head that two servers could read differently is refused."""

import pytest

from penstock.receiver.heads import flaw


def _flaw(host: bytes, target: bytes = b"/") -> str | None:
    return flaw("1.1", {b"host": host}, ((b"host", host),), target)


def test_one_host_line_that_names_two_hosts_is_refused() -> None:
    """Kept promise: a proxy cannot route by one host what the receiver takes for the other."""
    assert flaw("1.1", {b"host": b"a.example, b.example"}, ((b"host", b"a.example, b.example"),))
    assert flaw("1.1", {b"host": b"a.example:8080"}, ((b"host", b"a.example:8080"),)) is None


@pytest.mark.parametrize(
    "host",
    [
        b"a, b", b"a,", b"a b@c", b"a@b", b"a b", b"http://a", b"a/b", b"a?b", b"a#b", b"a\\b", b"a:b", b"a:80:80",
        b"[::1", b"::1", b"[g]", b"a:123456", b"a%2fb", b"\xe4", b"a\x0bb", b"a\n",
    ],
)  # fmt: skip
def test_a_host_that_is_more_than_a_host_is_refused(host: bytes) -> None:
    """Kept promise: there is one way to read the host of a request."""
    assert _flaw(host)


@pytest.mark.parametrize(
    "host", [b"a", b"A.b.:80", b"a_b", b"127.0.0.1:8080", b"[::1]", b"[::1]:80", b"a:", b"", b"a \t"]
)
def test_a_host_may_have_a_port(host: bytes) -> None:
    """Names, addresses and ports are hosts; an empty one is legal."""
    assert _flaw(host) is None


@pytest.mark.parametrize(
    ("target", "host", "is_fine"),
    [
        (b"http://a/x", b"a", True), (b"HTTP://A:80/x", b"a", True), (b"http://a/x", b"a:80", True),
        (b"https://a/x", b"a:443", True), (b"http://[::1]:8080/x", b"[::1]:8080", True), (b"http://a", b"a:", True),
        (b"http://a/x", b"b", False), (b"http://a:81/x", b"a", False), (b"http://a/x", b"a:81", False),
        (b"http://u@a/x", b"a", False), (b"http://a/x", b"", False), (b"http://a:99999/x", b"a", False),
        (b"/http://b/", b"a", True), (b"*", b"a", True),
    ],
)  # fmt: skip
def test_a_target_with_another_host_is_refused(target: bytes, host: bytes, is_fine: bool) -> None:
    """Kept promise: the host of a target in absolute form and the header Host are the same."""
    assert (_flaw(host, target) is None) == is_fine
