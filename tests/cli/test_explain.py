"""Promises of explain and tail where something is missing: the cause, and what to do."""

from collections.abc import Callable

from tests.cli.conftest import Bench

BROKER = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: orders}
"""


def test_without_a_dispatcher(controller: Bench, penstock: Callable[..., str]) -> None:
    """Kept promise: who cannot search says why, and what to look at."""
    penstock("apply", "-f", "-", stdin=BROKER)
    penstock("wait", "broker/orders", "--for=condition=TopicReady")
    done = controller.run("explain", "4711")
    assert done.returncode == 1
    assert "searched by the dispatcher, which is absent" in done.stderr
    assert "hint: `penstock logs dispatcher`" in done.stderr


def test_of_nothing(controller: Bench, penstock: Callable[..., str]) -> None:
    """Kept promise: a system without a broker is no mystery; nor is a broker that does not exist."""
    assert penstock("get", "brokers", "-o", "json")
    done = controller.run("explain", "4711")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no broker or channel holds any event" in done.stderr
    done = controller.run("tail", "broker/nowhere")
    assert done.returncode == 1
    assert "Broker/default/nowhere has no events" in done.stderr
    assert controller.run("explain").returncode == 2
    wrong = controller.run("tail", "broker/orders", "--filter", "LENGTH(")
    assert wrong.returncode == 1
