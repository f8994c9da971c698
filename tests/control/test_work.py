"""What is due is looked at once, in time, and failures wait longer each time."""

from penstock.control.dependents import dependents
from penstock.control.reconcile import Work, backoff_seconds
from tests.control.objects import broker, config_map, stored, trigger


def test_a_key_is_there_once_at_its_earliest_time() -> None:
    now = [0.0]
    work = Work(clock=lambda: now[0])
    work.add("a", after_seconds=5)
    work.add("b")
    work.add("a")
    work.add("a", after_seconds=9)
    assert work.take(0) == ["a", "b"]
    assert work.take(0) == []


def test_what_is_not_due_stays() -> None:
    now = [0.0]
    work = Work(clock=lambda: now[0])
    work.add("a", after_seconds=5)
    assert work.take(0) == []
    now[0] = 5.0
    assert work.take(0) == ["a"]


def test_backoff_grows_and_ends() -> None:
    waits = [backoff_seconds(n) for n in range(20)]
    assert waits[:3] == [0.1, 0.2, 0.4]
    assert max(waits) == waits[-1] == 5.0


def test_a_change_reaches_whoever_reads_it() -> None:
    ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "orders"}
    own, chained = stored(trigger("own")), stored(trigger("chained", broker="other", subscriber={"ref": ref}))
    stranger = stored(trigger("stranger", broker="other"))
    configured = stored(broker(config={"kind": "ConfigMap", "name": "kafka-config"}))
    everything = [own, chained, stranger, configured]
    assert dependents(everything, stored(broker())) == ["Trigger/default/own", "Trigger/default/chained"]
    assert dependents(everything, stored(config_map())) == ["Broker/default/orders"]
    assert dependents(everything, own) == []
