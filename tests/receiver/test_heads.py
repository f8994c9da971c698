"""A head that two servers could read differently is refused."""

from penstock.receiver.heads import flaw


def test_one_host_line_that_names_two_hosts_is_refused() -> None:
    """Kept promise: a proxy cannot route by one host what the receiver takes for the other."""
    assert flaw("1.1", {b"host": b"a.example, b.example"}, ((b"host", b"a.example, b.example"),))
    assert flaw("1.1", {b"host": b"a.example:8080"}, ((b"host", b"a.example:8080"),)) is None
